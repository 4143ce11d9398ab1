package manager

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/filetree"
	"github.com/podsync/podsync/runtime/hostfs"
	"github.com/podsync/podsync/syncpod/eviction"
	"github.com/podsync/podsync/syncpod/volume"
)

const (
	// measurePause is the minimum time between two measurements of a pod's files. Measurements take
	// only a part of the time: after one, restFactor times its duration passes before the next, but
	// at most maxRest. Otherwise pods with large trees could delay the limits for all others.
	measurePause, maxRest = time.Minute, 2 * time.Minute
	restFactor            = 10
	// podTime is the time limit for one pod; a pod that exceeded it has twice as much in the next
	// pass, up to maxPodTime.
	podTime, maxPodTime = 2 * time.Second, 16 * time.Second
	// quickPart is the share of a pod's time for its other trees, in addition to the time of one
	// slow tree.
	quickPart = 4
	// maxEntries is the maximum number of entries in a tree. A larger tree is unmeasurable.
	maxEntries = 4_000_000
	// manyEntries is the number of entries from which a timeout is attributed to the tree's
	// size.
	manyEntries = 200_000
	// maxSeen is the maximum number of files in a tree that are recorded in order to count each once. A
	// larger tree is not walked again.
	maxSeen = 100_000
	// maxAgain is how often a tree that changes is walked again.
	maxAgain = 3
)

// A measurer measures the pods' volumes and logs. Only one pass uses it at a time.
type measurer struct {
	podsRoot, logsRoot string
	// walk is filetree.WalkUnchanged.
	walk  func(ctx context.Context, dir string, visit func(filetree.Entry) error) error
	known map[types.UID]measured
	// next is when limits are checked again.
	next time.Time
}

// measured is the result of a pod's last measurement.
type measured struct {
	at      time.Time
	volumes map[string]tree
	logs    map[string]tree // by container
	files   tree
	// cuts is how many times in a row the pod's time ended before all of its trees were counted.
	cuts int
}

// A tree is the disk usage of a directory.
type tree struct {
	bytes, inodes uint64
	// unread is how many times in a row the directory could not be counted completely, for lack of
	// time or because of err: its usage is at least the counted one.
	unread int
	err    error
	// entries is how many entries were counted, and slow how many times in a row there were more
	// than manyEntries when the tree alone had had the longest time for a measurement.
	entries, slow int
	// settled is when the tree was last counted to the end, or had the pod's whole time.
	settled time.Time
}

// usage returns the usage to report. A pod's activity during one measurement may prevent it from
// completing; if that happens repeatedly, the pod has made itself unmeasurable.
func (t tree) usage() eviction.DiskUsage {
	return eviction.DiskUsage{Bytes: &t.bytes, Inodes: &t.inodes, Unmeasurable: t.unread > 1 && t.err != nil || t.slow > 1}
}

// after merges a tree with the previous result: if this measurement is incomplete, the previous
// usage may still be there.
func (t tree) after(last tree) tree {
	if t.unread > 0 {
		t.bytes, t.inodes = max(t.bytes, last.bytes), max(t.inodes, last.inodes)
		t.unread += last.unread
	}
	return t
}

// cut returns a tree whose measurement timed out. If it had the maximum time, the number of entries
// is the cause: on a slow disk fewer are counted. A timeout for a share of that time says nothing
// about the tree.
func (t tree) cut(last tree, longest bool) tree {
	t.unread = 1
	switch {
	case !longest:
		t.slow = last.slow
	case t.entries > manyEntries:
		t.slow = last.slow + 1
	}
	return t
}

// due reports whether storage limits must be checked.
func (m *measurer) due(now time.Time) bool {
	return (m.podsRoot != "" || m.logsRoot != "") && !now.Before(m.next)
}

// measure measures pods that were not measured recently, and drops all others. Pods that timed out
// are measured last, after those that were skipped.
func (m *measurer) measure(ctx context.Context, pods []Pod, now time.Time) {
	m.keep(m.pass(ctx, pods, now))
}

func (m *measurer) keep(p pass) { m.known, m.next = p.known, p.next }

// pass is measure without a change to the measurer.
func (m *measurer) pass(ctx context.Context, pods []Pod, now time.Time) pass {
	began := time.Now()
	known := map[types.UID]measured{}
	for _, p := range m.inOrder(pods) {
		last, ok := m.known[p.Pod.UID]
		if ctx.Err() == nil && (!ok || now.Sub(last.at) >= measurePause || now.Before(last.at)) {
			last, ok = m.pod(ctx, p.Pod, last, now), true
		}
		if ok {
			known[p.Pod.UID] = last
		}
	}
	return pass{known, now.Add(min(max(measurePause, restFactor*time.Since(began)), maxRest))}
}

