// Package source provides the pods that should run on a node: from a manifest folder, or from the program itself.
// It does not run pods; package [github.com/podsync/podsync/syncpod/loop] does. A source can be used alone, by
// programs that need pods as an API server would have created them from manifests.
//
//   - A [Source] delivers a [Snapshot] of its desired pods, each time it changes. It is an interface, for sources
//     of your own.
//   - A [Folder] is a Source of manifests, like a kubelet's staticPodPath: pods, and the ConfigMaps and Secrets
//     that they refer to. An error in a manifest is a [ManifestError].
//   - A [Push] is a Source of the pods that a program passes to it. [NewPush] is for pods from an API server,
//     [NewStaticPush] for static ones.
//   - A [Poll] is a Source of the pods that a function returns, which it calls periodically.
//   - A [Checkpoint] is a Source that persists the pods of another one in a file, for nodes that start while
//     their server is unavailable.
//
// No pod is stopped because something cannot be read: the Snapshot then contains the last version,
// and is marked as incomplete.
//
// Nothing is read, watched or started before Run.
package source

// Where each rule lives:
//
//	source.go        Source and Snapshot
//	push.go          Push
//	poll.go          Poll
//	folder.go        Folder: the objects of all manifests
//	folder_run.go    when files are read; folder_watch.go watches for changes
//	folder_file.go   one file, and its last version
//	pullsecrets.go   the Secrets for pulls of images
//	folder_preview.go  the snapshot with other files
//	folder_merge.go  which of several objects with one name takes precedence
//	manifest.go      from text to pods; configmap.go to ConfigMaps and Secrets;
//	                 document.go from YAML to JSON, and tree.go its limits
//	checkpoint.go          Checkpoint: when the checkpoint is delivered
//	checkpoint_keep.go     when it is written, and when it is confirmed
//	checkpoint_pods.go     merges the checkpoint with the source's snapshots;
//	                       checkpoint_objects.go objects that pods refer to, and
//	                       checkpoint_answers.go when the checkpoint is used for them
//	checkpoint_file.go     the file: its format, encryption, and replacement
//	error.go         errors in a manifest: yaml.go of its YAML, misfit.go of the
//	                 types of its fields, and json.go of all values of a key
