package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
)

func deletionOfTheDeaf(n *node, a *agent) {
	const grace = 4 * time.Second
	p := a.pod(n, "deaf", `
terminationGracePeriodSeconds: 4
containers:
- {name: app, image: localhost/busybox:e2e, command: [sleep, infinity]}
- {name: other, image: localhost/busybox:e2e, command: [sleep, infinity]}
`)
	app, other := p.running("app", 0), p.running("other", 0)
	deleted := time.Now()
	p.delete()
	p.stopped(app)
	p.stopped(other)
	p.within(time.Since(deleted), grace, grace+2*time.Second)
}

// The agent waits for a process that ends on its stop signal, and not longer. Then no object of its pod is left.
func deletionOfTheWilling(n *node, a *agent) {
	s := n.story()
	p := a.pod(n, "willing", `
terminationGracePeriodSeconds: 600
volumes: [`+s.volume()+`, {name: scratch, emptyDir: {}}]
containers:
- {name: app, `+ending("app")+`}
`)
	uid := p.listening("app").GetLabels()[runtime.LabelPodUID]
	p.delete()
	s.has("app")
	p.gone()
	p.eventually(func() error {
		_, err := os.Stat(filepath.Join(p.root, "pods", uid))
		if err == nil {
			return errors.New("its directory is still there")
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	})
}

// A changed manifest is another pod of the same name: the old one ends before the new one starts.
func changedInPlace(n *node, a *agent) {
	s := n.story()
	p := a.pod(n, "changed", `
terminationGracePeriodSeconds: 60
volumes: [`+s.volume()+`]
containers:
- {name: app, `+ending("old")+`}
`)
	old := p.listening("app")
	p.change(`
volumes: [` + s.volume() + `]
containers:
- {name: app, image: localhost/busybox:e2e, volumeMounts: [{name: story, mountPath: /story}], command: [sh, -c, echo new >> /story/story; sleep infinity]}
`)
	s.has("old", "new")
	p.eventually(func() error {
		if runs := p.runs("app"); len(runs) != 1 || runs[0].GetId() == old.GetId() || runs[0].GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
			return errors.New("not just the new one is there")
		}
		return nil
	})
	if uid := p.runs("app")[0].GetLabels()[runtime.LabelPodUID]; uid == old.GetLabels()[runtime.LabelPodUID] {
		n.Errorf("the new pod has the UID of the old one, %s", uid)
	}
	if s := p.sandboxes(); len(s) != 1 {
		n.Errorf("%d sandboxes, want 1 of them", len(s))
	}
}

// A manifest that is removed and added again before its pod has ended is the same pod with the same UID: it ends, and then
// starts anew.
func deletedAndBack(n *node, a *agent) {
	s := n.story()
	spec := `
terminationGracePeriodSeconds: 60
volumes: [` + s.volume() + `]
containers:
- {name: app, ` + ending("ended") + `}
`
	p := a.pod(n, "back", spec)
	old := p.listening("app")
	p.delete()
	p.event("Killing", "")
	p.change(spec)
	s.has("ended")
	var again *runtimeapi.ContainerStatus
	p.eventually(func() error {
		for _, c := range p.runs("app") {
			if c.GetId() != old.GetId() && c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
				again = c
				return nil
			}
		}
		return errors.New("it does not start anew")
	})
	if was, is := old.GetLabels()[runtime.LabelPodUID], again.GetLabels()[runtime.LabelPodUID]; was != is {
		n.Errorf("the UID was %s and is %s", was, is)
	}
	p.awaitLog(again, 1) // it is ready for its stop signal
}

func deletedWhileInitializing(n *node, a *agent) {
	p := a.pod(n, "initializing", `
initContainers:
- {name: init, image: localhost/busybox:e2e, command: [sleep, infinity]}
containers:
- {name: app, image: localhost/busybox:e2e, command: [sleep, infinity]}
`)
	init := p.running("init", 0)
	p.delete()
	p.stopped(init)
	p.gone()
	if runs := p.runs("app"); len(runs) > 0 {
		n.Errorf("the app was made: %v", runs)
	}
}
