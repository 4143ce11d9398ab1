package eviction

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

func mustParse(t *testing.T, text string) resource.Quantity {
	t.Helper()
	return must.Get(resource.ParseQuantity(text))(t)
}

// TestInvariants decides on random nodes, whose readings appear and disappear, are wrong or
// old, and checks the invariants of each decision.
func TestInvariants(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 17))
		r := rulesOf(t, randomPolicy(random))
		s := State{Layout: Layout(random.IntN(3))}
		for i := range random.IntN(6) {
			s.Pods = append(s.Pods, randomPod(random, string(rune('a'+i))))
		}
		now := time.Unix(1_000_000, 0)
		for range 40 {
			now = now.Add(time.Duration(1+random.IntN(20)) * time.Second)
			if random.IntN(20) == 0 {
				now = now.Add(-time.Hour)
			}
			s.Readings = randomReadings(random, now)
			s.Reclaimed = random.IntN(2) == 0
			s.Ending = nil
			if random.IntN(4) == 0 {
				s.Ending = []types.UID{"z"}
			}
			before := asJSON(t, s)
			d := Decide(r, s, now)
			if asJSON(t, s) != before {
				t.Fatalf("seed %d: the state is written to", seed)
			}
			if again := Decide(r, s, now); again.String() != d.String() {
				t.Fatalf("seed %d: decided twice:\n%v\nand\n%v", seed, d, again)
			}
			holds(t, seed, r, s, d, now)
			if mustEvict(r, s, now) && len(d.Evict) == 0 {
				t.Fatalf("seed %d: a hard threshold is met, nothing prevents an eviction, and no pod is evicted:\n%v", seed, d)
			}
			s.Memory = d.Memory
			for _, e := range d.Evict {
				s.Pods = slices.DeleteFunc(s.Pods, func(p Candidate) bool { return p.Pod == e.Pod })
			}
		}
	}
}

// holds checks a decision with independent rules.
func holds(t *testing.T, seed uint64, r Rules, s State, d Decision, now time.Time) {
	t.Helper()
	fail := func(rule string) { t.Fatalf("seed %d: %s:\n%v", seed, rule, d) }
	pressed := 0
	for _, e := range d.Evict {
		if runtime.IsCritical(e.Pod) {
			fail("a critical pod goes")
		}
		if slices.ContainsFunc(s.Pods, func(p Candidate) bool { return p.Pod == e.Pod && p.Usage == nil }) {
			fail("a pod without usage is evicted")
		}
		if !slices.ContainsFunc(s.Pods, func(p Candidate) bool { return p.Pod == e.Pod }) {
			fail("a pod goes that does not run")
		}
		if e.GraceSeconds < 1 || e.Message == "" || d.Explain(e.Pod.UID) == "" {
			fail("an eviction is not complete")
		}
		if e.Disruption {
			pressed++
			trusted := slices.ContainsFunc(s.Readings, func(r Reading) bool {
				return r.Signal == e.Signal && r.Available < r.Capacity && now.Sub(r.Time).Abs() <= MaxAge
			})
			if !trusted {
				fail("a pod goes although nothing that can be true was read")
			}
		}
	}
	if pressed > 1 || pressed > 0 && (len(s.Ending) > 0 || len(d.Reclaim) > 0 || len(d.Evict) > 1) {
		fail("more than one pod goes, or before its time")
	}
	if len(d.Conditions) != conditions || len(d.Met)+len(d.Problems) > len(r.Thresholds) {
		fail("conditions or thresholds are missing")
	}
	for _, m := range d.Met {
		if m.Value.Of(m.Reading.Capacity) > m.Reading.Capacity {
			fail("a threshold is met that is more than there is")
		}
		if d.Conditions[conditionOf(m.Signal)].Status != v1.ConditionTrue {
			fail("a threshold is met and its condition is not reported")
		}
		if m.Due && now.Sub(m.Since) < m.Grace {
			fail("a threshold is due before its time")
		}
	}
}

// mustEvict reports whether a pod must be evicted, regardless of earlier decisions: nothing is left to
// reclaim, a hard threshold is met by a current reading, and there is an evictable pod with
// known usage.
func mustEvict(r Rules, s State, now time.Time) bool {
	if !s.Reclaimed || len(s.Ending) > 0 || !slices.ContainsFunc(s.Pods, func(p Candidate) bool { return !runtime.IsCritical(p.Pod) && p.Usage != nil }) {
		return false
	}
	return slices.ContainsFunc(r.Thresholds, func(t Threshold) bool {
		return t.Grace == 0 && slices.ContainsFunc(s.Readings, func(r Reading) bool {
			need := t.Value.Of(r.Capacity)
			return r.Signal == t.Signal && r.Time.Equal(now) && r.Available < need && need <= r.Capacity && r.Available <= r.Capacity
		})
	})
}

func asJSON(t *testing.T, s State) string {
	t.Helper()
	text := must.Get(json.Marshal(s))(t)
	return string(text)
}

func randomPolicy(random *rand.Rand) Policy {
	p := Policy{Hard: map[Signal]string{}, Soft: map[Signal]string{}, SoftGracePeriod: map[Signal]time.Duration{}, MinimumReclaim: map[Signal]string{}}
	amounts := []string{"10%", "100Mi", "50%", "1Gi", "99%", "12Gi"}
	for _, s := range signals() {
		if random.IntN(2) == 0 {
			p.Hard[s] = amounts[random.IntN(len(amounts))]
		}
		if random.IntN(3) == 0 {
			p.Soft[s], p.SoftGracePeriod[s] = amounts[random.IntN(len(amounts))], time.Duration(1+random.IntN(100))*time.Second
		}
		if random.IntN(3) == 0 {
			p.MinimumReclaim[s] = []string{"1%", "1Gi"}[random.IntN(2)]
		}
	}
	return p
}

func randomPod(random *rand.Rand, uid string) Candidate {
	c := candidate(uid, int32(random.IntN(3)), uint64(random.IntN(3))*gi, uint64(random.IntN(5))*gi)
	switch random.IntN(6) {
	case 0:
		c.Usage = nil
	case 1:
		c.Pod.Spec.Priority = new(int32(systemCritical))
	case 2:
		c.Pod.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "x"}
	case 3:
		c.Pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceEphemeralStorage: *resource.NewQuantity(3*gi, resource.BinarySI)}
	}
	return c
}

func randomReadings(random *rand.Rand, now time.Time) (list []Reading) {
	for _, s := range signals() {
		if random.IntN(5) == 0 {
			continue
		}
		r := Reading{Signal: s, Capacity: 16 * gi, Available: uint64(random.Int64N(16 * gi)), Time: now}
		switch random.IntN(10) {
		case 0:
			r.Capacity = 0
		case 1:
			r.Available = 17 * gi
		case 2:
			r.Time = now.Add(-2 * time.Minute)
		case 3:
			r.Time = now.Add(2 * time.Minute)
		case 4:
			r.Capacity, r.Available = 5*mi, 4*mi
		}
		list = append(list, r)
	}
	return list
}
