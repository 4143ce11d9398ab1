package dra

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/modules/dra/dratest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A moment is a state in which the agent may be killed: the files, and what is prepared, in a step of the story.
type moment struct {
	step     int
	files    map[string][]byte
	prepared map[string][]string
	when     string
}

// Whenever the agent is killed, the next one continues: containers get their devices, only a call whose answer was not recorded is
// repeated, and nothing stays prepared, even if the pods were deleted while no agent ran.
func TestKilledAtAnyCall(t *testing.T) {
	claims := StaticClaims{claimOf("shared", []string{gpu, nic}, "a", "b"), claimOf("own", []string{gpu}, "b")}
	a, b := podOf("a", "shared"), podOf("b", "shared", "own")
	start := func(pod *v1.Pod, want int) func(*rig) error {
		return func(r *rig) error {
			if err := r.m.PreparePod(t.Context(), pod); err != nil {
				return err
			}
			given, err := r.m.Allocate(t.Context(), pod, &pod.Spec.Containers[0])
			if err == nil && len(given.CDIDevices) != want {
				err = fmt.Errorf("pod %s gets %v", pod.Name, given.CDIDevices)
			}
			return err
		}
	}
	story := []func(*rig) error{
		start(a, 2), start(b, 3),
		func(r *rig) error { return r.m.UnpreparePod(t.Context(), "a") },
		func(r *rig) error { return r.m.UnpreparePod(t.Context(), "b") },
		func(r *rig) error { return r.m.RemovePod(t.Context(), "b") },
	}
	// deleted is the story of an agent that starts after the deletion of all pods.
	deleted := []func(*rig) error{func(r *rig) (err error) {
		for _, uid := range must.Get(r.m.KeptPods())(t) {
			err = errors.Join(err, r.m.RemovePod(t.Context(), uid))
		}
		return err
	}}
	// play runs the steps of a story that follow a moment, and returns the moments and calls meanwhile.
	play := func(from moment, story []func(*rig) error) (moments []moment, calls []string) {
		r := newRig(t, claims...)
		must.Do(t, os.MkdirAll(r.state(), 0o700))
		for name, text := range from.files {
			must.Do(t, os.WriteFile(filepath.Join(r.state(), name), text, 0o600))
		}
		g, n := &dratest.Driver{Name: gpu}, &dratest.Driver{Name: nic}
		var mu sync.Mutex
		step := from.step
		record := func(when string) {
			mu.Lock()
			defer mu.Unlock()
			m := moment{step: step, files: map[string][]byte{}, prepared: map[string][]string{gpu: g.Prepared(), nic: n.Prepared()}, when: fmt.Sprintf("%s of step %d", when, step)}
			entries := must.Get(os.ReadDir(r.state()))(t)
			for _, e := range entries {
				m.files[e.Name()] = must.Get(os.ReadFile(filepath.Join(r.state(), e.Name())))(t)
			}
			moments = append(moments, m)
		}
		for _, d := range []*dratest.Driver{g, n} {
			d.SetPrepared(from.prepared[d.Name])
			d.Called = func(_ context.Context, method string, after bool) error {
				record(fmt.Sprintf("%s %s (after %t)", d.Name, method, after))
				return nil
			}
		}
		r.start(g, n)
		for ; step < len(story); step++ {
			if err := story[step](r); err != nil {
				t.Errorf("killed at %q: step %d: %v", from.when, step, err)
			}
			record("the end")
		}
		if left := slices.Concat(g.Prepared(), n.Prepared()); len(left) > 0 || r.files() > 0 {
			t.Errorf("killed at %q: %v is still prepared, and %d records are left", from.when, left, r.files())
		}
		for _, d := range []*dratest.Driver{g, n} {
			for _, c := range d.Calls() {
				calls = append(calls, d.Name+" "+c)
			}
		}
		r.stop()
		return moments, calls
	}
	moments, calls := play(moment{when: "no time"}, story)
	if len(calls) != 6 {
		t.Errorf("calls %v, want one prepare and one unprepare for each claim and driver", calls)
	}
	for _, m := range moments {
		play(moment{files: m.files, prepared: m.prepared, when: m.when + ", and all pods are deleted"}, deleted)
		_, again := play(m, story)
		seen := map[string]bool{}
		for _, c := range again {
			if seen[c] {
				t.Errorf("killed at %q: %s twice", m.when, c)
			}
			seen[c] = true
		}
		for name, text := range m.files { // what a record says is prepared is not prepared again
			var r record
			uid := strings.TrimSuffix(name, suffix)
			must.Do(t, r.parse(text, types.UID(uid)))
			for driver, d := range r.Drivers {
				if d.Prepared && seen[driver+" prepare "+uid] {
					t.Errorf("killed at %q: %s is prepared again by %s", m.when, uid, driver)
				}
			}
		}
	}
}

// A record that is damaged, or too large, does not keep an agent from starting, and none is written that cannot be read.
func TestDamagedRecords(t *testing.T) {
	r := newRig(t, claimOf("c", []string{gpu}, "a"))
	must.Do(t, os.MkdirAll(r.state(), 0o700))
	for name, text := range map[string]string{"uid-c.json": "{", "large.json": string(make([]byte, maxRecord+1)), "other.json": `{"version":1,"uid":"x"}`, "x.txt": ""} {
		must.Do(t, os.WriteFile(filepath.Join(r.state(), name), []byte(text), 0o600))
	}
	g := &dratest.Driver{Name: gpu}
	r.start(g)
	must.Do(t, r.m.PreparePod(t.Context(), podOf("a", "c")))
	must.Do(t, r.m.RemovePod(t.Context(), "a"))
	if err := (&record{UID: "large", Name: string(make([]byte, maxRecord))}).write(r.state(), ""); err == nil {
		t.Error("a record that cannot be read again is written")
	}
}
