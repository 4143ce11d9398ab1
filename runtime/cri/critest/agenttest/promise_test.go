package agenttest

import (
	"context"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
)

// trial has two invented histories for a promise. One breaks this promise and no other; a similar one
// keeps it.
type trial struct{ broken, kept func(*past) }

// web is a pod that runs from the first second on.
func web(p *past) {
	p.wanted("web", 0, forever)
	p.ran("web", "c0", 0, 1, forever, 0)
}

// goes removes a pod of one kind at 50 s.
func goes(p *past, name string) { p.wanted(name, 0, 50) }

func sidecarPod(p *past, to float64) {
	p.wanted("sidecar", 0, to)
}

// initialised adds the sidecars and the init container of a pod "sidecar".
func initialised(p *past, pod string, until float64) {
	p.ran(pod, "s0", 0, 1, until, 0)
	p.ran(pod, "s1", 0, 1, until, 0)
	p.ran(pod, "i0", 0, 1, 2, 0)
}

func failing(p *past, starts ...float64) {
	p.wanted("crash", 0, forever)
	p.ran("crash", "c1", 0, 1, forever, 0)
	for n, at := range starts {
		to := at + 1
		if n == len(starts)-1 {
			to = forever
		}
		p.ran("crash", "c0", uint32(n), at, to, 7)
	}
}

// stopped adds a pod that ends on SIGTERM, and that the agent stops at 50 s with some seconds.
func stopped(p *past, pod string, timeout int64) {
	goes(p, pod)
	p.ran(pod, "c0", 0, 1, 51, 0)
	p.call(critest.StopContainer, pod, "c0", 50.2, with(timeout))
}

