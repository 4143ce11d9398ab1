package cgroup_test

import (
	"math"
	"math/rand/v2"
	"path"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/cgroup"
	"github.com/podsync/podsync/syncpod/podspec/qos"
)

func TestNames(t *testing.T) {
	for _, tt := range []struct {
		root, class, cgroupfs, systemd string
	}{
		{"kubepods", "Guaranteed", "/kubepods/pod1-2", "/kubepods.slice/kubepods-pod1_2.slice"},
		{"kubepods", "Burstable", "/kubepods/burstable/pod1-2", "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice"},
		{"/edge/my-pods/", "BestEffort", "/edge/my-pods/besteffort/pod1-2", "/edge.slice/edge-my_pods.slice/edge-my_pods-besteffort.slice/edge-my_pods-besteffort-pod1_2.slice"},
		{"/", "Guaranteed", "/pod1-2", "/pod1_2.slice"},
	} {
		root := must.Get(cgroup.ParseName(tt.root))(t)
		name := must.Get(cgroup.PodName(root, v1.PodQOSClass(tt.class), "1-2"))(t)
		if got := name.Path(cgroup.Cgroupfs); got != tt.cgroupfs {
			t.Errorf("%s, cgroupfs: %s, want %v", tt.cgroupfs, got, tt.cgroupfs)
		}
		if got := name.Path(cgroup.Systemd); got != tt.systemd {
			t.Errorf("%s, systemd: %s, want %v", tt.systemd, got, tt.systemd)
		}
	}
	if got := (cgroup.Name{}).Path(cgroup.Systemd) + (cgroup.Name)(nil).Parent().Path(cgroup.Cgroupfs); got != "//" {
		t.Errorf("the root of the tree is %q", got)
	}
}

func TestNamesThatLeadElsewhere(t *testing.T) {
	for _, root := range []string{"..", "a/../b", "/a/./b", "a//b", "a\nb", "a\x00"} {
		if _, err := cgroup.ParseName(root); err == nil || !strings.Contains(err.Error(), "cgroup") {
			t.Errorf("Parse(%q): error %v, want an error and %q in it", root, err, "cgroup")
		}
	}
	for _, uid := range []types.UID{"", "/../..", "a/b", `a\b`, "a\nb"} {
		if _, err := cgroup.PodName(nil, v1.PodQOSGuaranteed, uid); err == nil || !strings.Contains(err.Error(), "metadata.uid") {
			t.Errorf("PodName(%q): error %v, want an error and %q in it", uid, err, "metadata.uid")
		}
	}
	if _, err := cgroup.PodName(nil, "Best", "u"); err == nil || !strings.Contains(err.Error(), `"Best"`) {
		t.Errorf("class Best: error %v", err)
	}
}

func FuzzNamesStayBelow(f *testing.F) {
	f.Add("kubepods", "5-6")
	f.Add("a/b", "../x")
	f.Fuzz(func(t *testing.T, s, uid string) {
		root, err := cgroup.ParseName(s)
		if err != nil {
			return
		}
		name, err := cgroup.PodName(root, v1.PodQOSBurstable, types.UID(uid))
		if err != nil {
			return
		}
		for _, d := range []cgroup.Driver{cgroup.Cgroupfs, cgroup.Systemd} {
			at, above := name.Path(d), name.Parent().Path(d)
			if path.Clean(at) != at || path.Dir(at) != above || strings.Count(at, "/") != len(name) {
				t.Errorf("%q and uid %q with %s: %q, below %q", s, uid, d, at, above)
			}
		}
	})
}

// A name that is lent is not written to by making another from it.
func TestNamesShareNothing(t *testing.T) {
	root := append(make(cgroup.Name, 0, 10), "kubepods")
	one, _ := cgroup.PodName(root, v1.PodQOSGuaranteed, "1")
	other, _ := cgroup.PodName(root, v1.PodQOSGuaranteed, "2")
	if one.Path(cgroup.Cgroupfs) != "/kubepods/pod1" || other.Path(cgroup.Cgroupfs) != "/kubepods/pod2" {
		t.Errorf("%v and %v, want %q and %q", one, other, "/kubepods/pod1", "/kubepods/pod2")
	}
}

func list(cpu, memory string) v1.ResourceList {
	l := v1.ResourceList{}
	if cpu != "" {
		l[v1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		l[v1.ResourceMemory] = resource.MustParse(memory)
	}
	return l
}

func podOf(class v1.PodQOSClass, cpu, memory string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: list(cpu, memory)}}}},
		Status:     v1.PodStatus{QOSClass: class},
	}
}

