package ledger

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

const card = "vendor.test/card"

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// devices returns devices with these IDs. They are healthy unless the ID ends with an exclamation mark.
func devices(ids ...string) []Device {
	var all []Device
	for _, id := range ids {
		id, ill := strings.CutSuffix(id, "!")
		all = append(all, Device{ID: id, Healthy: !ill})
	}
	return all
}

// ledgerOf returns a ledger whose plugin of card has reported these devices.
func ledgerOf(ids ...string) *Ledger {
	l := New(5 * time.Minute)
	l.Report(card, devices(ids...))
	return l
}

// podOf returns a pod whose containers are written as init:1 side:2 app:1: the name, and the number of cards. Names
// that begin with i are init containers, and with s sidecars.
func podOf(uid, containers string) *v1.Pod {
	pod := &v1.Pod{}
	pod.UID = types.UID(uid)
	for word := range strings.FieldsSeq(containers) {
		name, count, _ := strings.Cut(word, ":")
		c := v1.Container{Name: name, Resources: v1.ResourceRequirements{Limits: v1.ResourceList{card: resource.MustParse(count), v1.ResourceCPU: resource.MustParse("1")}}}
		switch name[0] {
		case 's':
			c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
			fallthrough
		case 'i':
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		default:
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
	}
	return pod
}

// give chooses devices for the containers of a pod in order, and returns the devices of each.
func give(l *Ledger, pod *v1.Pod, now time.Time) string {
	var words []string
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		n := l.Needs(&c)[card]
		if n == 0 {
			continue
		}
		choice, err := l.Choose(pod, c.Name, card, n, now)
		if err != nil {
			words = append(words, c.Name+": "+err.Error())
			continue
		}
		ids := choice.Held
		if ids == nil {
			ids = choice.Pick(nil)
			l.Take(pod.UID, c.Name, Held{card: ids})
		}
		words = append(words, c.Name+": "+strings.Join(ids, " "))
	}
	return strings.Join(words, ", ")
}

// Later containers get the devices of init containers, but not those of sidecars. Devices that are allocated, unhealthy
// or held by another pod are not chosen.
func TestChoose(t *testing.T) {
	for name, tc := range map[string]struct {
		devices, pod, want string
	}{
		"one":                  {"a b", "app:1", "app: a"},
		"none":                 {"a b", "app:0", ""},
		"unhealthy":            {"a! b c!", "app:1 b:1", "app: b, b: requested number of devices unavailable for vendor.test/card. Requested: 1, Available: 0"},
		"too many":             {"a b", "app:3", "app: requested number of devices unavailable for vendor.test/card. Requested: 3, Available: 2"},
		"reused":               {"a b", "init:1 app:1", "init: a, app: a"},
		"reused in part":       {"a b c", "init:1 app:2", "init: a, app: a b"},
		"reused by two":        {"a b", "init:2 app:1 b:1", "init: a b, app: a, b: b"},
		"init after init":      {"a b c", "i1:1 i2:2 i3:1 app:2", "i1: a, i2: a b, i3: a, app: a b"},
		"sidecar keeps":        {"a b", "side:1 app:1", "side: a, app: b"},
		"sidecar reuses":       {"a b c", "init:2 side:1 app:2", "init: a b, side: a, app: b c"},
		"init after a sidecar": {"a b c", "i1:1 side:1 i2:1 app:1", "i1: a, side: a, i2: b, app: b"},
		"no init after":        {"a b", "i1:1 side:1 i2:2", "i1: a, side: a, i2: requested number of devices unavailable for vendor.test/card. Requested: 2, Available: 1"},
	} {
		if got := give(ledgerOf(strings.Fields(tc.devices)...), podOf("u", tc.pod), start); got != tc.want {
			t.Errorf("%s: %q of %q are given\n%s\nwant\n%s", name, tc.pod, tc.devices, got, tc.want)
		}
	}
}

// A container keeps its devices, even if they become unhealthy. A later request for another number of devices fails.
func TestChooseAgain(t *testing.T) {
	l, pod := ledgerOf("a", "b"), podOf("u", "app:1")
	give(l, pod, start)
	l.Report(card, devices("a!", "b"))
	if got := give(l, pod, start); got != "app: a" {
		t.Errorf("the container got %q, want its earlier devices", got)
	}
	if _, err := l.Choose(pod, "app", card, 2, start); err == nil || !strings.Contains(err.Error(), `container "app" requests 2 of vendor.test/card, and was allocated 1`) {
		t.Errorf("another number of devices: %v", err)
	}
	l.Drop("u", "app")
	if got := give(l, pod, start); got != "app: b" || l.IsKnown("vendor.test/none") || !l.IsKnown(card) {
		t.Errorf("after the release the container got %q", got)
	}
}

