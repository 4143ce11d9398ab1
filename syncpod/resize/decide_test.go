package resize_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod/resize"
)

func amounts(cpu, memory string) v1.ResourceList {
	list := v1.ResourceList{}
	for name, value := range map[v1.ResourceName]string{v1.ResourceCPU: cpu, v1.ResourceMemory: memory} {
		if value != "" {
			list[name] = resource.MustParse(value)
		}
	}
	return list
}

// pod requests and limits so much.
func pod(uid, cpu, memory string, adjust ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: uid, UID: types.UID(uid)},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{
			Requests: amounts(cpu, memory), Limits: amounts(cpu, memory),
		}}}},
	}
	for _, a := range adjust {
		a(p)
	}
	return p
}

func overhead(cpu string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Overhead = amounts(cpu, "") }
}

func TestDecide(t *testing.T) {
	node := amounts("4", "8Gi")
	for _, tt := range []struct {
		name      string
		pod, from *v1.Pod
		beside    []*v1.Pod
		want      resize.Outcome
		message   string
	}{
		{"fits alone", pod("a", "4", "8Gi"), pod("a", "1", "1Gi"), nil, resize.Accepted, ""},
		{"fits beside others", pod("a", "2", "1Gi"), pod("a", "1", "1Gi"), []*v1.Pod{pod("b", "2", "7Gi")}, resize.Accepted, ""},
		{"too much for the node", pod("a", "5", "1Gi"), pod("a", "1", "1Gi"), nil, resize.Infeasible, "Node didn't have enough capacity: cpu, requested: 5000, capacity: 4000"},
		{"too much memory for the node", pod("a", "1", "9Gi"), pod("a", "1", "1Gi"), nil, resize.Infeasible, "memory, requested: 9663676416, capacity: 8589934592"},
		{"too much now", pod("a", "3", "1Gi"), pod("a", "1", "1Gi"), []*v1.Pod{pod("b", "2", "1Gi")},
			resize.Deferred, "Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000"},
		{"too much now and too much memory ever", pod("a", "3", "9Gi"), pod("a", "1", "1Gi"), []*v1.Pod{pod("b", "2", "1Gi")}, resize.Infeasible, "memory"},
		{"its overhead counts", pod("a", "3", "1Gi", overhead("2")), pod("a", "1", "1Gi", overhead("2")), nil, resize.Infeasible, "requested: 5000"},
		{"that of others, too", pod("a", "3", "1Gi"), pod("a", "1", "1Gi"), []*v1.Pod{pod("b", "500m", "1Gi", overhead("1"))}, resize.Deferred, "used: 1500"},
		{"less, on a node that is too full", pod("a", "1", "1Gi"), pod("a", "2", "1Gi"), []*v1.Pod{pod("b", "9", "1Gi")}, resize.Accepted, ""},
		{"as much, on a node that is too small", pod("a", "9", "2Gi"), pod("a", "9", "1Gi"), nil, resize.Accepted, ""},
		{"another quality of service", pod("a", "1", ""), pod("a", "1", "1Gi"), nil, resize.Infeasible, "quality of service"},
	} {
		got := resize.Decide(resize.Request{Pod: tt.pod, Allocated: tt.from, ActivePods: tt.beside, Allocatable: node})
		if got.Outcome != tt.want || !strings.Contains(got.Message, tt.message) || (got.Message == "") != (tt.want == resize.Accepted) {
			t.Errorf("%s: %+v, want %s, %q", tt.name, got, tt.want, tt.message)
		}
	}
	for cpu, want := range map[string]string{
		"1e30": "requested: 9223372036854775807, capacity: 4000", "9Ei": "requested: 9223372036854775807", "9223372036854775807k": "requested: 9223372036854775807",
		"-1": "resources.requests[cpu] of app is -1, want 0 or more", "-9Ei": "of app is -9223372036854775807", "-1n": "of app is -1n",
	} {
		got := resize.Decide(resize.Request{Pod: pod("a", cpu, "1Gi"), Allocated: pod("a", "1", "1Gi"), Allocatable: node})
		if got.Outcome != resize.Infeasible || !strings.Contains(got.Message, want) {
			t.Errorf("%s: %+v, want %q", cpu, got, want)
		}
	}
	got := resize.Decide(resize.Request{Pod: pod("a", "99", "99Gi"), Allocated: pod("a", "1", "1Gi")})
	if got.Outcome != resize.Accepted {
		t.Errorf("on a node without known resources: %+v", got)
	}
	whole := func(cpu string) *v1.Pod {
		return pod("a", "1", "1Gi", func(p *v1.Pod) {
			p.Spec.Resources = &v1.ResourceRequirements{Requests: amounts(cpu, "1Gi"), Limits: amounts(cpu, "1Gi")}
		})
	}
	got = resize.Decide(resize.Request{Pod: whole("2"), Allocated: whole("1"), Allocatable: node})
	if got.Outcome != resize.Accepted {
		t.Errorf("resources of the pod as a whole: %+v", got)
	}
	got = resize.Decide(resize.Request{Pod: whole("3"), Allocated: whole("1"), ActivePods: []*v1.Pod{whole("2")}, Allocatable: node})
	if got.Outcome != resize.Deferred || !strings.Contains(got.Message, "requested: 3000, used: 2000") {
		t.Errorf("more than is left for the pod as a whole: %+v", got)
	}
}

