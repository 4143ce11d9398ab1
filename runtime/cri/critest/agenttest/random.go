package agenttest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/podsync/podsync/runtime/cri/critest"
)

// Random draws a scenario; equal seeds draw equal scenarios. Its actions last up to two minutes. Then the
// run waits for their results.
func Random(seed uint64) Scenario {
	d := &draw{rng: rand.New(rand.NewPCG(seed, 18)), pods: map[string]bool{}, agent: true}
	sc := Scenario{Name: fmt.Sprintf("random-%d", seed), Seed: seed, Runtime: pick(d, []string{"containerd-2", "containerd-1.6", "cri-o"})}
	if share := pick(d, []int{0, 0, 5, 20}); share > 0 {
		sc.Steps = append(sc.Steps, Step{Do: "chaos", N: share})
	}
	d.troubles = d.some(troubles, 1+d.rng.IntN(4))
	for range 2 + d.rng.IntN(3) {
		sc.Steps = append(sc.Steps, d.add())
	}
	for range 6 + d.rng.IntN(10) {
		sc.Steps = append(sc.Steps, d.next())
	}
	return sc
}

// draw is the state of a scenario that is being drawn.
type draw struct {
	rng      *rand.Rand
	troubles []func(*draw) Step
	made     int
	pods     map[string]bool // by name: is it wanted?
	agent    bool            // is there one?
}

func pick[T any](d *draw, from []T) T { return from[d.rng.IntN(len(from))] }

func (d *draw) some(from []func(*draw) Step, n int) []func(*draw) Step {
	var all []func(*draw) Step
	for _, i := range d.rng.Perm(len(from))[:n] {
		all = append(all, from[i])
	}
	return all
}

// upTo draws a time in seconds, in steps of a hundredth.
func (d *draw) upTo(seconds int) float64 { return float64(d.rng.IntN(100*seconds)) / 100 }

// next returns the next step: pods are added and removed, and failures start and end.
func (d *draw) next() Step {
	acts := []func(*draw) Step{(*draw).add, (*draw).add, (*draw).remove, (*draw).remove, (*draw).bringBack}
	acts = append(acts, d.troubles...)
	if !d.agent {
		acts = []func(*draw) Step{(*draw).start, (*draw).start, (*draw).add, (*draw).remove}
	}
	step := pick(d, acts)(d)
	step.After = d.upTo(8)
	return step
}

const mostPods = 6

func (d *draw) add() Step {
	if len(d.those(true)) >= mostPods {
		return d.remove()
	}
	d.made++
	name := fmt.Sprintf("%s-%d", pick(d, kinds).name, d.made)
	d.pods[name] = true
	return Step{Do: "add", Pod: name}
}

// those returns the desired pods, or the pods that were desired before.
func (d *draw) those(wanted bool) []string {
	var names []string
	for name, is := range d.pods {
		if is == wanted {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (d *draw) remove() Step {
	names := d.those(true)
	if len(names) == 0 {
		return d.add()
	}
	name := pick(d, names)
	d.pods[name] = false
	return Step{Do: "remove", Pod: name}
}

func (d *draw) bringBack() Step {
	names := d.those(false)
	if len(names) == 0 {
		return d.remove()
	}
	name := pick(d, names)
	d.pods[name] = true
	return Step{Do: "add", Pod: name}
}

func (d *draw) start() Step {
	d.agent = true
	return Step{Do: "start-agent"}
}

// edit changes a pod whose image may be changed.
func (d *draw) edit() Step {
	names := slices.DeleteFunc(d.those(true), func(name string) bool { return !strings.HasPrefix(name, "two-") })
	if len(names) == 0 {
		d.made++
		name := fmt.Sprintf("two-%d", d.made)
		d.pods[name] = true
		return Step{Do: "add", Pod: name}
	}
	return Step{Do: "edit", Pod: pick(d, names)}
}

// about returns a pod that is desired, or that may be added.
func (d *draw) about() string {
	if names := d.those(true); len(names) > 0 {
		return pick(d, names)
	}
	return fmt.Sprintf("%s-%d", pick(d, kinds).name, d.made+1)
}

var strikable = []critest.Method{
	critest.RunPodSandbox, critest.CreateContainer, critest.StartContainer, critest.StopContainer, critest.StopPodSandbox, critest.RemovePodSandbox,
	critest.RemoveContainer, critest.ContainerStatus, critest.PodSandboxStatus, critest.PullImage, critest.ListContainers,
}

// troubles are the kinds of faults. Each scenario draws some of them.
var troubles = []func(*draw) Step{
	func(d *draw) Step { d.agent = false; return Step{Do: pick(d, []string{"stop-agent", "kill-agent"})} },
	func(d *draw) Step { d.agent = false; return Step{Do: "kill-agent-at", N: 1 + d.rng.IntN(25)} },
	func(d *draw) Step {
		return Step{Do: "restart-runtime", For: d.upTo(15), Disconnect: d.rng.IntN(2) == 0,
			Effect: pick(d, []string{"", "", "stopped", "containers-stopped", "removed", "containers-removed", "unknown"})}
	},
	func(d *draw) Step { return Step{Do: "restart-runtime", For: d.upTo(15), Disconnect: true} },
	func(d *draw) Step {
		return Step{Do: pick(d, []string{"fail", "lose-answer"}), Method: pick(d, strikable), Pod: d.about(), N: 1 + d.rng.IntN(3)}
	},
	func(d *draw) Step {
		return Step{Do: "late", Method: pick(d, []critest.Method{critest.RunPodSandbox, critest.CreateContainer, critest.StartContainer, critest.PullImage}), Pod: d.about(), N: 1, For: d.upTo(12)}
	},
	func(d *draw) Step { return Step{Do: "exit", Pod: d.about(), Container: "c0", N: 9} },
	func(d *draw) Step { return Step{Do: "lose-sandbox", Pod: d.about()} },
	func(d *draw) Step {
		return Step{Do: pick(d, []string{"drop-events", "double-events", "late-events"}), N: 1 + d.rng.IntN(20), For: 0.1 + d.upTo(10)}
	},
	func(*draw) Step { return Step{Do: "break-events"} },
	func(d *draw) Step { return Step{Do: "hang-exec", For: d.upTo(10)} },
	(*draw).edit,
}
