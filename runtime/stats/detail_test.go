package stats_test

import (
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/stats"
)

// withDetails adds the figures of cAdvisor to the container's cgroup.
func withDetails(l layout) fstest.MapFS {
	tree := l.tree()
	tree["sys/dev/block/8:0/uevent"] = file("MAJOR=8\nMINOR=0\nDEVNAME=sda\n")
	at := l.container
	if l.unified {
		at = trimContainer(at)
		dir := "sys/fs/cgroup/" + at + "/"
		tree[dir+"cpu.stat"] = file("usage_usec 4000000\nuser_usec 3000000\nsystem_usec 1000000\nnr_periods 10\nnr_throttled 2\nthrottled_usec 500\n")
		tree[dir+"memory.stat"] = file("anon 40\nfile 7\nfile_mapped 5\ninactive_file 500\npgfault 3\npgmajfault 2\n")
		tree[dir+"memory.swap.current"] = file("11\n")
		tree[dir+"memory.events"] = file("low 0\nhigh 0\nmax 0\noom 1\noom_kill 1\n")
		tree[dir+"pids.current"] = file("3\n")
		tree[dir+"io.stat"] = file("8:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0\n259:1 rbytes=1\n../x rbytes=5\n")
		return tree
	}
	in := func(controller, name, text string) {
		tree["sys/fs/cgroup/"+controller+"/"+at+"/"+name] = file(text)
	}
	in("cpuacct", "cpuacct.usage_user", "3000000000\n")
	in("cpuacct", "cpuacct.usage_sys", "1000000000\n")
	in("cpu", "cpu.stat", "nr_periods 10\nnr_throttled 2\nthrottled_time 500000\n")
	in("memory", "memory.stat", "cache 1\ntotal_cache 7\ntotal_rss 40\ntotal_mapped_file 5\ntotal_swap 11\ntotal_inactive_file 500\ntotal_pgfault 3\ntotal_pgmajfault 2\n")
	in("memory", "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
	in("pids", "pids.current", "3\n")
	in("blkio", "blkio.throttle.io_serviced_recursive", "8:0 Read 1\n8:0 Write 2\n8:0 Total 3\n259:1 Read 0\nTotal 3\n")
	in("blkio", "blkio.throttle.io_service_bytes_recursive", "8:0 Read 4096\n8:0 Write 8192\n259:1 Read 1\nTotal 12289\n")
	return tree
}

// trimContainer returns the cgroup that has the ID of the container in its name.
func trimContainer(at string) string { return strings.TrimSuffix(at, "/container") }

// The figures of a container are the same with both versions and all drivers.
func TestDetails(t *testing.T) {
	n := func(v uint64) *uint64 { return &v }
	for _, l := range layouts {
		p := pod()
		p.Containers[0].Image = "registry.test/app:1"
		got, err := reader(t, &statsRuntime{}, withDetails(l)).ReadDetails(t.Context(), []*runtime.PodStatus{p})
		if err != nil || len(got) != 2 {
			t.Errorf("%s: %+v, %v, want the pod and its container", l.name, got, err)
			continue
		}
		ofPod, c := got[0], got[1]
		if ofPod.Container != "" || ofPod.Path != "/"+l.pod || *ofPod.UsageNanoSeconds != 5e9 || *ofPod.LimitBytes != 10000 || *ofPod.WorkingSetBytes != 2000 {
			t.Errorf("%s: the pod is %+v", l.name, ofPod)
		}
		if len(ofPod.Network) != 1 || *ofPod.Network[0].RxPackets != 6 || *ofPod.Network[0].TxBytes != 300 || *ofPod.Network[0].TxDropped != 0 || c.Network != nil {
			t.Errorf("%s: the network is %+v", l.name, ofPod.Network)
		}
		want := stats.Detail{
			Namespace: ofPod.Namespace, Pod: ofPod.Pod, UID: ofPod.UID, Container: p.Containers[0].Name, ID: p.Containers[0].ID.ID, Image: "registry.test/app:1",
			Path: "/" + trimContainer(l.container), StartTime: p.Containers[0].StartedAt, Time: c.Time,
			UsageNanoSeconds: n(4e9), UserNanoSeconds: n(3e9), SystemNanoSeconds: n(1e9), ThrottledNanoSeconds: n(500000), Periods: n(10), ThrottledPeriods: n(2),
			UsageBytes: n(2000), WorkingSetBytes: n(1500), RSSBytes: n(40), CacheBytes: n(7), SwapBytes: n(11), MappedBytes: n(5), OOMKills: n(1), Processes: n(3),
			Devices: []stats.Device{{Name: "/dev/sda", Reads: 1, ReadBytes: 4096, Writes: 2, WrittenBytes: 8192}, {Name: "259:1", ReadBytes: 1}},
		}
		if !reflect.DeepEqual(c, want) {
			t.Errorf("%s: the container is\n%+v, want\n%+v", l.name, c, want)
		}
	}
}

// A pod whose cgroups are not found, or that has no sandbox, is left out.
func TestDetailsOfPodsWithoutCgroups(t *testing.T) {
	got, err := reader(t, &statsRuntime{}, proc).ReadDetails(t.Context(), []*runtime.PodStatus{pod(), nil, {UID: "without"}})
	if err != nil || len(got) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
}