var trials = map[string]trial{
	"one-instance": {
		func(p *past) {
			p.wanted("web", 0, forever)
			p.ran("web", "c0", 0, 1, 8, 0)
			p.ran("web", "c0", 1, 5, forever, 0)
		},
		func(p *past) {
			p.wanted("web", 0, forever)
			p.ran("web", "c0", 0, 1, 5, 0)
			p.ran("web", "c0", 1, 5, forever, 0) // at the instant at which the other process ends
		},
	},
	"names-unique": {
		func(p *past) {
			web(p)
			p.call(critest.CreateContainer, "web", "c0", 9, failed)
		},
		func(p *past) {
			p.wanted("web", 0, forever)
			p.call(critest.CreateContainer, "web", "c0", 1, failed) // whether the container exists is unknown
			p.ran("web", "c0", 0, 3, forever, 0)
		},
	},
	"attempts-grow": {
		func(p *past) {
			p.wanted("web", 0, forever)
			p.ran("web", "c0", 3, 1, 4, 0)
			p.ran("web", "c0", 2, 9, forever, 0)
		},
		func(p *past) {
			p.wanted("web", 0, 10)
			p.ran("web", "c0", 3, 1, 4, 0)
			p.ran("web", "c0", 4, 6, 11, 0)
			p.wanted("web", 20, forever)
			p.ran("web", "c0", 0, 21, forever, 0, inSandbox("web/1")) // the process was restarted
		},
	},
	"never-runs-once": {
		func(p *past) {
			p.wanted("job", 0, forever)
			p.ran("job", "c0", 0, 1, 9, 3)
			p.ran("job", "c0", 1, 10, 18, 3)
		},
		func(p *past) {
			p.wanted("job", 0, forever)
			p.ran("job", "c0", 0, 1, 9, 3)
			p.calls[1].Err = errFailed // the agent does not know of the start
			p.ran("job", "c0", 1, 10, 18, 3)
		},
	},
	"on-failure": {
		func(p *past) {
			p.wanted("retry", 0, forever)
			p.ran("retry", "c0", 0, 1, 4, 0)
			p.ran("retry", "c0", 1, 5, 8, 0)
			p.ran("retry", "c1", 0, 1, forever, 0)
		},
		func(p *past) {
			p.wanted("retry", 0, forever)
			p.ran("retry", "c0", 0, 1, 4, 0)
			p.ran("retry", "c1", 0, 1, 3, 5)
			p.ran("retry", "c1", 1, 5, forever, 0)
		},
	},
	"restarts": {
		func(p *past) {
			p.wanted("crash", 0, forever)
			p.ran("crash", "c1", 0, 1, forever, 0)
			p.ran("crash", "c0", 0, 1, 2, 7)
		},
		func(p *past) { failing(p, 1, 320) }, // slow, but within the bound
	},
	"back-off": {
		func(p *past) { failing(p, 1, 2, 5) },
		func(p *past) { failing(p, 1, 2, 13, 34, 75) },
	},
	"init-order": {
		func(p *past) {
			p.wanted("init", 0, forever)
			p.ran("init", "i0", 0, 1, 3, 0)
			p.ran("init", "i1", 0, 3, 4, 1)
			p.ran("init", "c0", 0, 5, forever, 0)
		},
		func(p *past) {
			p.wanted("init", 0, forever)
			p.ran("init", "i0", 0, 1, 3, 0)
			p.ran("init", "i1", 0, 3, 4, 0)
			p.ran("init", "c0", 0, 4, forever, 0)
		},
	},
	"init-again": {
		func(p *past) {
			inited(p)
			p.ran("init", "c0", 1, 20, forever, 0, inSandbox("init/1"))
		},
		func(p *past) {
			inited(p)
			p.ran("init", "i0", 1, 20, 22, 0, inSandbox("init/1"))
			p.ran("init", "i1", 1, 22, 23, 0, inSandbox("init/1"))
			p.ran("init", "c0", 1, 23, forever, 0, inSandbox("init/1"))
		},
	},
	"sidecars-first": {
		func(p *past) {
			sidecarPod(p, forever)
			p.ran("sidecar", "s0", 0, 1, forever, 0)
			p.ran("sidecar", "i0", 0, 1, 2, 0)
			p.ran("sidecar", "c0", 0, 3, forever, 0)
			p.ran("sidecar", "s1", 0, 4, forever, 0)
		},
		func(p *past) {
			sidecarPod(p, forever)
			initialised(p, "sidecar", forever)
			p.ran("sidecar", "c0", 0, 3, forever, 0)
		},
	},
	"sidecars-last": {
		func(p *past) {
			sidecarPod(p, 50)
			initialised(p, "sidecar", 51)
			p.ran("sidecar", "c0", 0, 3, 53, 0)
			for _, c := range []string{"c0", "s1", "s0"} {
				p.call(critest.StopContainer, "sidecar", c, 50, with(8))
			}
		},
		func(p *past) {
			sidecarPod(p, 50)
			p.ran("sidecar", "s0", 0, 1, 54, 0)
			p.ran("sidecar", "s1", 0, 1, 53.5, 0)
			p.ran("sidecar", "i0", 0, 1, 2, 0)
			p.ran("sidecar", "c0", 0, 3, 53, 0)
			p.call(critest.StopContainer, "sidecar", "c0", 50, with(8))
			p.call(critest.StopContainer, "sidecar", "s1", 53, with(5))
			p.call(critest.StopContainer, "sidecar", "s0", 53.5, with(5))
		},
	},
	"sidecars-restart": {
		func(p *past) {
			p.wanted("mended", 0, forever)
			p.ran("mended", "s0", 0, 1, 7, 4)
			p.ran("mended", "c0", 0, 1, 61, 0)
		},
		func(p *past) {
			p.wanted("mended", 0, forever)
			p.ran("mended", "s0", 0, 1, 7, 4)
			p.ran("mended", "c0", 0, 1, 61, 0)
			p.ran("mended", "s0", 1, 30, 61, 0)
		},
	},
	"sidecars-release": {
		func(p *past) {
			p.wanted("helped", 0, forever)
			p.ran("helped", "s0", 0, 1, 200, 0)
			p.ran("helped", "c0", 0, 1, 13, 0)
		},
		func(p *past) {
			p.wanted("helped", 0, forever)
			p.ran("helped", "s0", 0, 1, 30, 0)
			p.ran("helped", "c0", 0, 1, 13, 0)
		},
	},
	"grace-given": {
		func(p *past) { stopped(p, "leaving", 2) },
		func(p *past) { stopped(p, "leaving", 7) },
	},
	"grace-kept": {
		func(p *past) {
			goes(p, "deaf")
			p.ran("deaf", "c0", 0, 1, 90, 137)
			p.call(critest.StopContainer, "deaf", "c0", 50, with(4))
		},
		func(p *past) {
			goes(p, "deaf")
			p.ran("deaf", "c0", 0, 1, 60, 137)
			p.call(critest.StopContainer, "deaf", "c0", 50, with(4))
		},
	},
	"prestop-first": {
		func(p *past) {
			stopped(p, "hooked", 8)
			p.call(critest.ExecSync, "hooked", "c0", 1, run(0, 0, "echo", "hello"))
		},
		func(p *past) {
			goes(p, "hooked")
			p.ran("hooked", "c0", 0, 1, 53, 0)
			p.call(critest.ExecSync, "hooked", "c0", 1, run(0, 0, "echo", "hello"))
			p.call(critest.ExecSync, "hooked", "c0", 50, run(2, 1, "sleep", "2"))
			p.call(critest.StopContainer, "hooked", "c0", 52, with(6))
		},
	},
	"told-to-stop": {
		func(p *past) {
			goes(p, "web")
			p.ran("web", "c0", 0, 1, 50, 137)
			p.call(critest.StopPodSandbox, "web", "", 49.9)
			p.pods[uidOf("web")].wanted[0].to = second(49)
		},
		func(p *past) {
			stopped(p, "web", 4)
			p.call(critest.StopPodSandbox, "web", "", 50.5)
		},
	},
	"nothing-after-delete": {
		func(p *past) {
			stopped(p, "two", 4)
			p.call(critest.CreateContainer, "two", "c1", 50.5)
		},
		func(p *past) {
			goes(p, "two")
			p.call(critest.CreateContainer, "two", "c1", 50.5) // the agent may not have noticed the change
		},
	},
	"nothing-left": {
		func(p *past) {
			stopped(p, "web", 4)
			p.sandbox("web/0", "web", runtimeapi.PodSandboxState_SANDBOX_NOTREADY)
		},
		func(p *past) { stopped(p, "web", 4) },
	},
	"one-sandbox": {
		func(p *past) {
			web(p)
			p.call(critest.RunPodSandbox, "web", "", 20, attempt(1), failed)
		},
		func(p *past) {
			p.wanted("web", 0, forever)
			p.ran("web", "c0", 0, 1, 20, 0)
			p.call(critest.RunPodSandbox, "web", "", 20, attempt(1), inSandbox("web/1"))
			p.ran("web", "c0", 1, 21, forever, 0, inSandbox("web/1"))
		},
	},
	"sandbox-names-unique": {
		func(p *past) {
			p.wanted("web", 0, forever)
			p.call(critest.RunPodSandbox, "web", "", 1)
			p.call(critest.RunPodSandbox, "web", "", 5, inSandbox("web/1"))
			p.ran("web", "c0", 0, 6, forever, 0, inSandbox("web/1"))
		},
		func(p *past) {
			p.wanted("web", 0, forever)
			p.call(critest.RunPodSandbox, "web", "", 1, failed)
			p.call(critest.RunPodSandbox, "web", "", 5)
			p.ran("web", "c0", 0, 6, forever, 0)
		},
	},
	"stopped-before-removed": {
		func(p *past) {
			stopped(p, "web", 4)
			p.call(critest.StopPodSandbox, "web", "", 52, failed)
			p.call(critest.RemovePodSandbox, "web", "", 53)
		},
		func(p *past) {
			stopped(p, "web", 4)
			p.call(critest.StopPodSandbox, "web", "", 52)
			p.call(critest.RemovePodSandbox, "web", "", 53)
		},
	},
	"pull-never": {
		func(p *past) {
			p.wanted("local", 0, forever)
			p.call(critest.PullImage, "local", "", 0.5, ofImage("registry.test/local-c0:1"))
			p.ran("local", "c0", 0, 1, forever, 0)
		},
		func(p *past) {
			p.wanted("local", 0, forever)
			p.ran("local", "c0", 0, 1, forever, 0)
		},
	},
	"pull-if-not-present": {
		func(p *past) {
			web(p)
			p.call(critest.PullImage, "web", "", 0.5, ofImage("registry.test/web-c0:1"))
		},
		web,
	},
	"pull-always": {
		func(p *past) {
			p.wanted("fresh", 0, forever)
			p.call(critest.PullImage, "fresh", "", 0.5, ofImage("registry.test/fresh-c0:1"))
			p.ran("fresh", "c0", 0, 1, 5, 1)
			p.ran("fresh", "c0", 1, 6, forever, 1)
		},
		func(p *past) {
			p.wanted("fresh", 0, forever)
			p.call(critest.PullImage, "fresh", "", 0.5, ofImage("registry.test/fresh-c0:1"))
			p.ran("fresh", "c0", 0, 1, 5, 1)
			p.call(critest.PullImage, "fresh", "", 5.5, ofImage("registry.test/fresh-c0:1"))
			p.ran("fresh", "c0", 1, 6, forever, 1)
		},
	},
	"liveness-acts": {
		func(p *past) { p.wanted("sick", 0, forever); p.ran("sick", "c0", 0, 1, forever, 0) },
		func(p *past) {
			p.wanted("sick", 0, 30)
			p.ran("sick", "c0", 0, 1, 25, 137)
			p.ran("sick", "c0", 1, 26, 31, 137)
			p.pods[uidOf("sick")].wanted[0].to = second(60)
			p.processes[1].Ended = second(61)
		},
	},
	"liveness-threshold": {
		func(p *past) {
			sick(p)
			probed(p, 10)
			p.call(critest.StopContainer, "sick", "c0", 11, with(4))
		},
		func(p *past) {
			sick(p)
			probed(p, 10, 11, 12)
			p.call(critest.StopContainer, "sick", "c0", 13, with(4))
		},
	},
	"startup-gates": {
		func(p *past) {
			slow(p)
			p.call(critest.ExecSync, "slow", "c0", 2, run(0, 1, "test", "-f", "/up"))
			p.call(critest.ExecSync, "slow", "c0", 7, run(0, 0, "test", "-e", "/up"))
		},
		func(p *past) {
			slow(p)
			p.call(critest.ExecSync, "slow", "c0", 2, run(0, 1, "test", "-e", "/up"))
			p.call(critest.ExecSync, "slow", "c0", 7, run(0, 0, "test", "-e", "/up"))
			p.call(critest.ExecSync, "slow", "c0", 7, run(0, 0, "test", "-f", "/up"))
		},
	},
	"readiness-spares": {
		func(p *past) {
			p.wanted("unready", 0, forever)
			p.ran("unready", "c0", 0, 1, 30.1, 0)
			p.call(critest.StopContainer, "unready", "c0", 30, with(4))
			p.ran("unready", "c0", 1, 31, forever, 0)
		},
		func(p *past) { p.wanted("unready", 0, forever); p.ran("unready", "c0", 0, 1, forever, 0) },
	},
	"poststart-runs": {
		func(p *past) { p.wanted("hooked", 0, forever); p.ran("hooked", "c0", 0, 1, forever, 0) },
		func(p *past) {
			p.wanted("hooked", 0, forever)
			p.ran("hooked", "c0", 0, 1, forever, 0)
			p.call(critest.ExecSync, "hooked", "c0", 9, run(0, 1, "echo", "hello"))
		},
	},
	"left-alone": {
		func(p *past) {
			p.wanted("web", 0, forever)
			p.ran("web", "c0", 0, 1, 30.1, 0)
			p.call(critest.StopContainer, "web", "c0", 30, with(4))
			p.ran("web", "c0", 1, 31, forever, 0)
		},
		web,
	},
	"adopts": {
		func(p *past) {
			p.lives = []span{{noon, second(25)}, {from: second(28)}}
			p.wanted("web", 0, forever)
			p.ran("web", "c0", 0, 1, 30.1, 0)
			p.call(critest.StopContainer, "web", "c0", 30, with(4))
			p.ran("web", "c0", 1, 31, forever, 0)
		},
		func(p *past) {
			p.lives = []span{{noon, second(25)}, {from: second(28)}}
			web(p)
		},
	},
	"survives-runtime": {
		func(p *past) {
			p.restarts = []runtimeRestart{{span{second(20), second(22)}, ""}}
			p.wanted("web", 0, forever)
			p.ran("web", "c0", 0, 1, 30.1, 0)
			p.call(critest.StopContainer, "web", "c0", 30, with(4))
			p.ran("web", "c0", 1, 31, forever, 0)
		},
		func(p *past) {
			p.restarts = []runtimeRestart{{span{second(20), second(22)}, ""}}
			web(p)
		},
	},
	"arrives": {
		func(p *past) { p.wanted("two", 0, forever); p.ran("two", "c0", 0, 1, forever, 0) },
		web,
	},
	"newest-runs": {
		func(p *past) { edited(p, "registry.test/web-c0:1") },
		func(p *past) { edited(p, "registry.test/web-c0:2") },
	},
	"deadline": {
		func(p *past) { p.wanted("deadline", 0, forever); p.ran("deadline", "c0", 0, 1, 90, 0) },
		func(p *past) { p.wanted("deadline", 0, forever); p.ran("deadline", "c0", 0, 1, 20, 0) },
	},
	"others-untouched": {
		func(p *past) {
			web(p)
			p.call(critest.StopContainer, "others", "theirs", 3)
		},
		web,
	},
	"few-calls-away": {
		func(p *past) { away(p, 0.01) },
		func(p *past) { away(p, 0.2) },
	},
	"few-calls-settled": {
		func(p *past) { watched(p, 0.05) },
		func(p *past) { watched(p, 0.5) },
	},
	"exit-codes": {
		func(p *past) { job(p); p.reports("job", 10, v1.PodFailed, ended("job", "c0", 137)) },
		func(p *past) { job(p); p.reports("job", 10, v1.PodFailed, ended("job", "c0", 3)) },
	},
	"ends-are-true": {
		func(p *past) { web(p); p.reports("web", 10, v1.PodRunning, ended("web", "c0", 0)) },
		func(p *past) { job(p); p.reports("job", 9, v1.PodFailed, ended("job", "c0", 3)) },
	},
	"restart-counts": {
		func(p *past) {
			web(p)
			p.reports("web", 10, v1.PodRunning, v1.ContainerStatus{Name: "c0", RestartCount: 2})
			p.reports("web", 11, v1.PodRunning, v1.ContainerStatus{Name: "c0", RestartCount: 1})
		},
		func(p *past) {
			web(p)
			p.reports("web", 10, v1.PodRunning, v1.ContainerStatus{Name: "c0", RestartCount: 2})
			p.reports("web", 11, v1.PodRunning, v1.ContainerStatus{Name: "c0", RestartCount: 2})
		},
	},
	"phases": {
		func(p *past) {
			job(p)
			p.reports("job", 10, v1.PodFailed, v1.ContainerStatus{Name: "c0"})
			p.reports("job", 11, v1.PodRunning, v1.ContainerStatus{Name: "c0"})
		},
		func(p *past) {
			job(p)
			p.reports("job", 10, v1.PodRunning, v1.ContainerStatus{Name: "c0"})
			p.reports("job", 11, v1.PodFailed, v1.ContainerStatus{Name: "c0"})
		},
	},
	"ready-is-true": {
		func(p *past) {
			readyPod(p)
			p.call(critest.ExecSync, "ready", "c0", 9, run(0, 0, "test", "-e", "/ready"))
			p.reports("ready", 5, v1.PodRunning, v1.ContainerStatus{Name: "c0", Ready: true, ContainerID: "x://" + idOf("ready", "c0", 0)})
		},
		func(p *past) {
			readyPod(p)
			p.call(critest.ExecSync, "ready", "c0", 4, run(0, 0, "test", "-e", "/ready"))
			p.reports("ready", 5, v1.PodRunning, v1.ContainerStatus{Name: "c0", Ready: true, ContainerID: "x://" + idOf("ready", "c0", 0)})
		},
	},
}

