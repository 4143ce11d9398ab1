// Package timeline records the history of each pod of an agent, and shows it: as an HTML page with
// a chart, and as a trace for Perfetto and chrome://tracing. A program imports it to show what
// happened to a pod.
//
//	history := timeline.New(timeline.Config{NodeName: "edge-7"})
//	history.Observe(&config)
//	agent, err := agent.New(config)
//	// server.Config.Timeline: history
//
// A [Timeline] receives observer calls, and the reported statuses. It starts no goroutine, and
// costs nothing if it is not used. Its size is limited, for each pod and in total: the oldest
// entries are dropped first, and those of finished pods before others.
//
// # Recorded events
//
// For a pod: its phases, why it was stopped, its sandboxes, slow or failed volumes, and failed
// syncs. For its containers: when each instance ran and how it exited, its waiting reasons
// (CrashLoopBackOff and the like), pulls, starts, handlers, failing probes, stops. Starts, stops
// and sandboxes have the reason in the plan.
//
// Running containers are recorded from the statuses, so they begin at the time that the runtime
// reports, which may be before the agent was started.
//
// # Events that are not recorded
//
// Commands, environments, arguments, labels, termination messages, error texts, and responses or
// output of probes. Pod names, containers, images and volumes are recorded, and reasons: those of
// package actions, of statuses, and of errors that have one.
package timeline

// The files:
//
//	timeline.go  Config, Timeline, and the result: Pod, entry
//	record.go    the record of a pod; bounds.go its limits
//	observe.go   entries from observers; status.go entries from statuses
//	lanes.go     arranges overlapping entries
//	trace.go     Chrome's trace event format
//	page.go      the page: page_html.go, and its script page_draw.go, page_input.go
//	serve.go     serves both
