// Package journal has the calls that an in-memory runtime received, in order of arrival, and the
// processes that really ran. Tests query them. [github.com/podsync/podsync/runtime/cri/critest]
// records them: see Runtime.Journal and Runtime.Processes there.
//
//	started := rt.Journal().Of(critest.StartContainer).Container("app").Count()
//
//	call.go     one call, printed without secrets
//	journal.go  many calls, and their queries
//	process.go  a process that ran
package journal
