// Package critest is a container runtime in memory, for tests of node agents
// and for trying them out: it speaks CRI v1 over real gRPC and needs no root.
//
// An agent cannot tell it from a runtime by what it is answered. How we know:
// package conformance says in sentences what an agent relies on, and these rules
// hold on critest, on containerd 1.6 and 2.4 and on CRI-O 1.34. Beyond that the
// project's end-to-end tests compare codes with those of these runtimes.
//
// # A test in virtual time
//
// Time is package time, and no goroutine outlives [Runtime.Close]. So a whole
// agent can be tested in a [testing/synctest] bubble, where a stop of 30 s and
// a back-off of 5 min take no time, and where a goroutine that is left behind
// fails the test:
//
//	func TestAgentStopsADeafPod(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			rt, conn := critest.Start(t, critest.Config{})
//			agent := startMyAgent(t, conn) // conn is a *grpc.ClientConn
//			agent.Add(podRunning("sh", "-c", "trap '' TERM; sleep infinity"))
//			time.Sleep(time.Second) // nothing else can happen: all is quiet
//			agent.Delete(podUID)
//			time.Sleep(time.Hour)
//			stops := rt.Journal().Pod(podUID).Of(critest.StopContainer)
//			if len(stops) != 1 || stops[0].Duration() != 30*time.Second {
//				t.Errorf("the pod was stopped by\n%v", stops)
//			}
//		})
//	}
//
// In startMyAgent a Loop is made with
//
//	loop.Config{Client: cri.NewClient(conn), Sync: syncpod.Config{RuntimeName: "critest"}, Root: t.TempDir(), ...}
//
// because a client of NewClient does not know the runtime's name. Which name that is
// matters only for the container IDs that are reported.
//
// Make the runtime, its gates and the agent inside the bubble, and advance time
// with time.Sleep or wait for quiet with synctest.Wait. A unix socket is no part
// of a bubble; [Runtime.Dial] and bufconn are.
//
// Outside of tests, [New], [Runtime.Listen] and [Runtime.Close] make a runtime
// that an agent is pointed at, as any other, by its endpoint.
//
// # Commands
//
// A container's process, and an ExecSync or Exec, is one of the following. All of it
// means the same to busybox in a real container, but for the last two.
//
//   - sh -c SCRIPT with a part of the POSIX shell: lists with ; && || & and
//     lines, if, while, until, ( ) and { }, quotes, variables ($NAME, ${NAME},
//     $?, $$), assignments, > >> 2> >&2 2>&1, comments; and : exit trap wait exec
//     export; or sh, which runs the lines of its standard input;
//   - sleep N (also 0.5, 2m, infinity), echo [-n], printf (%s, %d), cat, touch,
//     rm [-f], test and [ (-e -f -s -n -z = != !), env, kill [-SIGNAL] 1, true,
//     false, mkdir (which does nothing);
//   - a [Program] of Config.Programs, which is a function in Go;
//   - for a container's process, anything else is a server: it runs until it is
//     told to stop and exits with 128 and the signal's number, 143. In an image
//     that is OnlyKnown it does not exist instead, and the start fails.
//
// On a terminal (exec -it, or a container with tty and stdin) Return is a newline, keys are echoed, Backspace
// erases, Ctrl-C ends the command that a shell runs, or is SIGINT, and Ctrl-D ends the input.
//
// A script outside this is a syntax error: a line in the log, and exit code 2.
//
// Some behaviours and how to ask for them:
//
//	runs for ever                       any server, or sleep infinity
//	ends well after 5 s                 sleep 5
//	fails with 3 after 2 s              sleep 2; exit 3
//	ends at once on SIGTERM, with 0     trap 'exit 0' TERM; sleep infinity & wait
//	ignores SIGTERM                     trap '' TERM; sleep infinity
//	takes 10 s to become ready          sleep 10; touch /ready; sleep infinity
//	  and the probe                     test -e /ready
//	writes a termination message        echo why > /dev/termination-log; exit 1
//	logs                                echo to stdout; echo to stderr >&2
//
// As on Linux, process 1 of a PID namespace does not notice a signal that it
// has no handler for: "sleep 1000" in a container with a namespace of its own is
// killed when the stop's time is over, with 137; in a namespace that the pod
// shares it ends at once, with 143. And a shell runs its trap when the command
// that it waits for has ended, except for wait. A turn of a loop takes at least a
// millisecond.
//
// # Streams
//
// Exec, Attach and PortForward give URLs, as a runtime does, which lead to
// [Runtime.DialStream]: a server in memory, so that all of it runs in virtual time. It
// speaks SPDY 3.1 and WebSocket, as the streaming servers of containerd and CRI-O do, with
// v4.channel.k8s.io for processes; ports are portforward.k8s.io over SPDY, and
// v4.channel.k8s.io over WebSocket. There it speaks v5.channel.k8s.io as well, in which the
// end of the standard input can be told, as it can be over SPDY. A
// [Program] has a standard input and the size of the terminal, and listens on ports of
// its pod with [Command.Listen].
//
// # Files
//
// Below Config.Dir and Config.LogsRoot, logs and mounts are real files, and no path
// or link leads out of them. All other files are in memory, those of the node for
// [Runtime.ReadFile] and [Runtime.WriteFile]: without these two fields a runtime
// touches nothing of the machine, whatever paths it is told. Then containers do not see the
// files of ConfigMap, Secret and other volumes that an agent has written, and packages logs
// and server find no logs: for tests of those set Dir to the agent's Root, and LogsRoot to
// its syncpod.Node.LogsRoot.
//
// What a container prints is written as CRI has it to the log path in the log
// directory of its sandbox; directories that the agent has not made are made. An agent that is a program of its
// own, as a kubelet is, gets its root directory as Dir, and its LogsRoot:
//
//	rt, err := critest.New(critest.Config{Dir: "/var/lib/kubelet", LogsRoot: "/var/log/pods"})
//	endpoint, err := rt.Listen("/run/critest.sock")
//
// # Faults
//
// [Runtime.Inject] strikes calls, chosen by method, pod, container or anything
// else, some times or always; [Runtime.InjectEvent] strikes events.
//
//	F1  hang until released                 Fault{Hang: new(Gate)}; with IgnoreCancel it succeeds late
//	F2  done, but answered with an error    Fault{When: After, Err: err}
//	F3  refused before any effect           Fault{Err: err}
//	F4  name reserved while half done       Fault{When: Midway, Hang: gate}, Runtime.HoldName
//	F5  states and times that are wrong     Runtime.EditContainer, Runtime.EditSandbox, Runtime.StepClock
//	F6  list and inspect disagree           Runtime.Hide, or F3 on a status
//	F7  removed behind the agent's back     Runtime.Remove
//	F8  restart of the runtime              Runtime.Restart, with what becomes of what runs
//	F9  event stream                        EventDrop, EventDuplicate, EventReorder, EventDelay,
//	                                        EventTimeless, EventBare; Runtime.DisconnectEvents
//	F10 exec hangs or fails                 F1 and F3 on ExecSync, by its Command
//	F11 process that does not stop          trap '' TERM; IgnoreSignals
//	F12 address late, missing, vanishing    Fault{IPAfter: d}, Never, Runtime.EditSandbox
//	F13 pull hangs, fails, wants a secret   F1 to F3 on PullImage; RemoteImage, Runtime.SetCredentials
//	F14 agent stopped between two calls     Runtime.CrashAfter, Runtime.OnCall
//
// [Runtime.ExitContainer] ends a process by hand, for OOMKilled.
// [Runtime.SetRandom] does all that happens to calls and events from a seed.
//
// To crash an agent after every call of a scenario, count its calls once and
// run it again for each k:
//
//	rt.CrashAfter(k, func() { conn.Close(); cancel() })
//
// and then start a new agent on a new [Runtime.Dial].
//
// # Journal
//
// [Runtime.Journal] has every call with start, end, subject and outcome. Printing
// it shows no secret. Its queries are for assertions: that a pod caused so many
// calls, in this order, never two at once.
//
// [Runtime.Processes] has what really ran and when, whatever calls were answered:
// the truth that a journal and published statuses are held against.
//
// # Where each rule lives
//
//	runtime.go, serve.go, pipe.go  the runtime, and how it is reached
//	config.go, model.go            Config, and runtimes that differ
//	sandbox*.go, container*.go, image*.go, runtime_status.go, stats.go  a call each
//	name.go, index.go, address.go  who has a name or an address, and what belongs together
//	clock.go                       steps of the clock
//	process.go                     what runs in a container, by package sh
//	host.go, memory.go             files: real ones, and those in memory
//	intercept.go, method.go, subject.go  what happens to every call
//	journal*.go                    the Journal and its queries
//	processes.go                   what really ran
//	pod_dial.go, pod_answer.go           connections to ports of pods, and what servers answer
//	stream*.go                     Exec, Attach and PortForward
//	event*.go                      events, and what befalls them
//	fault*.go, restart.go          faults
//
// # What is not here
//
// Checkpoints, metrics and the streaming lists answer Unimplemented. Of a container's config, what a kernel would enforce (security
// context, devices, limits) is kept and told, not enforced. Network is an address.
package critest
