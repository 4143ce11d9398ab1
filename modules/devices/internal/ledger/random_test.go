package ledger

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A node is a ledger and its pods.
type node struct {
	*Ledger
	r    *rand.Rand
	now  time.Time
	pods []*life
	next int
	// healthy are the devices that can be allocated.
	healthy map[string]bool
	// lost means that running pods may hold devices that no longer exist.
	lost bool
}

// A life is a pod and the number of its containers that have been started.
type life struct {
	pod     *v1.Pod
	started int
}

func (l *life) containers() []v1.Container {
	return slices.Concat(l.pod.Spec.InitContainers, l.pod.Spec.Containers)
}

// live returns the running containers of a pod, and the container that was started last.
func (l *life) live() []string {
	var names []string
	for i, c := range l.containers()[:l.started] {
		if i == l.started-1 || !endsFirst(l.pod, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}

// Pods are created and deleted, devices become unhealthy, plugins disconnect and agents restart, at random. No device is
// held by two running containers, no unhealthy or missing device is allocated, a container keeps its devices, and while
// all devices are healthy each admitted pod gets the devices that it requests.
func TestRandomLives(t *testing.T) {
	for seed := range uint64(300) {
		n := &node{Ledger: New(5 * time.Minute), r: rand.New(rand.NewPCG(seed, 7)), now: start, healthy: map[string]bool{}}
		n.report(t)
		var story []string
		for range 60 {
			story = append(story, n.step(t))
			if fault := n.fault(); fault != "" {
				t.Fatalf("seed %d: %s\n%s", seed, fault, strings.Join(story, "\n"))
			}
		}
	}
}

func (n *node) report(t *testing.T) {
	var all []Device
	clear(n.healthy)
	for i := range 6 {
		d := Device{ID: fmt.Sprint(i), Healthy: n.r.IntN(30) > 0}
		if n.healthy[d.ID] = d.Healthy; !d.Healthy {
			n.lost = true
		}
		all = append(all, d)
	}
	n.Report(card, all)
}

func (n *node) step(t *testing.T) string {
	n.now = n.now.Add(time.Duration(n.r.IntN(60)) * time.Second)
	switch what := n.r.IntN(12); {
	case what == 0:
		n.report(t)
		return fmt.Sprintf("reported: %v", n.healthy)
	case what == 1:
		n.Disconnect(card, n.now)
		clear(n.healthy)
		n.lost = true
		return "the plugin leaves"
	case what == 2:
		return n.restart(t)
	case what < 6:
		return n.admit()
	case len(n.pods) == 0:
		return "nothing"
	case what == 6:
		i := n.r.IntN(len(n.pods))
		uid := n.pods[i].pod.UID
		n.Release(uid)
		n.pods = slices.Delete(n.pods, i, i+1)
		n.lost = n.lost && (len(n.pods) > 0 || len(n.healthy) == 0)
		return fmt.Sprintf("%s is over", uid)
	}
	return n.start(t, n.pods[n.r.IntN(len(n.pods))])
}

// restart replaces the ledger by a new one that restores the state written by the earlier one.
func (n *node) restart(t *testing.T) string {
	next := New(5 * time.Minute)
	for name, ids := range n.Snapshot(n.now) {
		next.Restore(name, ids, n.now)
	}
	for _, l := range n.pods {
		for container, held := range n.Held(l.pod.UID) {
			next.Take(l.pod.UID, container, held)
		}
	}
	for _, l := range n.pods {
		if fmt.Sprint(next.Held(l.pod.UID)) != fmt.Sprint(n.Held(l.pod.UID)) {
			t.Errorf("%s holds %v after a restart, and held %v", l.pod.UID, next.Held(l.pod.UID), n.Held(l.pod.UID))
		}
	}
	n.Ledger = next
	clear(n.healthy)
	n.lost = true
	return "the agent restarts"
}

func (n *node) admit() string {
	var words []string
	for _, prefix := range []string{"i", "s", "i", "app", "b"} {
		if n.r.IntN(2) == 0 || len(words) == 0 && prefix == "b" {
			words = append(words, fmt.Sprintf("%s%d:%d", prefix, len(words), n.r.IntN(4)))
		}
	}
	n.next++
	pod := podOf(fmt.Sprint("u", n.next), strings.Join(words, " "))
	var beside []*v1.Pod
	for _, l := range n.pods {
		beside = append(beside, l.pod)
	}
	if err := n.Fits(pod, beside, n.now); err != nil {
		return fmt.Sprintf("refused is %v: %v", words, err)
	}
	n.pods = append(n.pods, &life{pod: pod})
	return fmt.Sprintf("%s is %v", pod.UID, words)
}

func (n *node) start(t *testing.T, l *life) string {
	if l.started == len(l.containers()) {
		l.started = 0 // its sandbox is lost, so all containers start again
		return fmt.Sprintf("%s starts again", l.pod.UID)
	}
	c := l.containers()[l.started]
	did := fmt.Sprintf("%s starts %s", l.pod.UID, c.Name)
	if want := n.Needs(&c)[card]; want > 0 {
		before := n.Held(l.pod.UID)[c.Name][card]
		choice, err := n.Choose(l.pod, c.Name, card, want, n.now)
		switch {
		case err != nil && !n.lost:
			t.Errorf("%s: %v, although the pod was admitted and all devices are healthy", did, err)
			fallthrough
		case err != nil:
			return did + ": " + err.Error()
		case before != nil && !slices.Equal(choice.Held, before):
			t.Errorf("%s with %v, and had %v", did, choice.Held, before)
		case before == nil:
			ids := choice.Pick([]string{fmt.Sprint(n.r.IntN(8)), fmt.Sprint(n.r.IntN(8))})
			if len(ids) != want || slices.ContainsFunc(ids, func(id string) bool { return !n.healthy[id] }) {
				t.Errorf("%s with %v, want %d of %v", did, ids, want, n.healthy)
			}
			n.Take(l.pod.UID, c.Name, Held{card: ids})
			did += fmt.Sprint(" with ", ids)
		}
		if err := n.Ready(l.pod, c.Name, false); err != nil {
			if !errors.Is(err, ErrWait) {
				t.Errorf("%s: %v", did, err)
			}
			return did + ": " + err.Error()
		}
	}
	l.started++
	return did
}

// fault returns the first rule that the allocations break.
func (n *node) fault() string {
	holders := map[string]types.UID{}
	for _, l := range n.pods {
		for _, name := range l.live() {
			for _, id := range n.Held(l.pod.UID)[name][card] {
				if other, twice := holders[id]; twice {
					return fmt.Sprintf("device %s is with %s and with %s of %s", id, other, name, l.pod.UID)
				}
				holders[id] = l.pod.UID + "/" + types.UID(name)
			}
		}
	}
	for uid := range maps.Keys(n.Ledger.pods) {
		if !slices.ContainsFunc(n.pods, func(l *life) bool { return l.pod.UID == uid }) {
			return fmt.Sprintf("%s is over and has %v", uid, n.Held(uid))
		}
	}
	return ""
}
