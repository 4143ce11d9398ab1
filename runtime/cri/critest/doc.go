// Package critest is an in-memory container runtime, for tests of node agents and for experiments:
// it serves CRI v1 over real gRPC and needs no root.
//
// Its responses are those of a real runtime wherever an agent relies on them: package conformance
// contains these rules, and they hold on critest, on containerd 1.6 and 2.4 and on CRI-O 1.34. The
// project's end-to-end tests also compare its error codes with those of these runtimes. Limits,
// below, lists the differences.
//
// # A test in virtual time
//
// The package uses only package time, and no goroutine outlives [Runtime.Close]. So a whole agent can
// be tested in a [testing/synctest] bubble, where a stop of 30 s and a back-off of 5 min take no time,
// and where a leaked goroutine fails the test:
//
//	func TestAgentStopsADeafPod(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			rt, conn := critest.Start(t, critest.Config{})
//			agent := startMyAgent(t, conn) // conn is a *critest.Conn
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
// In startMyAgent, create an Agent with
//
//	agent.Config{Client: cri.NewClient(conn), Sync: syncpod.Config{RuntimeName: "critest"}, Root: t.TempDir(), ...}
//
// because a client of NewClient does not know the runtime's name. The name only appears in reported
// container IDs.
//
// Create the runtime, its gates and the agent inside the bubble. Advance time with time.Sleep, or wait
// with synctest.Wait. A unix socket cannot be part of a bubble; [Runtime.Dial] and bufconn can.
//
// Outside of tests, use [New], [Runtime.Listen] and [Runtime.Close], and pass the endpoint to the
// agent.
//
// # Commands
//
// A container's process, an ExecSync or an Exec runs one of the following commands. Except for the last
// three, busybox in a real container behaves the same.
//
//   - sh, ash, dash and bash, with -c, with a file, or with the standard input: the POSIX shell, and what busybox adds to
//     it. Only bash has ((, += , ${X^^}, <<<, {a,b} and &&, ||, =~ in [[. Arrays, select, coproc, time, process
//     substitution, getopts and other declarations than export, readonly and local do not exist;
//   - sleep, echo, printf, date, seq, id, hostname, env, expr, test, [, [[, true, false, kill, pwd, basename, dirname,
//     timeout; cat, ls, touch, mkdir, rmdir, rm, cp, mv, dd, tee; grep, head, tail, wc, sort; with their usual options;
//   - a script in a file of the container that is executable, by its path;
//   - stress --vm N --vm-bytes SIZE, which uses that much memory until it is stopped. If it exceeds the
//     limit of its container, the container is OOMKilled;
//   - a [Program] of Config.Programs, which is a Go function;
//   - a server: one line of its log says so, and it runs until it is stopped and exits with 128 plus the signal's number, 143.
//     Like a server that reloads, it survives SIGHUP, SIGUSR1 and SIGUSR2 of a kill. An image without a description runs it
//     if the pod has no command, and a well-known image runs it by its own command, such as nginx in nginx.
//     With Config.ServeUnknown, or Image.ServeUnknown, each other command is a server.
//
// A command that does not exist fails as on a node: the container does not start and has the exit code 128 and the reason
// StartError, and a command in a script is not found, with 127.
//
// A syntax error, or a construct that the shell does not have, is a line in the log that names it and its line, and exit
// code 2. No command of the script runs then.
//
// On a terminal (exec -it, or a container with tty and stdin) Return is a newline, keys are echoed, Backspace
// erases, Ctrl-C ends the command that a shell runs, or is SIGINT, and Ctrl-D ends the input.
//
// Some behaviours and their commands:
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
//	runs out of memory                  stress --vm 1 --vm-bytes 250M, with a limit of 100M
//	has an image that cannot be pulled  image: registry.invalid/app:1
//
// As on Linux, process 1 of a PID namespace ignores signals without a handler: "sleep 1000" in a
// container with its own namespace is killed when the stop times out, with 137; in a namespace shared by
// the pod it exits immediately, with 143. A shell runs its trap when its current command has ended,
// except for wait. An iteration of a loop takes at least a millisecond.
//
// # Streams
//
// Exec, Attach and PortForward return URLs, as a runtime does. Connect to them with
// [Runtime.DialStream], which leads to an in-memory server, so that everything runs in virtual time. It
// serves SPDY 3.1 and WebSocket, as the streaming servers of containerd and CRI-O do, with
// v4.channel.k8s.io for processes; ports use portforward.k8s.io over SPDY, and v4.channel.k8s.io over
// WebSocket. Over WebSocket it also serves v5.channel.k8s.io, which can signal the standard input's end,
// as SPDY can. A [Program] has a standard input and the terminal's size, and listens on ports of its pod
// with [Command.Listen].
//
// # Files
//
// Below Config.Dir and Config.LogsRoot, logs and mounts are real files, and no path or link leads out of
// these directories. All other files are in memory; [Runtime.ReadFile] and [Runtime.WriteFile] access
// those of the node. Without these two fields a runtime does not touch the machine, whatever paths it
// receives. Containers then do not see the ConfigMap, Secret and other volumes that an agent has
// written, and packages logs and server find no logs. To test those, set Dir to the agent's Root, and
// LogsRoot to its syncpod.Node.LogsRoot.
//
// A container's output is written in CRI's format to the log path in its sandbox's log directory;
// missing directories are created. For an agent that is a separate program, such as a kubelet, use its
// root directory as Dir, and its LogsRoot:
//
//	rt, err := critest.New(critest.Config{Dir: "/var/lib/kubelet", LogsRoot: "/var/log/pods"})
//	endpoint, err := rt.Listen("/run/critest.sock")
//
// # Images
//
// Config.Images are on the node, and Config.Registry can be pulled. Both change while the runtime runs: [Runtime.AddImage],
// [Runtime.Untag] and [Runtime.Publish], by which a registry also begins to answer with 401, 404, 429 or 503, slowly, or with
// another digest than a pull asks for. Image.Files are in each container of the image, and in a volume that mounts it.
//
// # Faults
//
// [Runtime.Inject] injects faults into calls, and [Runtime.InjectEvent] into events. [Runtime.SetRandom] injects both
// from a seed. [Runtime.Restart] restarts the runtime, and [Runtime.CrashAfter] crashes an agent between two calls.
// Package [github.com/podsync/podsync/runtime/cri/critest/faults] describes all known faults and has their types.
//
// # Journal
//
// [Runtime.Journal] returns every call with its start, end, subject and result. Its printed form contains
// no secret. Tests use its queries to assert that a pod caused a number of calls, in some order, or never
// two concurrently.
//
// [Runtime.Problems] returns why pods never become ready: a program, a probe's command or an image that does not exist, or a
// port on which nothing listens. A failed test logs them.
//
// [Runtime.Processes] returns the processes that really ran, with their times, whatever the calls returned. Compare a
// journal and published statuses with them. If Overlaps is true for two processes in one container, the container ran twice
// at the same time. Package [github.com/podsync/podsync/runtime/cri/critest/journal] has the types and queries.
//
// # Agents that are killed and started again
//
// [NewNode] returns a node for tests for an agent's whole life. Start runs any agent as a function, and Kill ends it as kill
// -9 does: it gets no response, reports nothing, and its files are as they were when it was killed. The next Start begins
// with these files and the containers that kept running. [Node.Status] has the statuses that the agents reported, and
// [Node.NoDoubleRuns] fails the test if a container ran twice at a time. To kill the agent after the fourth call:
//
//	n := critest.NewNode(t, critest.Config{})
//	n.CrashAfter(4, n.Kill)
//	n.Start(func(ctx context.Context, run *critest.AgentRun) error {
//		a, err := agent.New(agent.Config{Client: cri.NewClient(run.Conn), Root: n.Root, ...})
//		...
//		return a.Run(ctx)
//	})
//
// The directory examples/downstream has such a test. Package agenttest judges agents by such scenarios, also those that are
// programs. For nodes of a cluster, package github.com/podsync/podsync/modules/cluster/clustertest has Kill and Start, too.
//
// # Limits
//
// Checkpoints, metrics and the streaming lists return Unimplemented. The parts of a container's config
// that a kernel would enforce (security context, devices, limits) are stored and reported, but not
// enforced. A sandbox has no network except its address.
package critest

// Where each rule lives:
//
//	runtime.go, serve.go, pipe.go, direct.go  the runtime, and its connections
//	config.go, model.go            Config, and differences between runtimes
//	sandbox*.go, container*.go, image*.go, runtime_status.go, stats.go  one call each
//	name.go, index.go, address.go  names, addresses, and which objects belong together
//	clock.go                       steps of the clock
//	process.go, stress.go          the processes in a container, with packages internal/sh and program
//	image_known.go                 what images without a description are taken for
//	host.go, container_files.go    files: real ones, and those in memory, with package internal/memfs
//	intercept.go, method.go, subject.go  interception of every call
//	journal.go                     records calls; package journal has them and their queries
//	processes.go                   what really ran
//	node.go, agent_run.go          agents that are killed and started again
//	pod_dial.go, pod_listen.go, pod_answer.go  connections to ports of pods, and what servers answer
//	stream.go                      Exec, Attach and PortForward, which package internal/streams serves
//	event.go                       events
//	problems.go                    why pods never become ready
//	fault.go, fault_state.go, restart.go  faults, which package internal/inject applies