func TestAbove(t *testing.T) {
	above := cgroup.Above{
		Pods: []*v1.Pod{
			podOf(v1.PodQOSGuaranteed, "2", "100"), podOf(v1.PodQOSBurstable, "500m", "20"),
			podOf(v1.PodQOSBurstable, "1500m", "3"), podOf(v1.PodQOSBestEffort, "", ""),
		},
		Allocatable:       v1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("1Gi"), "pid": resource.MustParse("1000")},
		MemoryReservation: true,
	}
	node := must.Get(cgroup.ResourceConfigForNode(above))(t)
	want := cgroup.Resources{
		CPUShares: 4096, Memory: new(int64(1 << 30)), PIDs: new(int64(1000)),
		Unified: map[string]string{"memory.min": "100", "memory.low": "23"},
	}
	if !reflect.DeepEqual(node, want) {
		t.Errorf("node %+v, want %+v", node, want)
	}
	want = cgroup.Resources{CPUShares: 2048, Unified: map[string]string{"memory.min": "0", "memory.low": "23"}}
	if got := cgroup.ResourceConfigForQOSClass(above, v1.PodQOSBurstable); !reflect.DeepEqual(got, want) {
		t.Errorf("burstable %+v, want %+v", got, want)
	}
	want = cgroup.Resources{CPUShares: 2, Unified: map[string]string{"memory.min": "0", "memory.low": "0"}}
	if got := cgroup.ResourceConfigForQOSClass(above, v1.PodQOSBestEffort); !reflect.DeepEqual(got, want) {
		t.Errorf("besteffort %+v, want %+v", got, want)
	}
	if got, err := cgroup.ResourceConfigForNode(cgroup.Above{}); err != nil || !reflect.DeepEqual(got, cgroup.Resources{}) {
		t.Errorf("of a node that says nothing of itself: %+v, error %v", got, err)
	}
	above.Allocatable[v1.ResourceMemory] = resource.MustParse("-1")
	if _, err := cgroup.ResourceConfigForNode(above); err == nil || !strings.Contains(err.Error(), "memory is -1") {
		t.Errorf("a negative amount: error %v", err)
	}
}

