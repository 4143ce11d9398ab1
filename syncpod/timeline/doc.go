// Package timeline remembers what happened to each pod of an agent, and shows it: as a page
// with a chart that a person reads, and as a trace that Perfetto and chrome://tracing open.
//
//	history, err := timeline.New(timeline.Config{NodeName: "edge-7"})
//	history.Observe(&config)
//	agent, err := loop.New(config)
//	// server.Config.Timeline: history
//
// A [Timeline] is told by observers, and by the statuses that are reported. It starts
// nothing, and an agent without one does nothing for it. What it remembers is bounded, for
// each pod and altogether: the oldest goes first, pods that are over before others.
//
// # What is told
//
// Of a pod: its phases, why it was stopped, its sandboxes, volumes that took their time or
// failed, and work that failed. Of its containers: when each instance ran and how it ended,
// what it waited for (CrashLoopBackOff and the like), pulls, starts, handlers, probes while
// they fail, stops. Starts, stops and sandboxes have the reason that the plan gave them.
//
// What runs is told as the statuses have it, so that it begins when the runtime says that it
// began, which may be before the agent was started.
//
// # What is not
//
// No command, environment, argument or label; no termination message, no text of an error
// and nothing that a probe has answered or printed. Names of pods, containers, images and
// volumes are there, and reasons: the words of package actions, of statuses and of errors
// that have one.
//
//	timeline.go  Config, Timeline, and what there is to see: Pod, Entry
//	record.go    what is remembered of a pod; bounds.go how much of it
//	observe.go   what observers tell; status.go what statuses do
//	lanes.go     what is drawn beside each other, as it overlaps
//	trace.go     Chrome's trace event format
//	page.go      the page: page_html.go, and its script page_draw.go, page_input.go
//	serve.go     serves both
package timeline
