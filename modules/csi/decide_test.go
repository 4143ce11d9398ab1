package csi_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/modules/csi"
)

const vol = csi.VolumeID("kubernetes.io/csi/d^v")

func TestDecide(t *testing.T) {
	now := time.Unix(1000, 0)
	ready := csi.Volume{Ready: true, Stages: true, Expands: true, Attached: true}
	with := func(change func(*csi.Volume)) csi.Volume { v := ready; change(&v); return v }
	published := func(pods map[types.UID]csi.Condition) csi.Volume {
		return with(func(v *csi.Volume) { v.Staged, v.Published = csi.Present, pods })
	}
	for name, tt := range map[string]struct {
		volume csi.Volume
		want   csi.DesiredVolume
		plan   string
	}{
		"nothing": {ready, csi.DesiredVolume{}, ""},
		"a new pod": {ready, csi.DesiredVolume{Pods: []types.UID{"a"}},
			"Stage: PodNeedsVolume\nPublish for pod a: PodNeedsVolume\n"},
		"a driver without stage": {with(func(v *csi.Volume) { v.Stages = false }), csi.DesiredVolume{Pods: []types.UID{"a"}},
			"Publish for pod a: PodNeedsVolume\n"},
		"a second pod": {published(map[types.UID]csi.Condition{"a": csi.Present}), csi.DesiredVolume{Pods: []types.UID{"b", "a"}},
			"Publish for pod b: PodNeedsVolume\n"},
		"all is there": {published(map[types.UID]csi.Condition{"a": csi.Present}), csi.DesiredVolume{Pods: []types.UID{"a"}}, ""},
		"a pod has ended": {published(map[types.UID]csi.Condition{"a": csi.Present}), csi.DesiredVolume{},
			"Unpublish for pod a: PodHasEnded\nUnstage: NoPodNeedsVolume\n"},
		"another pod has ended": {published(map[types.UID]csi.Condition{"a": csi.Present, "b": csi.Uncertain}), csi.DesiredVolume{Pods: []types.UID{"a"}},
			"Unpublish for pod b: PodHasEnded\n"},
		"the stage is uncertain": {with(func(v *csi.Volume) { v.Staged = csi.Uncertain }), csi.DesiredVolume{Pods: []types.UID{"a"}},
			"Stage: OutcomeUnknown\nPublish for pod a: PodNeedsVolume\n"},
		"the stage is uncertain, and no pod is left": {with(func(v *csi.Volume) { v.Staged = csi.Uncertain }), csi.DesiredVolume{},
			"Unstage: NoPodNeedsVolume\n"},
		"the stage is uncertain while a pod runs": {with(func(v *csi.Volume) {
			v.Staged, v.Published = csi.Uncertain, map[types.UID]csi.Condition{"a": csi.Present}
		}), csi.DesiredVolume{Pods: []types.UID{"a"}}, ""},
		"a failed unpublish holds up the unstage": {with(func(v *csi.Volume) {
			v.Staged, v.Published = csi.Present, map[types.UID]csi.Condition{"a": csi.Uncertain}
			v.NotBefore = map[csi.StepKey]time.Time{{Action: csi.Unpublish, Pod: "a"}: now.Add(time.Second)}
		}), csi.DesiredVolume{}, "Wait to Unpublish for pod a: BackOff until 1970-01-01T00:16:41Z\n"},
		"a failed stage holds up the publish": {with(func(v *csi.Volume) {
			v.NotBefore = map[csi.StepKey]time.Time{{Action: csi.Stage}: now.Add(time.Second)}
		}), csi.DesiredVolume{Pods: []types.UID{"a"}}, "Wait to Stage: BackOff until 1970-01-01T00:16:41Z\n"},
		"a failed publish holds up no other pod": {with(func(v *csi.Volume) {
			v.Staged = csi.Present
			v.NotBefore = map[csi.StepKey]time.Time{{Action: csi.Publish, Pod: "a"}: now.Add(time.Second)}
		}), csi.DesiredVolume{Pods: []types.UID{"a", "b"}}, "Wait to Publish for pod a: BackOff until 1970-01-01T00:16:41Z\nPublish for pod b: PodNeedsVolume\n"},
		"no driver":                     {csi.Volume{Attached: true}, csi.DesiredVolume{Pods: []types.UID{"a"}}, "Wait to Stage: DriverMissing\n"},
		"no driver for a pod that runs": {csi.Volume{Staged: csi.Present, Published: map[types.UID]csi.Condition{"a": csi.Present}}, csi.DesiredVolume{Pods: []types.UID{"a"}}, ""},
		"no driver to unpublish": {csi.Volume{Staged: csi.Present, Published: map[types.UID]csi.Condition{"a": csi.Present}}, csi.DesiredVolume{},
			"Wait to Unpublish for pod a: DriverMissing\n"},
		"not attached": {with(func(v *csi.Volume) { v.Attached = false }), csi.DesiredVolume{Pods: []types.UID{"a"}}, "Wait to Stage: NotAttached\n"},
		"ReadWriteOncePod": {published(map[types.UID]csi.Condition{"a": csi.Present}), csi.DesiredVolume{Pods: []types.UID{"a", "b"}, Exclusive: true},
			"Wait to Publish for pod b: UsedByOtherPod\n"},
		"ReadWriteOncePod after another pod": {published(map[types.UID]csi.Condition{"a": csi.Uncertain}), csi.DesiredVolume{Pods: []types.UID{"b"}, Exclusive: true},
			"Unpublish for pod a: PodHasEnded\nWait to Publish for pod b: UsedByOtherPod\n"},
		"ReadWriteOncePod for two pods": {ready, csi.DesiredVolume{Pods: []types.UID{"a", "b"}, Exclusive: true},
			"Stage: PodNeedsVolume\nPublish for pod a: PodNeedsVolume\nWait to Publish for pod b: UsedByOtherPod\n"},
		"republish": {published(map[types.UID]csi.Condition{"a": csi.Present}), csi.DesiredVolume{Pods: []types.UID{"a"}, Republish: []types.UID{"a"}},
			"Publish for pod a: DriverAsks\n"},
		"expand": {published(map[types.UID]csi.Condition{"a": csi.Present}), csi.DesiredVolume{Pods: []types.UID{"a"}, Size: 10}, "Expand: VolumeHasGrown\n"},
		"expand after the first pod": {ready, csi.DesiredVolume{Pods: []types.UID{"a"}, Size: 10},
			"Stage: PodNeedsVolume\nPublish for pod a: PodNeedsVolume\nExpand: VolumeHasGrown\n"},
		"expanded": {with(func(v *csi.Volume) {
			v.Staged, v.Published, v.Expanded = csi.Present, map[types.UID]csi.Condition{"a": csi.Present}, 10
		}), csi.DesiredVolume{Pods: []types.UID{"a"}, Size: 10}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			want := ""
			for _, line := range slices.Collect(lines(tt.plan)) {
				want += string(vol) + ": " + line + "\n"
			}
			if got := csi.Decide(now, csi.State{vol: tt.volume}, csi.Desired{vol: tt.want}).String(); got != want {
				t.Errorf("got:\n%swant:\n%s", got, want)
			}
		})
	}
}