func TestSettings(t *testing.T) {
	full := cgroup.Resources{
		CPUShares: 1024, CPUQuota: new(int64(50000)), CPUPeriod: new(int64(20000)), Memory: new(int64(7)), PIDs: new(int64(9)),
		HugePages: map[int64]int64{2 << 20: 4 << 20}, Unified: map[string]string{"memory.min": "5", "memory.low": "4"},
	}
	zero := cgroup.Resources{CPUShares: 2, CPUQuota: new(int64(0)), CPUPeriod: new(int64(100000)), Memory: new(int64(0))}
	pages := []int64{1 << 30, 2 << 20}
	for _, tt := range []struct {
		name    string
		r       cgroup.Resources
		version cgroup.Version
		limit   bool
		want    string
	}{
		{"v1", full, cgroup.V1, true, "cpu.shares=1024 cpu.cfs_period_us=20000 cpu.cfs_quota_us=50000 memory.limit_in_bytes=7 pids.max=9 hugetlb.2MB.limit_in_bytes=4194304 hugetlb.1GB.limit_in_bytes=0"},
		{"v2", full, cgroup.V2, true, "cpu.weight=39 cpu.max=50000 20000 memory.max=7 pids.max=9 memory.low=4 memory.min=5 hugetlb.2MB.max=4194304 hugetlb.1GB.max=0"},
		{"v1 of nothing", zero, cgroup.V1, false, "cpu.shares=2 cpu.cfs_period_us=100000 cpu.cfs_quota_us=-1 memory.limit_in_bytes=-1 pids.max=max hugetlb.2MB.limit_in_bytes=-1 hugetlb.1GB.limit_in_bytes=-1"},
		{"v2 of nothing", zero, cgroup.V2, false, "cpu.weight=1 cpu.max=max 100000 memory.max=max pids.max=max hugetlb.2MB.max=max hugetlb.1GB.max=max"},
	} {
		var got []string
		for _, s := range cgroup.Settings(tt.r, tt.version, pages, tt.limit) {
			got = append(got, s.File+"="+s.Value)
			if s.Controller != "hugetlb" && !strings.HasPrefix(s.File, s.Controller+".") {
				t.Errorf("%s is of the controller %s", s.File, s.Controller)
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s:\n%s, want\n%s", tt.name, strings.Join(got, " "), tt.want)
		}
	}
	if got := cgroup.Settings(cgroup.Resources{}, cgroup.V2, nil, false); len(got) != 3 || got[0].File != "cpu.max" || !got[0].Unlimited() || !got[1].Unlimited() {
		t.Errorf("of nothing at all: %v", got)
	}
	if got := cgroup.PageFile(cgroup.V1, 64<<10); got != "hugetlb.64KB.limit_in_bytes" {
		t.Errorf("64 KiB: %s, want %q", got, "hugetlb.64KB.limit_in_bytes")
	}
}

func TestWeight(t *testing.T) {
	last := int64(0)
	for shares := int64(-5); shares < 1<<18+5; shares += 7 {
		w := cgroup.SharesToWeight(shares)
		if w < max(last, 1) || w > 10000 {
			t.Fatalf("the weight of %d shares is %d, that of fewer %d", shares, w, last)
		}
		last = w
	}
	for w := int64(1); w <= 10000; w++ {
		if s := cgroup.WeightToShares(w); cgroup.SharesToWeight(s) != w || s > 2 && cgroup.SharesToWeight(s-1) >= w {
			t.Fatalf("weight %d is %d shares, and those %d", w, s, cgroup.SharesToWeight(s))
		}
	}
	if cgroup.WeightToShares(0) != 2 || cgroup.WeightToShares(math.MaxInt64) != 262144 {
		t.Error("the ends are not 2 and 262144 shares")
	}
	if cgroup.SharesToWeight(math.MaxInt64) != 10000 || cgroup.SharesToWeight(math.MinInt64) != 1 {
		t.Error("the ends are not 1 and 10000")
	}
}

func TestBadInput(t *testing.T) {
	if _, err := cgroup.ResourceConfigForPod(cgroup.Input{}); err == nil || !strings.Contains(err.Error(), "Input.Pod") {
		t.Errorf("no pod: error %v", err)
	}
	pod := podOf("", "", "")
	pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{"hugepages-big": resource.MustParse("1")}
	if _, err := cgroup.ResourceConfigForPod(cgroup.Input{Pod: pod}); err == nil || !strings.Contains(err.Error(), "hugepages-big") {
		t.Errorf("a size that is none: error %v", err)
	}
	pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{"hugepages-1e-266666600": {}}
	if _, err := cgroup.ResourceConfigForPod(cgroup.Input{Pod: pod}); err == nil || !strings.Contains(err.Error(), `"hugepages-1e-266666600"`) || !strings.Contains(err.Error(), "exponent") {
		t.Errorf("a size that takes hours to parse: error %v", err)
	}
}

// The properties of any pod's cgroup.
func TestRandomPods(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	amounts := []string{"", "0", "1", "10m", "2500m", "64Mi"}
	pick := func() string { return amounts[r.IntN(len(amounts))] }
	containers := func(n int) (all []v1.Container) {
		for range n {
			c := v1.Container{Resources: v1.ResourceRequirements{Requests: list(pick(), pick()), Limits: list(pick(), pick())}}
			if r.IntN(2) == 0 {
				c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
			}
			all = append(all, c)
		}
		return all
	}
	for range 5000 {
		pod := &v1.Pod{Spec: v1.PodSpec{InitContainers: containers(r.IntN(3)), Containers: containers(1 + r.IntN(3)), Overhead: list(pick(), pick())}}
		before := pod.DeepCopy()
		got := must.Get(cgroup.ResourceConfigForPod(cgroup.Input{Pod: pod, MemoryReservation: true, PIDs: 5}))(t)
		if !reflect.DeepEqual(pod, before) {
			t.Fatal("the pod was written to")
		}
		if got.CPUShares < 2 || got.CPUShares > 262144 || (got.CPUQuota == nil) != (got.CPUPeriod == nil) || *got.PIDs != 5 {
			t.Fatalf("%+v of %+v, want 2 to 262144 CPU shares, a quota and a period or neither, and 5 PIDs", got, pod.Spec)
		}
		for _, c := range pod.Spec.Containers {
			if limit := c.Resources.Limits[v1.ResourceMemory]; got.Memory != nil && limit.Value() > *got.Memory {
				t.Fatalf("the pod may have %d bytes, and a container of it %d", *got.Memory, limit.Value())
			} else if got.Memory != nil && limit.IsZero() {
				t.Fatalf("a container without a limit is limited to %d bytes", *got.Memory)
			}
		}
		if _, all := got.Unified["memory.min"]; all != (qos.FromSpec(&pod.Spec) == v1.PodQOSGuaranteed && got.Memory != nil) {
			t.Fatalf("memory.min of a pod that is %s: %v", qos.FromSpec(&pod.Spec), got.Unified)
		}
	}
}
