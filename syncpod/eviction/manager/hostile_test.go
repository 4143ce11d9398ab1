package manager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/filetree"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/cri/critest/podtest"
	"github.com/podsync/podsync/syncpod/eviction"
)

// hostilePod has an emptyDir "v" and a container "app" with limits of so much.
func hostilePod(uid types.UID, limit string) *v1.Pod {
	q := resource.MustParse(limit)
	return podtest.Pod(string(uid), podtest.UID(uid), podtest.Container("app", podtest.Limits("ephemeral-storage="+limit)),
		podtest.Volume("v", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &q}}))
}

// evicted measures pods at a time, and returns why each is evicted.
func evicted(t *testing.T, m *measurer, now time.Time, pods ...*v1.Pod) string {
	t.Helper()
	var list []Pod
	for _, p := range pods {
		list = append(list, Pod{Pod: p})
	}
	ctx, cancel := context.WithTimeout(t.Context(), readTimeout)
	defer cancel()
	m.measure(ctx, list, now)
	rules := must.Get(eviction.ParsePolicy(eviction.Policy{}))(t)
	rules.StorageLimits = true
	state := eviction.State{Layout: eviction.OneDisk}
	for _, p := range pods {
		usage := &eviction.Usage{Containers: []eviction.ContainerUsage{{Name: "app"}}}
		state.Pods = append(state.Pods, eviction.Candidate{Pod: p, Usage: m.complete(p, usage)})
	}
	said := ""
	for _, e := range eviction.Decide(rules, state, now).Evict {
		said += fmt.Sprintf("%s: %s\n", e.Pod.Name, e.Message)
	}
	return said
}

func volumeOf(root string, uid types.UID) string {
	return filepath.Join(root, string(uid), "volumes", "kubernetes.io~empty-dir", "v")
}

// Names that are not UTF-8 and trees of any depth hide nothing, and are counted within bounds.
func TestHostileTreesAreMeasured(t *testing.T) {
	if goruntime.GOOS != "linux" {
		t.Skip("names of any bytes are those of Linux")
	}
	root := t.TempDir()
	at := volumeOf(root, "bad")
	write(t, filepath.Join(at, "\xff\xfe", "big"), 3<<20)
	m := &measurer{podsRoot: root, walk: filetree.Walk}
	now := time.Now()
	if got := evicted(t, m, now, hostilePod("bad", "2Mi")); !strings.Contains(got, `bad: Usage of EmptyDir volume "v" exceeds the limit "2Mi"`) {
		t.Errorf("a name that is not UTF-8: %q", got)
	}
	dir := must.Get(os.OpenRoot(at))(t)
	for range 1200 {
		must.Do(t, dir.Mkdir(strings.Repeat("d", 200), 0o700))
		next, err := dir.OpenRoot(strings.Repeat("d", 200))
		must.Do(t, errors.Join(err, dir.Close()))
		dir = next
	}
	must.Do(t, errors.Join(dir.WriteFile("big", make([]byte, 3<<20), 0o600), dir.Close()))
	t.Cleanup(func() {
		if dir, err := os.OpenRoot(at); err == nil {
			_ = errors.Join(filetree.Empty(context.Background(), dir), dir.Close())
		}
	})
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	got := evicted(t, m, now.Add(2*time.Minute), hostilePod("bad", "5Mi"))
	goruntime.ReadMemStats(&after)
	if !strings.Contains(got, "exceeds the limit") {
		t.Errorf("1,200 levels: %q", got)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
		t.Errorf("1,200 levels took %d bytes, want less than 64 MiB", n)
	}
}

// The files of the pod's own directory count, too: /etc/hosts and termination messages.
func TestFilesBesideVolumesCount(t *testing.T) {
	for _, file := range []string{"etc-hosts", "containers/app/etc-hosts", "containers/app/00000000"} {
		root := t.TempDir()
		write(t, filepath.Join(root, "u", file), 3<<20)
		m := &measurer{podsRoot: root, walk: filetree.Walk}
		if got := evicted(t, m, time.Now(), hostilePod("u", "2Mi")); got != "u: Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. \n" {
			t.Errorf("%s: %q", file, got)
		}
	}
}