func (m *measurer) inOrder(pods []Pod) []Pod {
	return slices.SortedStableFunc(slices.Values(pods), func(a, b Pod) int {
		x, y := m.known[a.Pod.UID], m.known[b.Pod.UID]
		return cmp.Or(cmp.Compare(x.cuts, y.cuts), x.at.Compare(y.at))
	})
}

// pod measures a pod within its time limit. Trees that are not reached keep their last result.
func (m *measurer) pod(ctx context.Context, pod *v1.Pod, last measured, now time.Time) measured {
	of := measured{at: now, volumes: map[string]tree{}, logs: map[string]tree{}}
	if hostfs.Element("metadata.uid", string(pod.UID)) != nil {
		return of
	}
	if inTurn(ctx, m.trees(pod, last, &of), min(podTime<<min(last.cuts, 8), maxPodTime), now) {
		of.cuts = last.cuts + 1
		if ctx.Err() != nil { // the pass ended before the pod's time: the pod keeps its place in the order
			of.cuts = last.cuts
		}
	}
	return of
}

// A turn is one tree's measurement.
type turn struct {
	last    tree
	measure func(context.Context) tree
	keep    func(tree)
}

// trees returns the turns of a pod's trees.
func (m *measurer) trees(pod *v1.Pod, last measured, of *measured) []*turn {
	files := func(ctx context.Context) tree { return m.files(ctx, string(pod.UID)) }
	turns := []*turn{{last.files, files, func(t tree) { of.files = t }}}
	within := func(dir, name string, last, of map[string]tree) {
		used := func(ctx context.Context) tree { return m.used(ctx, dir) }
		turns = append(turns, &turn{last[name], used, func(t tree) { of[name] = t }})
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if kind := directoryOf(v); kind != "" && m.podsRoot != "" && hostfs.Element("name", v.Name) == nil {
			within(filepath.Join(m.podsRoot, string(pod.UID), volumesDir, kind, v.Name), v.Name, last.volumes, of.volumes)
		}
	}
	name := pod.Namespace + "_" + pod.Name + "_" + string(pod.UID)
	for _, c := range containers(pod) {
		if m.logsRoot != "" && hostfs.Element("name", name) == nil && hostfs.Element("name", c) == nil {
			within(filepath.Join(m.logsRoot, name, c), c, last.logs, of.logs)
		}
	}
	return turns
}

// containers returns the names of a pod's containers of all kinds.
func containers(pod *v1.Pod) []string {
	var names []string
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			names = append(names, list[i].Name)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		names = append(names, pod.Spec.EphemeralContainers[i].Name)
	}
	return names
}

// inTurn measures trees, and reports whether one timed out. Trees that were complete last time
// share the time equally, and only a part of it if there are others. Of the others, the tree that
// has waited longest has the whole time, and the next ones the rest. So after some passes each tree
// is complete, if the whole time suffices for it.
func inTurn(ctx context.Context, turns []*turn, limit time.Duration, now time.Time) (cut bool) {
	slices.SortStableFunc(turns, func(a, b *turn) int {
		return cmp.Or(cmp.Compare(min(a.last.unread, 1), min(b.last.unread, 1)), a.last.settled.Compare(b.last.settled))
	})
	quick := slices.IndexFunc(turns, func(t *turn) bool { return t.last.unread > 0 })
	share := limit / quickPart
	if quick < 0 {
		quick, share = len(turns), limit
	}
	end := time.Now().Add(share)
	for i, t := range turns[:quick] {
		cut = t.run(ctx, time.Until(end)/time.Duration(quick-i), false, now) || cut
	}
	end = time.Now().Add(limit)
	for i, t := range turns[quick:] {
		left := time.Until(end)
		if i == 0 {
			left = limit
		}
		if left <= 0 || ctx.Err() != nil {
			t.keep(t.last)
			cut = true
			continue
		}
		cut = t.run(ctx, left, i == 0, now) || cut
	}
	return cut
}

// run measures the tree within the limit, which is the pod's whole time or a share of it, and
// reports whether it timed out.
func (t turn) run(ctx context.Context, limit time.Duration, whole bool, now time.Time) (cut bool) {
	share, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	of := t.measure(share)
	cut = share.Err() != nil && of.unread > 0
	whole = whole && ctx.Err() == nil
	if cut {
		of = of.cut(t.last, whole && limit == maxPodTime)
	}
	of.settled = t.last.settled
	if whole || !cut {
		of.settled = now
	}
	t.keep(of.after(t.last))
	return cut
}

// The directories in a pod's that hold volumes.
const volumesDir, pluginsDir = "volumes", "plugins"

