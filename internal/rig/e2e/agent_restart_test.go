package e2e

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// history collects a number of runs of a container. The runtime need not have all of them at the same time.
func (p *pod) history(container string, count int) []*runtimeapi.ContainerStatus {
	p.Helper()
	history := make([]*runtimeapi.ContainerStatus, count)
	p.eventually(func() error {
		have := 0
		for _, c := range p.runs(container) {
			attempt := int(c.GetMetadata().GetAttempt())
			if attempt >= count {
				return fmt.Errorf("attempt %d", attempt)
			}
			if seen := history[attempt]; seen != nil && seen.GetId() != c.GetId() {
				p.Fatalf("two containers of attempt %d: %s, %s", attempt, seen.GetId(), c.GetId())
			}
			if c.GetState() != runtimeapi.ContainerState_CONTAINER_CREATED {
				history[attempt] = c
			}
		}
		for _, c := range history {
			if c != nil {
				have++
			}
		}
		if have < count {
			return fmt.Errorf("%d runs of %d", have, count)
		}
		return nil
	})
	for i := range history[1:] {
		inOrder(p, fmt.Sprintf("attempt %d ends", i), over(history[i]), fmt.Sprintf("attempt %d starts", i+1), began(history[i+1]))
	}
	return history
}

// With the restart policy Always a container runs again in its sandbox whatever its exit code. The back-offs are those of
// a kubelet: none, 10 s, 20 s. A back-off ends with the creation of the next
// container: how long the runtime then takes to start it is not the agent's time.
func crashLoop(n *node, a *agent) {
	p := a.pod(n, "crash-loop", `
containers:
- {name: app, image: localhost/busybox:e2e, command: [sh, -c, exit 3]}
- {name: done, image: localhost/busybox:e2e, command: ["true"]}
`)
	runs := p.history("app", 4)
	if done := p.runs("done"); len(done) == 0 || done[len(done)-1].GetMetadata().GetAttempt() == 0 || done[0].GetExitCode() != 0 {
		n.Errorf("runs of done %v, want it started again after exit code 0", done)
	}
	for i, least := range []time.Duration{0, 10 * time.Second, 20 * time.Second} {
		p.within(time.Unix(0, runs[i+1].GetCreatedAt()).Sub(over(runs[i])), least, least+10*time.Second)
	}
	p.saidWaiting("CrashLoopBackOff")
	p.event("BackOff", "Back-off restarting failed container app in pod")
	if s := p.sandboxes(); len(s) != 1 {
		n.Errorf("%d sandboxes, want 1 of them", len(s))
	}
}

func never(n *node, a *agent) {
	p := a.pod(n, "never", `
restartPolicy: Never
containers:
- {name: app, image: localhost/busybox:e2e, command: [sh, -c, exit 3]}
- {name: other, image: localhost/busybox:e2e, command: [sh, -c, sleep 1]}
`)
	p.saidPhase(v1.PodFailed)
	p.ended()
	for name, code := range map[string]int32{"app": 3, "other": 0} {
		if runs := p.runs(name); len(runs) != 1 || runs[0].GetExitCode() != code {
			n.Errorf("%s: %v, want one run with exit code %v", name, runs, code)
		}
	}
}