// All containers of a pod may mount the same /etc/hosts under different names: it
// counts once.
func TestHostsFileOfSeveralContainersCountsOnce(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "u")
	write(t, filepath.Join(dir, "etc-hosts"), 3<<20)
	for _, name := range []string{"a", "b"} {
		own := filepath.Join(dir, "containers", name, "etc-hosts")
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(own), 0o755), os.Link(filepath.Join(dir, "etc-hosts"), own)))
	}
	m := &measurer{podsRoot: root, walk: filetree.Walk}
	if got := evicted(t, m, time.Now(), hostilePod("u", "4Mi")); got != "" {
		t.Errorf("evicted: %q", got)
	}
	if got := evicted(t, m, time.Now().Add(time.Hour), hostilePod("u", "2Mi")); !strings.Contains(got, "exceeds the total limit") {
		t.Errorf("%q, want that it exceeds its limit", got)
	}
}

// A directory tree that takes for ever uses only its pod's time: all other pods are measured in each pass. The part
// of the tree that was measured counts, also later.
func TestSlowTreeDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		var order []string
		sees := uint64(1 << 20)
		m := &measurer{podsRoot: root, walk: func(ctx context.Context, dir string, visit func(filetree.Entry) error) error {
			rest, _ := filepath.Rel(root, dir)
			uid, _, _ := strings.Cut(rest, "/")
			order = append(order, uid)
			if err := visit(filetree.Entry{Name: ".", IsDir: true, Bytes: sees, Links: 1}); uid != "slow" || err != nil {
				return err
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}}
		pods := []*v1.Pod{hostilePod("slow", "2Mi"), hostilePod("a", "2Mi"), hostilePod("b", "2Mi")}
		began := time.Now()
		if got := evicted(t, m, time.Now(), pods...); got != "" {
			t.Errorf("evicted: %q", got)
		}
		if took := time.Since(began); took != podTime {
			t.Errorf("a pass took %v, want %v", took, podTime)
		}
		time.Sleep(2 * time.Minute)
		order = nil
		evicted(t, m, time.Now(), pods...)
		if got := strings.Join(order, " "); got != "a b slow" {
			t.Errorf("measured in the order %s", got)
		}
		for range 10 {
			time.Sleep(5 * time.Minute)
			began := time.Now()
			if got := evicted(t, m, time.Now(), pods...); got != "" {
				t.Errorf("evicted for lack of time: %q", got)
			}
			if took := time.Since(began); took > maxPodTime {
				t.Errorf("a pass took %v, want at most %v", took, maxPodTime)
			}
		}
		sees = 3 << 20
		time.Sleep(5 * time.Minute)
		if got := evicted(t, m, time.Now(), pods...); strings.Count(got, "exceeds the limit") != 3 {
			t.Errorf("evicted: %q, want all three", got)
		}
		sees = 0
		time.Sleep(5 * time.Minute)
		if got := evicted(t, m, time.Now(), pods...); got != "slow: Usage of EmptyDir volume \"v\" exceeds the limit \"2Mi\". \n" {
			t.Errorf("evicted: %q, want what was seen of the slow one to count", got)
		}
	})
}

// When the time of a pass has expired, the remaining pods keep their previous usage, and are measured first
// in the next pass.
func TestInterruptedPassContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		measuredNow := map[string]int{}
		m := &measurer{podsRoot: root, walk: func(ctx context.Context, dir string, visit func(filetree.Entry) error) error {
			rest, _ := filepath.Rel(root, dir)
			uid, _, _ := strings.Cut(rest, "/")
			measuredNow[uid]++
			time.Sleep(3 * time.Second / 2) // of its two seconds
			return visit(filetree.Entry{Name: ".", IsDir: true, Bytes: 1, Links: 1})
		}}
		var pods []*v1.Pod
		for i := range 50 {
			pods = append(pods, hostilePod(types.UID(fmt.Sprintf("u%02d", i)), "2Mi"))
		}
		for range 4 {
			evicted(t, m, time.Now(), pods...)
			time.Sleep(5 * time.Minute)
		}
		for _, p := range pods {
			if n := measuredNow[p.Name]; n < 1 || n > 2 {
				t.Errorf("%s was measured %d times", p.Name, n)
			}
		}
	})
}

// Pods with trees that take all the time of a pass do not put off the limits of the others: those
// are measured first in a pass, and the next pass begins soon.
func TestSlowTreesDoNotPutOffLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		var last time.Time
		m := &measurer{podsRoot: root, walk: func(ctx context.Context, dir string, visit func(filetree.Entry) error) error {
			if strings.HasPrefix(dir, filepath.Join(root, "honest")) {
				last = time.Now()
				return visit(filetree.Entry{Name: ".", IsDir: true, Bytes: 1, Links: 1})
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}}
		var pods []*v1.Pod
		for i := range 12 {
			pods = append(pods, hostilePod(types.UID(fmt.Sprintf("slow%02d", i)), "2Mi"))
		}
		pods = append(pods, hostilePod("honest", "2Mi"))
		evicted(t, m, time.Now(), pods...)
		for range 5 {
			before := time.Now()
			time.Sleep(time.Until(m.next))
			evicted(t, m, time.Now(), pods...)
			if !last.After(before) || last.Sub(before) > maxRest {
				t.Errorf("the honest pod was measured %v after the last pass, want at most %v", last.Sub(before), maxRest)
			}
		}
	})
}