// files measures a pod's files other than volumes: its /etc/hosts and the termination messages,
// which its containers write. A file with several names counts once.
func (m *measurer) files(ctx context.Context, uid string) tree {
	if m.podsRoot == "" {
		return tree{}
	}
	dir := filepath.Join(m.podsRoot, uid)
	count := counter{seen: map[file]bool{}}
	entries, first := os.ReadDir(dir) // only the agent creates names here
	if errors.Is(first, fs.ErrNotExist) {
		first = nil
	}
	for _, e := range entries {
		if e.Name() == volumesDir || e.Name() == pluginsDir {
			continue
		}
		if err := m.entry(ctx, &count, dir, e); first == nil {
			first = err
		}
	}
	return count.tree(ctx, first)
}

// entry counts an entry in a directory. An entry that was removed in the meantime counts as
// nothing.
func (m *measurer) entry(ctx context.Context, count *counter, dir string, e fs.DirEntry) error {
	if e.IsDir() {
		if err := m.count(ctx, filepath.Join(dir, e.Name()), count); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	info, err := e.Info()
	if err != nil {
		return nil
	}
	return count.add(entryOf(info))
}

// complete adds measured disk usage to the usage from the runtime. If the latter is missing, only
// disk usage is known.
func (m *measurer) complete(pod *v1.Pod, u *eviction.Usage) *eviction.Usage {
	of, ok := m.known[pod.UID]
	if u == nil || !ok {
		return u
	}
	u.Files = of.files.usage()
	u.Volumes = nil
	for _, name := range slices.Sorted(maps.Keys(of.volumes)) {
		u.Volumes = append(u.Volumes, eviction.VolumeUsage{Name: name, DiskUsage: of.volumes[name].usage()})
	}
	for _, name := range slices.Sorted(maps.Keys(of.logs)) {
		logs := of.logs[name].usage()
		i := slices.IndexFunc(u.Containers, func(c eviction.ContainerUsage) bool { return c.Name == name })
		if i < 0 { // it does not run: only its logs are left
			u.Containers = append(u.Containers, eviction.ContainerUsage{Name: name, Logs: logs})
			continue
		}
		u.Containers[i].Logs = logs
	}
	return u
}

// directoryOf returns the directory of a kind of volume on the node's disk, "" for other kinds.
func directoryOf(v *v1.Volume) string {
	if !eviction.OnDisk(v) {
		return ""
	}
	return volume.KindOf(v).Directory()
}

// errTooMany means that a tree was not counted completely.
var errTooMany = errors.New("it has more files and directories than are counted")

// used counts a directory's contents, see count. A missing directory counts as nothing.
// Everything counted before an error counts.
func (m *measurer) used(ctx context.Context, dir string) tree {
	count := counter{seen: map[file]bool{}}
	err := m.count(ctx, dir, &count)
	if errors.Is(err, fs.ErrNotExist) && count.inodes == 0 {
		return tree{}
	}
	return count.tree(ctx, err)
}

// count adds up a directory's contents. It follows no link, enters no other file system, and
// counts a file with several names once.
//
// A walk may miss a file that is renamed during the walk, and a container can make it miss all
// files. So a tree that changes is walked again immediately, and files that were missed are added.
// Files that are deleted between the walks count too.
func (m *measurer) count(ctx context.Context, dir string, count *counter) error {
	err := m.walk(ctx, dir, count.add)
	for again := 0; errors.Is(err, filetree.ErrChanged); again++ {
		if again == maxAgain || count.full() || !errors.Is(m.walk(ctx, dir, count.add), filetree.ErrChanged) {
			return nil
		}
	}
	return err
}

// A counter adds files up.
type counter struct {
	bytes, inodes uint64
	entries       int
	seen          map[file]bool // the files that were counted
}

// full reports whether some counted files are not remembered, and would count again.
func (c *counter) full() bool { return len(c.seen) >= maxSeen }

// A file is identified by its device and inode: inodes of two subvolumes may have equal numbers.
type file struct{ device, inode uint64 }

// tree returns the usage counted until err.
func (c *counter) tree(ctx context.Context, err error) tree {
	of := tree{bytes: c.bytes, inodes: c.inodes, entries: c.entries}
	if err != nil {
		of.unread = 1
	}
	if ctx.Err() == nil { // otherwise the cause is lack of time
		of.err = err
	}
	return of
}

func (c *counter) add(e filetree.Entry) error {
	if c.entries++; c.entries > maxEntries {
		return errTooMany
	}
	of := file{e.Device, e.Inode}
	switch {
	case of == file{} && e.Links <= 1: // the operating system does not report it
	case c.seen[of]:
		return nil
	case !c.full():
		c.seen[of] = true
	case e.Links > 1 && !e.IsDir: // of files that are not remembered, each name counts a share
		c.bytes += e.Bytes / e.Links
		return nil
	}
	c.bytes, c.inodes = c.bytes+e.Bytes, c.inodes+1
	return nil
}
