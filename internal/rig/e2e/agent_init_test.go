package e2e

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

func initContainersInOrder(n *node, a *agent) {
	p := a.pod(n, "ordered", `
initContainers:
- {name: first, image: localhost/busybox:e2e, command: [sh, -c, sleep 0.3]}
- {name: proxy, image: localhost/busybox:e2e, command: [sleep, infinity], restartPolicy: Always}
- {name: second, image: localhost/busybox:e2e, command: [sh, -c, sleep 0.3]}
containers:
- {name: app, image: localhost/busybox:e2e, command: [sleep, infinity]}
`)
	app, proxy := p.running("app", 0), p.running("proxy", 0)
	first, second := p.exited("first", 0), p.exited("second", 0)
	inOrder(n, "the first ends", over(first), "the proxy starts", began(proxy))
	inOrder(n, "the proxy starts", began(proxy), "the second starts", began(second))
	inOrder(n, "the second ends", over(second), "the app starts", began(app))
	p.said("all run", func(s *v1.PodStatus) bool {
		return s.Phase == v1.PodRunning && len(s.InitContainerStatuses) == 3 && s.InitContainerStatuses[1].Ready && s.ContainerStatuses[0].Ready
	})
}

func inOrder(t testing.TB, first string, at time.Time, second string, then time.Time) {
	t.Helper()
	if then.Before(at) {
		t.Errorf("%s, %v before %s", second, at.Sub(then), first)
	}
}

func initContainerFails(n *node, a *agent) {
	p := a.pod(n, "init-fails", `
restartPolicy: Never
initContainers:
- {name: first, image: localhost/busybox:e2e, command: [sh, -c, exit 3]}
- {name: second, image: localhost/busybox:e2e, command: ["true"]}
containers:
- {name: app, image: localhost/busybox:e2e, command: [sleep, infinity]}
`)
	p.saidPhase(v1.PodFailed)
	if c := p.exited("first", 0); c.GetExitCode() != 3 {
		n.Errorf("exit code %d", c.GetExitCode())
	}
	p.ended()
	for _, name := range []string{"second", "app"} {
		if runs := p.runs(name); len(runs) > 0 {
			n.Errorf("%s was made: %v", name, runs)
		}
	}
}

func sidecarsEndAfterTheApp(n *node, a *agent) {
	s := n.story()
	p := a.pod(n, "sidecars", `
terminationGracePeriodSeconds: 60
volumes: [`+s.volume()+`]
initContainers:
- {name: outer, restartPolicy: Always, `+ending("outer")+`}
- {name: inner, restartPolicy: Always, `+ending("inner")+`}
containers:
- {name: app, `+ending("app")+`}
`)
	for _, name := range []string{"outer", "inner", "app"} {
		p.listening(name)
	}
	p.delete()
	s.has("app", "inner", "outer")
}

func sidecarOfAJob(n *node, a *agent) {
	s := n.story()
	p := a.pod(n, "job-with-sidecar", `
restartPolicy: Never
terminationGracePeriodSeconds: 60
volumes: [`+s.volume()+`]
initContainers:
- {name: proxy, restartPolicy: Always, `+ending("proxy")+`}
containers:
- {name: app, image: localhost/busybox:e2e, volumeMounts: [{name: story, mountPath: /story}], command: [sh, -c, "until [ -e /story/proxy ]; do sleep 0.05; done; echo app >> /story/story"]}
`)
	s.has("app", "proxy")
	p.saidPhase(v1.PodSucceeded)
	p.ended()
	if c := p.exited("app", 0); c.GetExitCode() != 0 {
		n.Errorf("exit code %d", c.GetExitCode())
	}
}