// A pod that makes its files uncountable exceeds its limits after two failed measurements.
func TestUnmeasurableTreeExceeds(t *testing.T) {
	root := t.TempDir()
	errDeep := errors.New("the tree has more than 65536 levels")
	m := &measurer{podsRoot: root, walk: func(_ context.Context, dir string, visit func(filetree.Entry) error) error {
		if err := visit(filetree.Entry{Name: ".", IsDir: true, Bytes: 1, Links: 1}); err != nil || !strings.Contains(dir, "bad") {
			return err
		}
		return errDeep
	}}
	now := time.Now()
	pods := []*v1.Pod{hostilePod("bad", "2Mi"), hostilePod("good", "2Mi")}
	if got := evicted(t, m, now, pods...); got != "" {
		t.Errorf("evicted at once: %q", got)
	}
	const want = "bad: Usage of EmptyDir volume \"v\" cannot be measured, which exceeds the limit \"2Mi\". \n"
	if got := evicted(t, m, now.Add(2*time.Minute), pods...); got != want {
		t.Errorf("evicted: %q, want %q", got, want)
	}
	pods[0].Spec.Volumes[0].EmptyDir.SizeLimit = nil
	if got := evicted(t, m, now.Add(4*time.Minute), pods...); !strings.HasPrefix(got, "bad: Pod ephemeral local storage usage of volume \"v\" cannot be measured") {
		t.Errorf("evicted: %q", got)
	}
	errDeep = nil
	if got := evicted(t, m, now.Add(6*time.Minute), pods...); got != "" {
		t.Errorf("evicted when it can be measured: %q", got)
	}
}

// The memory of a measurement is bounded, regardless of the number of files and hard links.
func TestManyEntriesAreBounded(t *testing.T) {
	c := counter{seen: map[file]bool{}}
	for i := range uint64(maxSeen + 1000) {
		for range 2 {
			must.Do(t, c.add(filetree.Entry{Bytes: 4096, Inode: i, Links: 2}))
		}
	}
	if len(c.seen) > maxSeen || c.bytes != (maxSeen+1000)*4096 {
		t.Errorf("%d are remembered, with %d bytes", len(c.seen), c.bytes)
	}
	for c.entries < maxEntries {
		must.Do(t, c.add(filetree.Entry{Links: 1}))
	}
	if err := c.add(filetree.Entry{Links: 1}); !errors.Is(err, errTooMany) {
		t.Errorf("%v, want %v", err, errTooMany)
	}
}

// Files of two subvolumes may have the same inode number: each counts.
func TestInodesOfTwoDevicesCountTwice(t *testing.T) {
	c := counter{seen: map[file]bool{}}
	for _, device := range []uint64{1, 2, 1} {
		must.Do(t, c.add(filetree.Entry{Bytes: 4096, Device: device, Inode: 257, Links: 2}))
	}
	if c.inodes != 2 || c.bytes != 8192 {
		t.Errorf("%d files with %d bytes, want 2 with 8192", c.inodes, c.bytes)
	}
}

// A volume that takes all its time keeps no other volume of the pod from being measured.
func TestVolumeBesideASlowOneIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &measurer{podsRoot: "/x", walk: func(ctx context.Context, dir string, visit func(filetree.Entry) error) error {
			if strings.HasSuffix(dir, "/slow") {
				<-ctx.Done()
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return visit(filetree.Entry{Name: "big", Bytes: 1 << 40, Links: 1})
		}}
		pod := hostilePod("bad", "2Mi")
		slow := v1.Volume{Name: "slow", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}
		pod.Spec.Volumes = append([]v1.Volume{slow}, pod.Spec.Volumes...)
		if got := evicted(t, m, time.Now(), pod); got == "" {
			t.Error("not evicted, with 1 TiB in a volume of 2 MiB")
		}
	})
}

// treesPod is a pod with emptyDirs of these names, and no limit.
func treesPod(names ...string) *v1.Pod {
	pod := hostilePod("many", "2Mi")
	pod.Spec.Containers[0].Resources, pod.Spec.Volumes = v1.ResourceRequirements{}, nil
	for _, name := range names {
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("2Mi"))}}})
	}
	return pod
}