func lines(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for start, i := 0, 0; i < len(text); i++ {
			if text[i] == '\n' {
				if !yield(text[start:i]) {
					return
				}
				start = i + 1
			}
		}
	}
}

// apply returns the volume after a step with the given result.
func apply(v csi.Volume, s csi.Step, c csi.Condition) csi.Volume {
	v.Published = maps.Clone(v.Published)
	if v.Published == nil {
		v.Published = map[types.UID]csi.Condition{}
	}
	switch s.Action {
	case csi.Stage, csi.Unstage:
		v.Staged = c
	case csi.Publish, csi.Unpublish:
		if v.Published[s.Pod] = c; c == csi.Absent {
			delete(v.Published, s.Pod)
		}
	case csi.Expand:
		v.Expanded = 10
	}
	return v
}

// From any state, Decide never unstages a volume that may be mounted for a pod and never unmounts a volume that a pod
// wants. After the first step the plan is the rest of the earlier plan, and the last state is the desired one. Steps
// succeed, fail, or do either and lose the answer.
func TestDecideRandomly(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pods := []types.UID{"a", "b", "c"}
	conditions := []csi.Condition{csi.Absent, csi.Uncertain, csi.Present}
	for range 5000 {
		v := csi.Volume{Staged: conditions[rng.IntN(3)], Published: map[types.UID]csi.Condition{}, Ready: true, Attached: true, Stages: true, Expands: true}
		want := csi.DesiredVolume{Exclusive: rng.IntN(4) == 0, Size: int64(rng.IntN(2) * 10)}
		for _, pod := range pods {
			if c := conditions[rng.IntN(3)]; c != csi.Absent {
				v.Published[pod] = c
			}
			if rng.IntN(2) == 0 {
				want.Pods = append(want.Pods, pod)
			}
		}
		begin := v
		for steps := 0; ; steps++ {
			plan := csi.Decide(time.Time{}, csi.State{vol: v}, csi.Desired{vol: want})
			i := slices.IndexFunc(plan, func(s csi.Step) bool { return s.Action != csi.Wait })
			if i < 0 {
				break
			}
			if steps > 40 {
				t.Fatalf("the plan from %+v for %+v never ends:\n%s", begin, want, plan)
			}
			s := plan[i]
			if s.Action == csi.Unstage && len(v.Published) > 0 || s.Action == csi.Unpublish && slices.Contains(want.Pods, s.Pod) ||
				s.Action == csi.Publish && v.Staged != csi.Present {
				t.Fatalf("%s in %+v for %+v", s, v, want)
			}
			after := apply(v, s, map[bool]csi.Condition{true: csi.Present}[s.Action == csi.Stage || s.Action == csi.Publish])
			if rest := csi.Decide(time.Time{}, csi.State{vol: after}, csi.Desired{vol: want}); i == 0 && rest.String() != plan[1:].String() && !want.Exclusive {
				t.Fatalf("after %s of %+v for %+v:\n%swant:\n%s", s, v, want, rest, plan[1:])
			}
			if v = after; steps < 10 && rng.IntN(3) == 0 {
				v = apply(v, s, csi.Uncertain)
			}
		}
		for _, pod := range pods {
			if has := v.Published[pod] == csi.Present; !want.Exclusive && has != slices.Contains(want.Pods, pod) {
				t.Fatalf("pod %s has it: %t, from %+v for %+v", pod, has, begin, want)
			}
		}
		if len(want.Pods) == 0 && v.Staged != csi.Absent {
			t.Fatalf("still staged from %+v", begin)
		}
	}
}
