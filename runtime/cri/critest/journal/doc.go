// Package journal has the calls that a runtime in memory got, in order of arrival, and the
// processes that really ran, for tests to ask. [github.com/podsync/podsync/runtime/cri/critest]
// fills it: see Runtime.Journal and Runtime.Processes there.
//
//	started := rt.Journal().Of(critest.StartContainer).Container("app").Count()
//
//	call.go     one call, without secrets when it is printed
//	journal.go  many calls, and the questions to them
//	process.go  what ran
package journal