// walkOf returns a walk that takes so long for each tree of many entries, which have so many bytes
// together.
func walkOf(takes map[string]time.Duration, bytes map[string]uint64) func(context.Context, string, func(filetree.Entry) error) error {
	return func(ctx context.Context, dir string, visit func(filetree.Entry) error) error {
		name := filepath.Base(dir)
		const steps = 50
		for range steps {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(takes[name] / steps):
			}
			for range 5 * manyEntries / steps {
				if err := visit(filetree.Entry{Links: 1}); err != nil {
					return err
				}
			}
		}
		return visit(filetree.Entry{Bytes: bytes[name], Links: 1})
	}
}

// A pod with several large trees is measured over several passes, if the time of one pass is too short:
// it is not evicted for that, and a tree that exceeds its limit is found.
func TestSeveralLargeTreesAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		takes, bytes := map[string]time.Duration{}, map[string]uint64{}
		var names []string
		for i := range 6 {
			name := fmt.Sprintf("v%d", i)
			names = append(names, name)
			takes[name], bytes[name] = 10*time.Second, 1<<20
		}
		m := &measurer{podsRoot: "/x", walk: walkOf(takes, bytes)}
		pod := treesPod(names...)
		pass := func() string {
			time.Sleep(5 * time.Minute)
			began := time.Now()
			defer func() {
				if took := time.Since(began); took > maxPodTime+maxPodTime/quickPart {
					t.Errorf("a pass took %v", took)
				}
			}()
			return evicted(t, m, time.Now(), pod)
		}
		for i := range 12 {
			if got := pass(); got != "" {
				t.Fatalf("pass %d: evicted: %q", i, got)
			}
		}
		for _, name := range names {
			if of := m.known[pod.UID].volumes[name]; of.bytes != 1<<20 {
				t.Errorf("%s: %d bytes, want that it was counted to the end", name, of.bytes)
			}
		}
		bytes["v3"] = 3 << 20
		got := ""
		for i := 0; i < 8 && got == ""; i++ {
			got = pass()
		}
		if !strings.Contains(got, `volume "v3" exceeds the limit "2Mi"`) {
			t.Errorf("evicted: %q, want it to be for v3", got)
		}
	})
}

// A tree that takes longer than the longest time exceeds its limit, regardless of the pod's other trees
// and of other pods.
func TestEndlessTreeBesideLargeOnesExceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		takes := map[string]time.Duration{"a": 3 * time.Second, "b": 3 * time.Second, "c": 15 * time.Second, "d": 15 * time.Second, "endless": 25 * time.Second}
		m := &measurer{podsRoot: "/x", walk: walkOf(takes, nil)}
		first, second := treesPod("a", "b", "c", "d", "endless"), treesPod("endless")
		second.Name, second.UID = "second", "second"
		got := map[string]bool{}
		for range 24 {
			time.Sleep(5 * time.Minute)
			for line := range strings.Lines(evicted(t, m, time.Now(), first, second)) {
				got[strings.TrimSpace(line)] = true
			}
		}
		for _, name := range []string{"many", "second"} {
			if want := name + `: Usage of EmptyDir volume "endless" cannot be measured, which exceeds the limit "2Mi".`; !got[want] || len(got) != 2 {
				t.Errorf("evicted: %v, want %q", got, want)
			}
		}
	})
}

// A tree counts as unmeasurable if the longest time for its number of entries has expired twice in a row.
func TestSlowForItsEntries(t *testing.T) {
	for name, c := range map[string]struct {
		entries []int  // entries counted before the time expired, 0 if it did not expire
		longest []bool // whether the time was the longest
		want    bool
	}{
		"once":                 {[]int{1e6}, []bool{true}, false},
		"twice":                {[]int{1e6, 1e6}, []bool{true, true}, true},
		"a slow disk":          {[]int{manyEntries, manyEntries, manyEntries}, []bool{true, true, true}, false},
		"less time":            {[]int{1e6, 1e6}, []bool{false, true}, false},
		"less time in between": {[]int{1e6, 1e6, 1e6}, []bool{true, false, true}, true},
		"complete in between":  {[]int{1e6, 0, 1e6}, []bool{true, true, true}, false},
		"slow disk in between": {[]int{1e6, 1, 1e6}, []bool{true, true, true}, false},
	} {
		var last tree
		for i, n := range c.entries {
			now := tree{entries: n}
			if n > 0 {
				now = now.cut(last, c.longest[i])
			}
			last = now.after(last)
		}
		if got := last.usage().Unmeasurable; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
