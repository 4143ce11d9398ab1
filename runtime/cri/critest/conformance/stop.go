package conformance

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// polite ends by itself on SIGTERM, deaf ends only on SIGKILL, and none handles no signals. They create
// a file when their traps are set.
const (
	polite = "trap 'exit 7' TERM; touch /tmp/set; sleep 1000 & wait"
	deaf   = "trap '' TERM; touch /tmp/set; sleep 1000"
	none   = "touch /tmp/set; sleep 1000; exit 0"
)

var stopRules = []rule{
	{"stop-polite", "StopContainer sends SIGTERM and returns as soon as the process has ended by it; the exit code is the process's.", checkStopPolite},
	{"stop-deaf", "StopContainer kills a process that ignores SIGTERM when the timeout is over, not before; the exit code is 137.", checkStopDeaf},
	{"stop-now", "StopContainer with timeout 0 kills at once, be there a SIGTERM before or not; the exit code is 137.", checkStopNow},
	{"stop-init", "Process 1 of a PID namespace that has no handler for SIGTERM does not notice it: the stop takes its whole timeout.", checkStopInit},
	{"stop-shared", "In a PID namespace that the pod shares, SIGTERM ends a process without a handler; the exit code is 143.", checkStopShared},
	{"stop-known", "When StopContainer has returned, ContainerStatus tells the exit.", checkStopKnown},
	{"stop-exited", "StopContainer of a container that has exited succeeds and leaves the exit code.", checkStopExited},
	{"stop-created", "StopContainer of a container that was never started succeeds; it is CREATED still, or EXITED with a code that is not 0.", checkStopCreated},
	{"stop-unknown", "StopContainer of a container that is not there succeeds, or fails with NotFound.", checkStopUnknown},
	{"stop-given-up", "A StopContainer whose caller gives up can be followed by one with timeout 0, which kills.", checkStopGivenUp},
	{"stop-signal", "The stop signal of the container's config is sent instead of SIGTERM, where the runtime knows the field.", checkStopSignal},
}

// stopped runs a script, stops it, and returns the stop's duration.
func (b *bench) stopped(p *pod, s string, timeout int64, code int32) time.Duration {
	b.Helper()
	id := p.run(script(s))
	b.waitSet(id)
	start := time.Now()
	b.must(b.stopIt(id, timeout))
	took := time.Since(start)
	if st := b.statusOf(id); st.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED || st.GetExitCode() != code {
		b.broken("it is %v with code %d, not %d", st.GetState(), st.GetExitCode(), code)
	}
	return took
}

// waitSet waits until a script has set its traps.
func (b *bench) waitSet(id string) {
	b.Helper()
	b.waitFor("process that is ready for signals", func() bool {
		resp, err := b.exec(id, 10, "test", "-e", "/tmp/set")
		b.must(err)
		return resp.GetExitCode() == 0
	})
}

func checkStopPolite(b *bench) {
	if took := b.stopped(b.runSandbox(0), polite, 30, 7); took > 10*time.Second {
		b.broken("it took %v", took)
	}
}

func checkStopDeaf(b *bench) {
	if took := b.stopped(b.runSandbox(0), deaf, 2, 137); took < 1900*time.Millisecond || took > 12*time.Second {
		b.broken("it took %v of 2 s", took)
	}
}

func checkStopNow(b *bench) {
	if took := b.stopped(b.runSandbox(0), deaf, 0, 137); took > 10*time.Second {
		b.broken("it took %v", took)
	}
}

func checkStopInit(b *bench) {
	if took := b.stopped(b.runSandbox(0), none, 1, 137); took < 900*time.Millisecond {
		b.broken("it took %v of 1 s", took)
	}
}

func checkStopShared(b *bench) {
	if took := b.stopped(b.runSandbox(0, sharedPID), none, 30, 143); took > 10*time.Second {
		b.broken("it took %v", took)
	}
}

func checkStopKnown(b *bench) {
	id := b.runSandbox(0).run(script(deaf))
	b.must(b.stopIt(id, 0))
	if st := b.statusOf(id); st.GetFinishedAt() < st.GetStartedAt() || st.GetReason() == "" {
		b.broken("started %d, finished %d, reason %q", st.GetStartedAt(), st.GetFinishedAt(), st.GetReason())
	}
}

func checkStopExited(b *bench) {
	id := b.runSandbox(0).run(script("exit 5"))
	b.waitExited(id)
	b.must(b.stopIt(id, 5))
	b.wantExit(id, 5)
}

func checkStopCreated(b *bench) {
	id := b.runSandbox(0).create(script("exit 0"))
	b.must(b.stopIt(id, 5))
	switch st := b.statusOf(id); {
	case st.GetState() == runtimeapi.ContainerState_CONTAINER_CREATED:
	case st.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED || st.GetExitCode() == 0:
		b.broken("it is %v with code %d", st.GetState(), st.GetExitCode())
	}
}

func checkStopUnknown(b *bench) {
	if err := b.stopIt(noID, 5); !gone(err) {
		b.broken("%v", err)
	}
}

func checkStopGivenUp(b *bench) {
	id := b.runSandbox(0).run(script(deaf))
	ctx, cancel := context.WithTimeout(b.Context(), time.Second)
	defer cancel()
	_, err := b.rt.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: 1000})
	if status.Code(err) != codes.DeadlineExceeded {
		b.broken("after the caller's deadline of 1 s the first one said %v", err)
	}
	start := time.Now()
	b.must(b.stopIt(id, 0))
	if took := time.Since(start); took > 10*time.Second {
		b.broken("the second one took %v", took)
	}
	b.wantExit(id, 137)
}

func checkStopSignal(b *bench) {
	p := b.runSandbox(0)
	id := p.run(script("trap 'exit 8' USR1; trap 'exit 7' TERM; touch /tmp/set; sleep 1000 & wait"), func(c *runtimeapi.ContainerConfig) {
		c.StopSignal = runtimeapi.Signal_SIGNAL_SIGUSR1
	})
	b.waitSet(id)
	if b.statusOf(id).GetStopSignal() == runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT {
		b.Skip("this runtime does not know the stop signal of a config")
	}
	b.must(b.stopIt(id, 30))
	b.wantExit(id, 8)
}
