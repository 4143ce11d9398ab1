package e2e

import (
	"fmt"
	"slices"
	"strings"
)

// The agent reports a manifest that is unreadable or invalid. The other pods, and the previous version of this one, keep
// running.
func badManifest(n *node, a *agent) {
	const spec = `
containers:
- {name: app, image: localhost/busybox:e2e, command: [sleep, infinity]}
`
	good, spoiled := a.pod(n, "good", spec), a.pod(n, "spoiled", spec)
	first, second := good.running("app", 0), spoiled.running("app", 0)
	n.Cleanup(func() { n.remove("bad.yaml") })
	n.write("bad.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: bad\n")
	a.complains(n, "bad.yaml", "")
	n.write("bad.yaml", manifest("bad", "containers: [{name: app}]"))
	a.complains(n, "bad.yaml", "spec.containers[0].image")
	spoiled.change("containers: [{name: No Name, image: x}]")
	a.complains(n, "spoiled.yaml", "spec.containers[0].name")
	third := a.pod(n, "late", spec)
	third.running("app", 0)
	good.only("app", first)
	spoiled.only("app", second)
	spoiled.change(strings.ReplaceAll(spec, "infinity", `"1000000"`))
	spoiled.eventually(func() error {
		if runs := spoiled.runs("app"); len(runs) != 1 || runs[0].GetId() == second.GetId() {
			return fmt.Errorf("the repaired pod does not run: %v", runs)
		}
		return nil
	})
	good.only("app", first)
}

// complains waits for a message of the agent that contains all the words.
func (a *agent) complains(n *node, words ...string) {
	n.Helper()
	n.eventually(func() error {
		for _, l := range a.said("Message", "") {
			if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(l.Message, w) }) {
				return nil
			}
		}
		return fmt.Errorf("no error contains %q", words)
	})
}