var errFailed = context.Canceled

func job(p *past) { p.wanted("job", 0, forever); p.ran("job", "c0", 0, 1, 9, 3) }

func readyPod(p *past) { p.wanted("ready", 0, forever); p.ran("ready", "c0", 0, 1, forever, 0) }

func slow(p *past) { p.wanted("slow", 0, forever); p.ran("slow", "c0", 0, 1, forever, 0) }

// sick adds a container that ends at 17 s, in a pod that is removed soon after.
func sick(p *past) { p.wanted("sick", 0, 18); p.ran("sick", "c0", 0, 1, 17, 137) }

// probed adds a probe that first succeeds and then fails at some seconds.
func probed(p *past, at ...float64) {
	p.call(critest.ExecSync, "sick", "c0", 2, run(0, 0, "test", "-e", "/well"))
	for _, s := range at {
		p.call(critest.ExecSync, "sick", "c0", s, run(0, 1, "test", "-e", "/well"))
	}
}

// inited adds a pod whose init containers have run, and that loses its sandbox at 19 s.
func inited(p *past) {
	p.wanted("init", 0, forever)
	p.ran("init", "i0", 0, 1, 3, 0)
	p.ran("init", "i1", 0, 3, 4, 0)
	p.ran("init", "c0", 0, 4, 19, 137)
	p.lostSandboxes["init/0"] = second(19)
}