// A container waits for a disconnected plugin during the grace period.
func TestUnavailable(t *testing.T) {
	l, pod := ledgerOf("a", "b"), podOf("u", "app:1")
	l.Take("other", "app", Held{card: {"b"}})
	if concerned := l.Disconnect(card, start); !reflect.DeepEqual(concerned, []types.UID{"other"}) {
		t.Errorf("after the disconnect these pods are affected: %v", concerned)
	}
	for after, want := range map[time.Duration]struct {
		capacity         int
		admitted, waits  bool
		health, snapshot string
	}{
		5 * time.Minute:                   {2, true, true, "Unknown", "map[vendor.test/card:[a b]]"},
		5*time.Minute + time.Nanosecond:   {0, false, false, "Unknown", "map[]"},
		10*time.Minute + time.Millisecond: {0, false, false, "Unknown", "map[]"},
	} {
		now := start.Add(after)
		capacity, allocatable := l.Count(card, now)
		_, err := l.Choose(pod, "app", card, 1, now)
		admitted := l.Fits(pod, nil, now) == nil
		if capacity != want.capacity || allocatable != 0 || err == nil || errors.Is(err, ErrWait) != want.waits || admitted != want.admitted ||
			string(l.Health(card, "b")) != want.health || fmt.Sprint(l.Snapshot(now)) != want.snapshot {
			t.Errorf("after %v: capacity %d, allocatable %d, admitted %v, health %v, snapshot %v, %v; want %+v", after, capacity, allocatable, admitted, l.Health(card, "b"), l.Snapshot(now), err, want)
		}
	}
	if l.Disconnect(card, start.Add(time.Minute)) != nil || l.Disconnect("vendor.test/none", start) != nil {
		t.Error("a second disconnect affects pods")
	}
	if concerned := l.Report(card, devices("a")); len(concerned) != 1 || l.Health(card, "b") != v1.ResourceHealthStatusUnhealthy || l.Health(card, "a") != v1.ResourceHealthStatusHealthy {
		t.Errorf("after a reconnect without a device these pods are affected: %v; health is %v", concerned, l.Health(card, "b"))
	}
	if capacity, allocatable := l.Count(card, start.Add(time.Hour)); capacity != 1 || allocatable != 1 {
		t.Errorf("capacity and allocatable are %d, %d", capacity, allocatable)
	}
}

// After a restart of the agent the node reports no devices of a resource until its plugin reports them, and a pod is
// admitted by the devices that were known before.
func TestDevicesOfAnEarlierAgentAreNotReported(t *testing.T) {
	l, pod := New(5*time.Minute), podOf("u", "app:1")
	l.Restore(card, []string{"a"}, start)
	if capacity, allocatable := l.Count(card, start); capacity != 0 || allocatable != 0 || l.Fits(pod, nil, start) != nil {
		t.Errorf("after a restart: capacity %d, allocatable %d, %v", capacity, allocatable, l.Fits(pod, nil, start))
	}
	l.Report(card, devices("a"))
	if capacity, allocatable := l.Count(card, start); capacity != 1 || allocatable != 1 {
		t.Errorf("after a report: capacity %d, allocatable %d", capacity, allocatable)
	}
}

// From the registration of a resource on, a container waits for its devices. Devices reported earlier are kept.
func TestRegister(t *testing.T) {
	l, pod := New(5*time.Minute), podOf("u", "app:1")
	if l.IsKnown(card) {
		t.Error("a resource is known before its plugin has registered")
	}
	l.Register(card)
	capacity, allocatable := l.Count(card, start)
	if _, err := l.Choose(pod, "app", card, 1, start); !l.IsKnown(card) || capacity != 0 || allocatable != 0 || !errors.Is(err, ErrWait) || l.Fits(pod, nil, start) == nil {
		t.Errorf("after the registration: capacity %d, allocatable %d, error of a container %v", capacity, allocatable, err)
	}
	l.Report(card, devices("a"))
	l.Register(card)
	if capacity, allocatable := l.Count(card, start); capacity != 1 || allocatable != 1 {
		t.Errorf("after a second registration: capacity %d, allocatable %d", capacity, allocatable)
	}
}