// An accepted resize fits, a deferred one fits an empty node, an infeasible one does not, and
// a smaller request is never rejected.
func TestDecideRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	draw := func(uid string) *v1.Pod {
		return pod(uid, fmt.Sprint(1+r.IntN(9)), fmt.Sprint(1+r.IntN(9)))
	}
	for range 5000 {
		req := resize.Request{Pod: draw("a"), Allocated: draw("a"), Allocatable: amounts(fmt.Sprint(r.IntN(20)), fmt.Sprint(r.IntN(20)))}
		for i := range r.IntN(4) {
			req.ActivePods = append(req.ActivePods, draw(fmt.Sprint(i)))
		}
		before := fmt.Sprintf("%+v", req)
		got := resize.Decide(req)
		if fmt.Sprintf("%+v", req) != before {
			t.Fatal("the request was written to")
		}
		fitsNow, fitsEver := true, true
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			asked, has, all := req.Pod.Spec.Containers[0].Resources.Requests[name], req.Allocated.Spec.Containers[0].Resources.Requests[name], req.Allocatable[name]
			if asked.Cmp(has) <= 0 {
				continue
			}
			fitsEver = fitsEver && asked.Cmp(all) <= 0
			for _, p := range req.ActivePods {
				asked.Add(p.Spec.Containers[0].Resources.Requests[name])
			}
			fitsNow = fitsNow && asked.Cmp(all) <= 0
		}
		want := resize.Accepted
		if !fitsEver {
			want = resize.Infeasible
		} else if !fitsNow {
			want = resize.Deferred
		}
		if got.Outcome != want {
			t.Fatalf("%+v of %s, want %s", got, before, want)
		}
	}
}

func TestOrder(t *testing.T) {
	now := time.Unix(1000, 0)
	prio := func(n int32) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.Priority = &n } }
	class := func(c v1.PodQOSClass) func(*v1.Pod) { return func(p *v1.Pod) { p.Status.QOSClass = c } }
	from := func(p *v1.Pod) *v1.Pod {
		p = p.DeepCopy()
		p.Spec.Containers[0].Resources.Requests = amounts("1", "1Gi")
		return p
	}
	var list []resize.Pending
	for i, p := range []*v1.Pod{
		pod("7", "2", "1Gi", class(v1.PodQOSBurstable)),
		pod("6", "2", "1Gi", class(v1.PodQOSBurstable)),
		pod("5", "2", "1Gi"),
		pod("4", "2", "1Gi", prio(5), class(v1.PodQOSBestEffort)),
		pod("3", "2", "1Gi", prio(5)),
		pod("2", "2", "1Gi", prio(9), class(v1.PodQOSBurstable)),
		pod("1", "500m", "1Gi"),
	} {
		list = append(list, resize.Pending{Pod: p, Allocated: from(p), Since: now.Add(-time.Duration(i) * time.Second)})
	}
	for range 20 {
		rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		resize.Order(list)
		var order string
		for _, p := range list {
			order += string(p.Pod.UID)
		}
		if order != "1234567" {
			t.Fatalf("order %s, want %q", order, "1234567")
		}
	}
}

func TestAllocation(t *testing.T) {
	asked := pod("a", "2", "2Gi", func(p *v1.Pod) {
		p.Spec.Containers[0].Resources.Limits[v1.ResourceEphemeralStorage] = resource.MustParse("5Gi")
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "new"})
		p.Spec.InitContainers = []v1.Container{{Name: "init", Resources: v1.ResourceRequirements{Requests: amounts("3", "")}}}
		p.Spec.Resources = &v1.ResourceRequirements{Limits: amounts("9", "")}
	})
	before := asked.DeepCopy()
	a := resize.AllocationOf(pod("a", "1", ""))
	a[""] = v1.ResourceRequirements{Limits: amounts("8", "")}
	got := a.Apply(asked)
	if !reflect.DeepEqual(asked, before) {
		t.Fatal("the pod was written to")
	}
	limits := got.Spec.Containers[0].Resources.Limits
	if limits.Cpu().String() != "1" || !limits.Memory().IsZero() || limits.StorageEphemeral().String() != "5Gi" {
		t.Errorf("limits %v, want CPU %q, no memory and ephemeral storage %q", limits, "1", "5Gi")
	}
	if got.Spec.Resources.Limits.Cpu().String() != "8" || got.Spec.InitContainers[0].Resources.Requests.Cpu().String() != "3" || len(got.Spec.Containers) != 2 {
		t.Errorf("%+v, want a CPU limit of %q for the pod, a CPU request of %q for its init container, and two containers", got.Spec, "8", "3")
	}
	bare := pod("a", "1", "1Gi")
	whole := pod("a", "1", "1Gi", func(p *v1.Pod) { p.Spec.Resources = &v1.ResourceRequirements{Requests: amounts("2", "2Gi")} })
	if got := resize.AllocationOf(bare).Apply(whole).Spec.Resources; len(got.Requests) > 0 {
		t.Errorf("what a pod asks for as a whole, and had not, is allocated: %v", got)
	}
	if resize.AllocationOf(asked).Apply(asked) != asked {
		t.Error("a pod that is allocated what it asks for is copied")
	}
	same := pod("a", "1000m", "1024Mi")
	if !resize.AllocationOf(same).Equal(resize.AllocationOf(pod("a", "1", "1Gi"))) || resize.AllocationOf(same).Equal(resize.AllocationOf(pod("a", "1", ""))) {
		t.Error("amounts count, not how they are written")
	}
}
