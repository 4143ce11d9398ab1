package eviction

import (
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// candidate returns a pod with the given requests and usage of memory and disk.
func candidate(uid string, priority int32, request, uses uint64) Candidate {
	asked := v1.ResourceList{
		v1.ResourceMemory: quantity(v1.ResourceMemory, request), v1.ResourceEphemeralStorage: quantity(v1.ResourceEphemeralStorage, request),
	}
	pod := &v1.Pod{Spec: v1.PodSpec{Priority: &priority, Containers: []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{Requests: asked}}}}}
	pod.UID, pod.Name, pod.Namespace = types.UID(uid), uid, "default"
	disk := DiskUsage{Bytes: &uses, Inodes: &uses}
	return Candidate{pod, &Usage{MemoryBytes: &uses, Processes: &uses, Containers: []ContainerUsage{{Name: "app", MemoryBytes: &uses, RootFS: disk}}}}
}

func uidsOf(pods []Candidate) (uids []string) {
	for _, p := range pods {
		uids = append(uids, string(p.Pod.UID))
	}
	return uids
}

func TestRank(t *testing.T) {
	unknown := candidate("unknown", 1000, 1, 0)
	unknown.Usage = nil
	for _, tc := range []struct {
		name   string
		signal Signal
		pods   []Candidate
		want   []string
	}{
		{"who exceeds the request goes first, whatever the priority", MemoryAvailable,
			[]Candidate{candidate("within", -5, 100, 99), candidate("beyond", 5, 100, 101)}, []string{"beyond", "within"}},
		{"then the lesser priority", MemoryAvailable, []Candidate{candidate("high", 5, 0, 900), candidate("low", 1, 0, 5)}, []string{"low", "high"}},
		{"then the larger usage above the request", MemoryAvailable, []Candidate{candidate("less", 0, 100, 200), candidate("more", 0, 10, 150)}, []string{"more", "less"}},
		{"who is unknown goes before all", MemoryAvailable, []Candidate{candidate("beyond", 0, 0, 9), unknown}, []string{"unknown", "beyond"}},
		{"processes by priority", PIDAvailable, []Candidate{candidate("a", 5, 0, 900), unknown, candidate("b", 1, 0, 5), candidate("c", 1, 0, 6)}, []string{"c", "b", "a", "unknown"}},
		{"equal pods stay in their order", NodeFSAvailable, []Candidate{candidate("b", 0, 1, 5), candidate("a", 0, 1, 5)}, []string{"b", "a"}},
	} {
		if got := uidsOf(Rank(tc.pods, tc.signal, OneDisk)); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// Usage on another file system does not count.
func TestRankByLayout(t *testing.T) {
	of := func(uid string, root, log, volume uint64) Candidate {
		c := candidate(uid, 0, 0, 0)
		c.Pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
		c.Usage = &Usage{
			Containers: []ContainerUsage{{Name: "app", RootFS: DiskUsage{Bytes: &root}, Logs: DiskUsage{Bytes: &log}}},
			Volumes:    []VolumeUsage{{"v", DiskUsage{Bytes: &volume}}},
		}
		return c
	}
	pods := []Candidate{of("root", 10, 0, 0), of("log", 0, 6, 0), of("volume", 0, 1, 8)}
	for _, tc := range []struct {
		signal Signal
		on     Layout
		want   []string
	}{
		{NodeFSAvailable, OneDisk, []string{"root", "volume", "log"}},
		{ImageFSAvailable, OneDisk, []string{"root", "volume", "log"}},
		{NodeFSAvailable, ImageDisk, []string{"volume", "log", "root"}},
		{ImageFSAvailable, ImageDisk, []string{"root", "log", "volume"}},
		{ContainerFSAvailable, ImageDisk, []string{"root", "log", "volume"}},
		{NodeFSAvailable, SplitDisk, []string{"root", "volume", "log"}},
		{ContainerFSAvailable, SplitDisk, []string{"root", "volume", "log"}},
		{ImageFSAvailable, SplitDisk, []string{"root", "log", "volume"}},
	} {
		if got := uidsOf(Rank(pods, tc.signal, tc.on)); !slices.Equal(got, tc.want) {
			t.Errorf("%s on %v: %v, want %v", tc.signal, tc.on, got, tc.want)
		}
	}
}

// Sums that overflow count as the maximum, and the overhead of a pod without requests does not count.
func TestAmounts(t *testing.T) {
	huge := uint64(1<<63 + 1)
	c := candidate("a", 0, 0, huge)
	c.Usage.Containers = append(c.Usage.Containers, c.Usage.Containers[0])
	if used := c.Usage.of(c.Pod, v1.ResourceEphemeralStorage, rootFS); used.Sign() <= 0 {
		t.Errorf("twice %d is %v, want more than 0", huge, &used)
	}
	c.Pod.Spec.Overhead = v1.ResourceList{v1.ResourceMemory: resource.MustParse("7")}
	if r := requested(c.Pod, v1.ResourceMemory); !r.IsZero() {
		t.Errorf("a pod without requests asks for %v", &r)
	}
	c.Pod.Spec.Containers[0].Resources.Requests[v1.ResourceMemory] = resource.MustParse("1")
	if r := requested(c.Pod, v1.ResourceMemory); r.Value() != 8 {
		t.Errorf("a request of 1 with an overhead of 7 is %v", &r)
	}
}

// A sorted list stays sorted, and Rank does not modify its argument.
func TestRankIsStable(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var pods []Candidate
		for i := range 2 + random.IntN(12) {
			c := candidate(string(rune('a'+i)), int32(random.IntN(3)), uint64(random.IntN(1000)), uint64(i)+100*uint64(random.IntN(10)))
			pods = append(pods, c)
		}
		pods[0].Usage = nil
		for _, s := range signals() {
			given := slices.Clone(pods)
			random.Shuffle(len(given), func(i, j int) { given[i], given[j] = given[j], given[i] })
			before := uidsOf(given)
			got, again := Rank(given, s, ImageDisk), Rank(Rank(given, s, ImageDisk), s, ImageDisk)
			if !slices.Equal(uidsOf(given), before) {
				t.Fatalf("%s: the list that was given is changed", s)
			}
			if !slices.Equal(uidsOf(got), uidsOf(again)) || len(got) != len(pods) {
				t.Fatalf("%s: %v, and of that order %v", s, uidsOf(got), uidsOf(again))
			}
		}
	}
}

// The files of an emptyDir on the disk count for evictions for disk, those of one in memory do not.
func TestVolumesInMemoryFillNoDisk(t *testing.T) {
	with := func(name string, medium v1.StorageMedium, bytes uint64) Candidate {
		c := candidate(name, 0, 0, 0)
		c.Pod.Spec.Volumes = []v1.Volume{{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: medium}}}}
		c.Usage = &Usage{Volumes: []VolumeUsage{{"scratch", DiskUsage{Bytes: &bytes}}}}
		return c
	}
	got := Rank([]Candidate{with("memory", v1.StorageMediumMemory, 8*gi), with("logs", v1.StorageMediumDefault, mi), with("disk", v1.StorageMediumDefault, gi)}, NodeFSAvailable, OneDisk)
	var names []string
	for _, c := range got {
		names = append(names, c.Pod.Name)
	}
	if want := []string{"disk", "logs", "memory"}; !slices.Equal(names, want) {
		t.Errorf("evicted in the order %v, want %v", names, want)
	}
}