// After a restart of the agent a container waits for its plugin, even if it holds devices, unless they are on the node. What a
// plugin has reported counts in any case.
func TestReady(t *testing.T) {
	l, pod := New(5*time.Minute), podOf("u", "app:1")
	l.Restore(card, []string{"a"}, start)
	l.Take("u", "app", Held{card: {"a"}})
	for _, step := range []struct {
		change func()
		want   string
	}{
		{func() {}, "the plugin of vendor.test/card has not registered yet, and container \"app\" has its devices [a]"},
		{func() { l.Report(card, devices("a!")) }, "device a of vendor.test/card, which container \"app\" has, is not healthy"},
		{func() { l.Report(card, nil) }, "device a of vendor.test/card, which container \"app\" has, is not healthy"},
		{func() { l.Report(card, devices("a")) }, "<nil>"},
		{func() { l.Disconnect(card, start) }, "<nil>"}, // the last reported health counts
	} {
		step.change()
		present := l.Ready(pod, "app", true)
		if want := step.want; strings.Contains(want, "not registered") && present != nil || !strings.Contains(want, "not registered") && fmt.Sprint(present) != want {
			t.Errorf("%v although the devices are on the node, and otherwise %s", present, want)
		}
		if err := l.Ready(pod, "app", false); fmt.Sprint(err) != step.want || err != nil && !errors.Is(err, ErrWait) {
			t.Errorf("%v, want %s", err, step.want)
		}
	}
	if err := l.Ready(pod, "other", false); err != nil {
		t.Errorf("a container without devices: %v", err)
	}
}

func TestPick(t *testing.T) {
	c := Choice{Must: []string{"m"}, Free: []string{"a", "b", "c", "d"}, Need: 2}
	for preferred, want := range map[string]string{
		"":          "m a b",
		"c":         "m c a",
		"m d c":     "m d c",
		"d c b a":   "m d c",
		"x d d y":   "m d a",
		"m m m m m": "m a b",
	} {
		if got := c.Pick(strings.Fields(preferred)); strings.Join(got, " ") != want {
			t.Errorf("Pick of %+v with preference %q is %v, want %s", c, preferred, got, want)
		}
	}
}

// The error texts are the kubelet's.
func TestFits(t *testing.T) {
	const few = "requested number of devices unavailable for vendor.test/card. Requested: %d, Available: %d"
	for name, tc := range map[string]struct {
		devices, pod, beside, held string
		want                       string
	}{
		"enough":                    {"a b", "app:2", "", "", ""},
		"too many":                  {"a b", "app:3", "", "", fmt.Sprintf(few, 3, 2)},
		"two containers":            {"a b c", "app:2 b:2", "", "", fmt.Sprintf(few, 4, 3)},
		"init containers reuse":     {"a b", "i1:2 i2:1 app:1 b:1", "", "", ""},
		"sidecars do not":           {"a b", "i1:2 s1:1 app:1 b:1", "", "", fmt.Sprintf(few, 3, 2)},
		"sidecar and init":          {"a b", "s1:1 i1:2 app:1", "", "", fmt.Sprintf(few, 3, 2)},
		"unhealthy":                 {"a! b!", "app:1", "", "", "no healthy devices present; cannot allocate unhealthy devices vendor.test/card"},
		"beside":                    {"a b", "app:1", "app:1", "", ""},
		"beside, and none is left":  {"a b", "app:1", "app:2", "", fmt.Sprintf(few, 1, 0)},
		"beside that holds":         {"a b", "app:1", "app:1", "b:a", ""},
		"beside that holds all":     {"a b", "app:1", "app:2", "b:a b:b", fmt.Sprintf(few, 1, 0)},
		"beside more than there is": {"a", "app:1", "app:3", "", fmt.Sprintf(few, 1, 0)},
		"held by one that is over":  {"a b", "app:2", "", "over:a over:b", ""},
		"has its own":               {"a", "app:1", "app:5", "u:a", ""},
		"has one of two":            {"a b", "app:2", "", "u:a", ""},
		"absurd":                    {"a b", "app:9223372036854775807", "", "", fmt.Sprintf(few, 2147483647, 2)},
		"none":                      {"", "app:1", "", "", "no healthy devices present; cannot allocate unhealthy devices vendor.test/card"},
	} {
		l := ledgerOf(strings.Fields(tc.devices)...)
		held := map[types.UID][]string{}
		for word := range strings.FieldsSeq(tc.held) {
			uid, id, _ := strings.Cut(word, ":")
			held[types.UID(uid)] = append(held[types.UID(uid)], id)
		}
		for uid, ids := range held {
			l.Take(uid, "app", Held{card: ids})
		}
		pod := podOf("u", tc.pod)
		var beside []*v1.Pod
		if tc.beside != "" {
			beside = []*v1.Pod{podOf("b", tc.beside), pod}
		}
		got := ""
		if err := l.Fits(pod, beside, start); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	if err := New(time.Minute).Fits(podOf("u", "app:1"), nil, start); err != nil {
		t.Errorf("a resource that no plugin has registered: %v", err)
	}
}

// Resources of the node itself, such as cpu, never need devices, even if a record lists some.
func TestNeedsOfTheNodeAreNone(t *testing.T) {
	l := ledgerOf("a")
	l.Take("other", "app", Held{"cpu": {"0"}})
	if got := l.Needs(&podOf("web", "app:1").Spec.Containers[0]); len(got) != 1 || got[card] != 1 {
		t.Errorf("it needs %v", got)
	}
}