// edited adds a pod whose image was changed, and that runs the given image at the end.
func edited(p *past, image string) {
	web(p)
	l := p.pods[uidOf("web")]
	l.versions = append(l.versions, version{second(20), newPod("web", 2)})
	p.containers = []*runtimeapi.Container{{
		Id: idOf("web", "c0", 0), PodSandboxId: "web/0", State: runtimeapi.ContainerState_CONTAINER_RUNNING,
		Metadata: &runtimeapi.ContainerMetadata{Name: "c0"}, Image: &runtimeapi.ImageSpec{UserSpecifiedImage: image},
	}}
}

// away adds calls of an agent at an interval while the runtime is unavailable.
func away(p *past, every float64) {
	p.restarts = []runtimeRestart{{span{second(20), second(26)}, ""}}
	for at := 20.0; at < 26; at += every {
		p.call(critest.ListContainers, "", "", at, failed)
	}
}

// watched adds calls of an agent at an interval while nothing happens.
func watched(p *past, every float64) {
	p.history.watched = []span{{second(20), second(30)}}
	for at := 20.0; at < 30; at += every {
		p.call(critest.ListContainers, "", "", at)
	}
}

// judged returns the promises that a history breaks, and the promises that it tests.
func judged(h *history) (broken, tested []string) {
	all := newTally()
	broken = all.judge(h)
	for _, o := range all.report.Outcomes {
		if o.Judged > 0 {
			tested = append(tested, o.Promise)
		}
	}
	return broken, tested
}

