package e2e

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

func hooks(n *node, a *agent) {
	s := n.story()
	p := a.pod(n, "hooks", `
terminationGracePeriodSeconds: 60
volumes: [`+s.volume()+`]
containers:
- name: app
  image: localhost/busybox:e2e
  volumeMounts: [{name: story, mountPath: /story}]
  command: [sh, -c, "trap 'echo TERM >> /story/story; exit 0' TERM; echo up; while :; do sleep 0.05; done"]
  lifecycle:
    postStart: {exec: {command: [sh, -c, echo postStart >> /story/story]}}
    preStop: {exec: {command: [sh, -c, echo preStop >> /story/story; sleep 1; echo preStopped >> /story/story]}}
`)
	p.listening("app")
	s.has("postStart")
	p.said("ready", func(s *v1.PodStatus) bool { return len(s.ContainerStatuses) > 0 && s.ContainerStatuses[0].Ready })
	p.delete()
	s.has("postStart", "preStop", "preStopped", "TERM")
}

func postStartFails(n *node, a *agent) {
	p := a.pod(n, "post-start-fails", `
restartPolicy: Never
terminationGracePeriodSeconds: 1
containers:
- name: app
  image: localhost/busybox:e2e
  command: [sleep, infinity]
  lifecycle: {postStart: {exec: {command: [sh, -c, exit 7]}}}
`)
	if c := p.exited("app", 0); c.GetExitCode() != 137 {
		n.Errorf("exit code %d", c.GetExitCode())
	}
	p.event("FailedPostStartHook", "")
	p.saidPhase(v1.PodFailed)
	p.ended()
	if runs := p.runs("app"); len(runs) != 1 {
		n.Errorf("%d runs, want 1 of them", len(runs))
	}
}

// The hook's time is part of the grace period, and its remaining time is not granted twice.
func preStopTakesTooLong(n *node, a *agent) {
	const grace = 8 * time.Second
	p := a.pod(n, "pre-stop-hangs", `
terminationGracePeriodSeconds: 8
containers:
- name: app
  image: localhost/busybox:e2e
  command: [sleep, infinity]
  lifecycle: {preStop: {exec: {command: [sleep, infinity]}}}
`)
	app := p.running("app", 0)
	deleted := time.Now()
	p.delete()
	p.stopped(app)
	p.within(time.Since(deleted), grace, grace+2*time.Second)
}

// within checks a duration, which may be longer on a busy machine.
func (p *pod) within(took, least, most time.Duration) {
	p.Helper()
	if took < least || took > most+slack {
		p.Errorf("it took %v, not %v to %v", took, least, most)
	}
}
