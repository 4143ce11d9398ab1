// Package source says which pods should run on a node: from a folder of manifests, or
// from the program itself. It keeps no pod running, that is for package
// [github.com/podsync/podsync/syncpod/loop], and needs nothing of it: whoever wants
// pods as an API server would have made them of manifests can run a source alone.
//
//   - A [Source] delivers a [Snapshot] of all that it wants, each time something of it
//     changes. It is an interface, for sources of your own.
//   - A [Folder] is a Source of manifests, as a kubelet's staticPodPath: pods, and the
//     ConfigMaps and Secrets that they refer to. What is wrong with a manifest is a
//     [ManifestError].
//   - A [Push] is a Source of the pods that a program hands to it. [NewPush] is for
//     pods as an API server has them, [NewStaticPush] for static ones.
//   - A [Poll] is a Source of the pods that a function returns, which it calls in an interval.
//   - A [Remembered] is the Source of another one's pods that it remembers in a file, for
//     nodes that are started while their server is away.
//
// No pod is stopped because something cannot be read: a Snapshot has what was read
// before in its place, and says that it may not be complete.
//
// Nothing is read, watched or started before Run.
//
// # Where each rule lives
//
//	source.go        Source and Snapshot
//	push.go          Push
//	poll.go          Poll
//	folder.go        Folder: which manifests there are
//	folder_run.go    when they are read; folder_watch.go hears of changes
//	folder_file.go   one file, and what was read of it before
//	folder_merge.go  which of several objects with one name counts
//	manifest.go      from text to pods; configmap.go to ConfigMaps and Secrets;
//	                 document.go from YAML to JSON, and tree.go within which limits
//	remembered.go          Remembered: when what is remembered is delivered
//	remembered_keep.go     when it is written, and when that it was confirmed
//	remembered_pods.go     what is remembered of pods beside what the source has said;
//	                       remembered_objects.go of what they refer to, and
//	                       remembered_answers.go when that counts
//	remembered_file.go     the file: its format, encryption, and how it is replaced
//	error.go         what is wrong with a manifest: yaml.go with its YAML, and
//	                 misfit.go with the types of its fields, and json.go with all values of a key
package source
