// Package faults describes an in-memory runtime's faults: faults of calls and of events, random faults, and
// restarts. The methods of [github.com/podsync/podsync/runtime/cri/critest.Runtime] inject them.
//
//	released := new(faults.Gate)
//	_, err := rt.Inject(faults.Fault{Match: faults.Match{Method: critest.StopContainer}, Hang: released})
//
// A [Fault] selects calls by method, pod, container or other criteria, and applies to a number of them or to all. An
// [Event] does the same for events. These are the known runtime faults:
//
//	F1  hang until released                 Fault{Hang: new(Gate)}; with IgnoreCancel it succeeds late
//	F2  done, but the response is an error  Fault{When: After, Err: err}
//	F3  refused before any effect           Fault{Err: err}
//	F4  name reserved while half done       Fault{When: Midway, Hang: gate}, Runtime.HoldName
//	F5  wrong states and times              Runtime.EditContainer, Runtime.EditSandbox, Runtime.StepClock
//	F6  list and inspect disagree           Runtime.Hide, or F3 on a status
//	F7  removed behind the agent's back     Runtime.Remove
//	F8  restart of the runtime              Runtime.Restart, with the effect on running objects
//	F9  event stream                        Drop, Duplicate, Reorder, Delay, Timeless, Bare;
//	                                        Runtime.DisconnectEvents
//	F10 exec hangs or fails                 F1 and F3 on ExecSync, by its Command
//	F11 process that does not stop          trap '' TERM; IgnoreSignals
//	F12 address late, missing, vanishing    Fault{IPAfter: d}, Never, Runtime.EditSandbox
//	F13 pull hangs, fails, needs a secret   F1 to F3 on PullImage; RemoteImage, Runtime.SetCredentials
//	F14 agent stopped between two calls     Runtime.CrashAfter, Runtime.OnCall
//
// Runtime.ExitContainer ends a process, for example as OOMKilled. Runtime.SetRandom injects random faults into calls and
// events from a seed.
//
// To crash an agent after every call of a scenario, count its calls once and repeat it for each k:
//
//	rt.CrashAfter(k, func() { conn.Close(); cancel() })
//
// and then start a new agent on a new Runtime.Dial.
//
//	fault.go    faults of calls; gate.go what holds a call
//	event.go    faults of events
//	random.go   random faults
//	restart.go  restarts, and views that disagree
package faults