// Each check reports the history that breaks its promise, no other check does, and the similar history
// passes.
func TestChecks(t *testing.T) {
	for p := range Promises() {
		trial, ok := trials[p.Name]
		if !ok {
			t.Errorf("%s has no trial", p.Name)
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			bad, good := newPast(), newPast()
			trial.broken(bad)
			if broken, _ := judged(bad.finish()); !slices.Equal(broken, []string{p.Name}) {
				t.Errorf("broken are %q", broken)
			}
			trial.kept(good)
			broken, tested := judged(good.finish())
			if len(broken) > 0 || !slices.Contains(tested, p.Name) {
				t.Errorf("where it is kept broken are %q, put to the test %q", broken, tested)
			}
		})
	}
}

// Every promise has all parts that a reader needs.
func TestPromisesAreComplete(t *testing.T) {
	names := map[string]bool{}
	for p := range Promises() {
		if names[p.Name] || p.Name == "" || !strings.HasSuffix(p.Sentence, ".") || !strings.HasPrefix(p.Source, "https://") || !strings.HasSuffix(p.Evidence, ".") && !strings.HasSuffix(p.Evidence, "?") {
			t.Errorf("%+v, want another name, sentences and a link", p)
		}
		if p.Source == docOwn && !p.Own {
			t.Errorf("%s is podsync's own and does not say so", p.Name)
		}
		names[p.Name] = true
	}
	if len(names) < 30 {
		t.Errorf("there are %d promises", len(names))
	}
}
