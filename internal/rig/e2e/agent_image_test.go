package e2e

import "fmt"

// No registry serves the image's address.
func noSuchImage(n *node, a *agent) {
	p := a.pod(n, "no-image", `
containers:
- {name: app, image: "localhost:1/none:v1"}
- {name: other, image: localhost/busybox:e2e, command: [sleep, infinity]}
`)
	p.running("other", 0)
	p.saidWaiting("ErrImagePull", "RegistryUnavailable") // CRI-O reports this reason
	p.saidWaiting("ImagePullBackOff")
	p.event("Failed", "localhost:1/none:v1")
	if runs := p.runs("app"); len(runs) > 0 {
		n.Errorf("a container without an image: %v", runs)
	}
	p.change(`
containers:
- {name: app, image: localhost/busybox:e2e, command: [sleep, infinity]}
`)
	p.running("app", 0)
}

func imageNeverPulled(n *node, a *agent) {
	p := a.pod(n, "never-pulled", `
containers:
- {name: app, image: "localhost:1/none:v1", imagePullPolicy: Never}
`)
	p.saidWaiting("ErrImageNeverPull")
	p.eventually(func() error {
		if len(p.sandboxes()) != 1 {
			return fmt.Errorf("no sandbox")
		}
		return nil
	})
	if runs := p.runs("app"); len(runs) > 0 {
		n.Errorf("a container without an image: %v", runs)
	}
	for _, l := range a.said("Event", p.name) {
		if l.Reason == "Pulling" {
			n.Errorf("it was pulled: %s", l.Message)
		}
	}
}
