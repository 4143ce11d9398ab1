package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/container/env"
)

// podText is the manifest of a pod of one container.
func podText(name, image string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  containers:\n  - {name: c, image: %q}\n", name, image)
}

// folderTest is a running Folder without notifications of changes.
type folderTest struct {
	t   *testing.T
	dir string
	f   *Folder
	got deliveries
}

// deliveries are snapshots in the order of their delivery.
type deliveries struct {
	mu  sync.Mutex
	all []Snapshot
}

func (d *deliveries) add(s Snapshot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, s)
}

// last returns the last snapshot and how many there were, once all are idle.
func (d *deliveries) last() (Snapshot, int) {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.all) == 0 {
		return Snapshot{}, 0
	}
	return d.all[len(d.all)-1], len(d.all)
}

// words returns the last snapshot as a line, and how many there were.
func (d *deliveries) words() (string, int) {
	s, n := d.last()
	var words []string
	for _, pod := range s.Pods {
		words = append(words, pod.Name+"="+pod.Spec.Containers[0].Image)
	}
	if s.Incomplete {
		words = append(words, "incomplete")
	}
	for _, err := range s.Errors {
		words = append(words, err.Error())
	}
	return strings.Join(words, " "), n
}

func runFolder(t *testing.T, dir string) *folderTest {
	t.Helper()
	f := must.Get(NewFolder(FolderConfig{Path: dir, NodeName: "node-1"}))(t)
	ft := &folderTest{t: t, dir: dir, f: f.Unwatched()}
	must.Run(t, func(ctx context.Context) error { return f.Run(ctx, ft.got.add) })
	synctest.Wait()
	return ft
}

func (ft *folderTest) write(name, text string) {
	ft.t.Helper()
	must.Do(ft.t, os.WriteFile(filepath.Join(ft.dir, name), []byte(text), 0o600))
}

func (ft *folderTest) remove(name string) {
	ft.t.Helper()
	must.Do(ft.t, os.Remove(filepath.Join(ft.dir, name)))
}

// rescan lets the folder read all, and returns the last snapshot.
func (ft *folderTest) rescan() Snapshot {
	ft.t.Helper()
	time.Sleep(defaultRescan + time.Second)
	s, _ := ft.got.last()
	return s
}

// say is a snapshot in words: pods with their images, then errors.
func (ft *folderTest) say(s Snapshot) string {
	var words []string
	for _, pod := range s.Pods {
		words = append(words, pod.Name+"="+pod.Spec.Containers[0].Image)
	}
	if s.Incomplete {
		words = append(words, "incomplete")
	}
	for _, err := range s.Errors {
		words = append(words, "\n"+strings.ReplaceAll(err.Error(), ft.dir, "DIR"))
	}
	return strings.Join(words, " ")
}

func (ft *folderTest) expect(want string) Snapshot {
	ft.t.Helper()
	s := ft.rescan()
	if got := ft.say(s); got != want {
		ft.t.Errorf("got  %s\nwant %s", got, want)
	}
	return s
}

func TestFolderKeepsTheLastGoodVersion(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ft := runFolder(t, dir)
		ft.expect("")
		ft.write("b.yaml", podText("b", "b:1"))
		ft.write("a.yaml", podText("a", "a:1")+"---\n"+podText("c", "c:1"))
		ft.expect("a-node-1=a:1 c-node-1=c:1 b-node-1=b:1")

		// One pod of a file is not valid: the others are taken.
		ft.write("a.yaml", podText("a", "a:2")+"---\n"+podText("c", ""))
		ft.expect("a-node-1=a:2 c-node-1=c:1 b-node-1=b:1 \n" +
			"DIR/a.yaml: document 2: Pod default/c: spec.containers[0].image: Required value")

		// A file that is half written may hold anything, whether or not it parses.
		half, _, _ := strings.Cut(podText("a", "a:3"), "  containers")
		ft.write("a.yaml", half+"  {")
		ft.expect("a-node-1=a:2 c-node-1=c:1 b-node-1=b:1 \n" +
			"DIR/a.yaml: document 1: yaml: line 5: did not find expected node content")
		ft.write("a.yaml", half)
		ft.expect("a-node-1=a:2 c-node-1=c:1 b-node-1=b:1 \n" +
			"DIR/a.yaml: document 1: Pod default/a: spec.containers: Required value")
		ft.write("a.yaml", "")
		ft.expect("a-node-1=a:2 c-node-1=c:1 b-node-1=b:1 \nDIR/a.yaml: there is no object in it")

		// Removed files are dropped, with their errors.
		ft.write("a.yaml", podText("c", "c:2"))
		ft.expect("c-node-1=c:2 b-node-1=b:1")
		ft.remove("b.yaml")
		ft.expect("c-node-1=c:2")
	})
}

// Pods in the runtime may belong to files that were not read yet: they must not
// count as orphans (kubernetes #105547).
func TestM3_FolderReportsThatItIsIncomplete(t *testing.T) {
	dir := t.TempDir()
	away := filepath.Join(dir, "away")
	synctest.Test(t, func(t *testing.T) {
		ft := runFolder(t, away)
		ft.expect("incomplete \nDIR: open DIR: no such file or directory")
		must.Do(t, os.Mkdir(away, 0o700))
		time.Sleep(2 * absence) // not a whole rescan
		if s, _ := ft.got.last(); ft.say(s) != "" {
			t.Errorf("after the folder has come: %s", ft.say(s))
		}

		ft.write("a.yaml", "{")
		ft.expect("incomplete \nDIR/a.yaml: document 1: yaml: line 1: did not find expected node content")
		ft.write("a.yaml", podText("a", ""))
		ft.expect("incomplete \nDIR/a.yaml: document 1: Pod default/a: spec.containers[0].image: Required value")
		ft.write("a.yaml", podText("a", "a:1"))
		ft.expect("a-node-1=a:1")
		ft.write("a.yaml", podText("a", ""))
		ft.expect("a-node-1=a:1 \nDIR/a.yaml: document 1: Pod default/a: spec.containers[0].image: Required value")

		// A missing folder, as with an unmounted file system, does not make pods
		// unwanted.
		must.Do(t, os.RemoveAll(away))
		ft.expect("a-node-1=a:1 \nDIR: open DIR: no such file or directory \nDIR/a.yaml: document 1: Pod default/a: spec.containers[0].image: Required value")
	})
}

func TestFolderDeliversOnlyChanges(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ft := runFolder(t, dir)
		ft.write("a.yaml", podText("a", "a:1"))
		ft.write("b.yaml", podText("b", "b:1"))
		first := ft.rescan()
		_, n := ft.got.last()
		ft.write("a.yaml", podText("a", "a:1"))
		ft.write("b.yaml", "# with a comment\n"+podText("b", "b:1"))
		ft.rescan()
		if _, more := ft.got.last(); more != n {
			t.Errorf("%d snapshots more although nothing changed", more-n)
		}
		ft.write("a.yaml", podText("a", "a:2"))
		second := ft.rescan()
		if _, more := ft.got.last(); more != n+1 {
			t.Errorf("%d snapshots more, want 1", more-n)
		}
		if first.Pods[0].UID == second.Pods[0].UID {
			t.Error("another pod of the same name has the same UID")
		}
		if first.Pods[1] != second.Pods[1] {
			t.Error("the pod that did not change was replaced")
		}
	})
}

func TestFolderKeepsAUIDThatIsGiven(t *testing.T) {
	dir := t.TempDir()
	given := func(name, image string) string {
		return strings.Replace(podText(name, image), "{name", "{uid: mine, name", 1)
	}
	synctest.Test(t, func(t *testing.T) {
		ft := runFolder(t, dir)
		ft.write("a.yaml", given("a", "a:1"))
		first := ft.expect("a-node-1=a:1")
		ft.write("a.yaml", given("a", "a:2"))
		second := ft.expect("a-node-1=a:2")
		if first.Pods[0].UID != "mine" || second.Pods[0].UID != "mine" {
			t.Errorf("UIDs are %s and %s", first.Pods[0].UID, second.Pods[0].UID)
		}
		if a, b := first.Pods[0].Annotations, second.Pods[0].Annotations; a[runtime.AnnotationConfigSeen] != b[runtime.AnnotationConfigSeen] {
			t.Errorf("first seen at %v, then at %v", a, b)
		}
		ft.write("b.yaml", given("b", "b:1"))
		ft.expect("a-node-1=a:2 \nDIR/b.yaml: document 1: Pod default/b-node-1: metadata.uid is that of a pod in DIR/a.yaml, document 1, which counts")
	})
}

func TestFolderPassesOver(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(t.TempDir(), "target.yaml")
	synctest.Test(t, func(t *testing.T) {
		ft := runFolder(t, dir)
		for _, name := range []string{".hidden.yaml", "a.yaml~", "a.yaml.tmp", "#a.yaml#", "a.yml.bak", "a.yaml.orig", "a.json.rej", "a.yaml.dpkg-old"} {
			ft.write(name, podText("hidden", "h:1"))
		}
		must.Do(t, os.Mkdir(filepath.Join(dir, "folder.yaml"), 0o700))
		ft.expect("")

		// Links are followed, and their targets may change.
		if err := errors.Join(os.Symlink(target, filepath.Join(dir, "link.yaml")), os.Symlink(dir, filepath.Join(dir, "loop.yaml"))); err != nil {
			t.Skip(err)
		}
		ft.expect("incomplete \nDIR/link.yaml: not read: it is a symbolic link to nothing")
		must.Do(t, os.WriteFile(target, []byte(podText("a", "a:1")), 0o600))
		ft.expect("a-node-1=a:1")
		must.Do(t, os.Truncate(target, maxManifest+1))
		ft.expect("a-node-1=a:1 \nDIR/link.yaml: not read: it has more than 10485760 bytes")
	})
}

func TestFolderReportsThatItCannotWatch(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ft := runFolder(t, dir)
		if w := ft.rescan().Warnings; len(w) != 1 || !strings.Contains(w[0].Error(), "too many watches") {
			t.Errorf("warnings are %v", w)
		}
	})
}

func TestFolderConfigs(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ft := runFolder(t, dir)
		if _, err := ft.f.ConfigMap(t.Context(), "default", "c"); !errors.Is(err, env.ErrNotFound) {
			t.Errorf("an empty folder: %v", err)
		}
		ft.write("c.yaml", "apiVersion: v1\nkind: List\nitems:\n"+
			"- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: b}}\n"+
			"- {apiVersion: v1, kind: Secret, metadata: {name: c, namespace: other}, data: {a: Yg==}, stringData: {c: d}}\n")
		ft.write("d.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}")
		ft.expect("\nDIR/d.yaml: document 1: ConfigMap default/c: another of that name is in DIR/c.yaml, document 1, which counts")
		c, err := ft.f.ConfigMap(t.Context(), "default", "c")
		if err != nil || c.Data["a"] != "b" {
			t.Errorf("the ConfigMap is %v, %v", c, err)
		}
		s, err := ft.f.Secret(t.Context(), "other", "c")
		if err != nil || string(s.Data["a"]) != "b" || string(s.Data["c"]) != "d" || s.StringData != nil {
			t.Errorf("the Secret is %v, %v", s, err)
		}
		if _, err := ft.f.Secret(t.Context(), "default", "c"); !errors.Is(err, env.ErrNotFound) {
			t.Errorf("a Secret of another namespace: %v", err)
		}
	})
}

// A snapshot reports changed ConfigMaps or Secrets exactly if they differ from the ones of the previous
// snapshot.
func TestFolderReportsChangedConfigs(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ft := runFolder(t, dir)
		config := func(kind, text string) string {
			return fmt.Sprintf("{apiVersion: v1, kind: %s, metadata: {name: c}, data: {a: %s}}", kind, text)
		}
		for _, step := range []struct {
			name, text string
			delivered  int
			changed    bool
		}{
			{"c.yaml", config("ConfigMap", "b"), 1, true},
			{"c.yaml", config("ConfigMap", "b") + "\n# a comment", 0, true},
			{"a.yaml", podText("a", "a:1"), 1, false},
			{"c.yaml", config("ConfigMap", "c"), 1, true},
			{"s.yaml", config("Secret", "Yg=="), 1, true},
			{"s.yaml", "# gone\n" + config("ConfigMap", "b") + "\n---\n" + config("Secret", "Yw=="), 1, true},
		} {
			_, before := ft.got.last()
			ft.write(step.name, step.text)
			s := ft.rescan()
			if _, n := ft.got.last(); n-before != step.delivered || s.ConfigsChanged != step.changed {
				t.Errorf("%s: %q: %d snapshots, changed %v, want %d and %v", step.name, step.text, n-before, s.ConfigsChanged, step.delivered, step.changed)
			}
		}
	})
}

func TestNewFolder(t *testing.T) {
	for want, c := range map[string]FolderConfig{
		"FolderConfig.Path":     {NodeName: "n"},
		"FolderConfig.NodeName": {Path: "p", NodeName: "Node_1"},
		"NodeName is empty":     {Path: "p"},
		"FolderConfig.Rescan":   {Path: "p", NodeName: "n", Rescan: -1},
	} {
		if _, err := NewFolder(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want one about %s", c, err, want)
		}
	}
	f, err := NewFolder(FolderConfig{Path: "p", NodeName: "n"})
	if err != nil || f.Name() != "file" || !filepath.IsAbs(f.path) {
		t.Errorf("%+v, %v, want name %q and an absolute path", f, err, "file")
	}
}

// eventually waits for a snapshot for which ok returns true.
func eventually(t *testing.T, snapshots <-chan Snapshot, what string, ok func(Snapshot) bool) {
	t.Helper()
	late := time.After(time.Minute) // for a machine that does something else
	var last Snapshot
	for {
		select {
		case last = <-snapshots:
			if ok(last) {
				return
			}
		case <-late:
			t.Fatalf("no snapshot in which %s; the last is %+v", what, last)
		}
	}
}

func hasPod(name, image string) func(Snapshot) bool {
	return func(s Snapshot) bool {
		return slices.ContainsFunc(s.Pods, func(p *v1.Pod) bool { return p.Name == name && p.Spec.Containers[0].Image == image })
	}
}

// The rescan interval is very long, so all changes are seen through notifications of the
// system.
func TestFolderIsWatched(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "manifests")
	f := must.Get(NewFolder(FolderConfig{Path: dir, NodeName: "n", Rescan: time.Hour}))(t)
	must.Do(t, os.Mkdir(dir, 0o700))
	snapshots := make(chan Snapshot, 1000)
	must.Run(t, func(ctx context.Context) error { return f.Run(ctx, func(s Snapshot) { snapshots <- s }) })
	eventually(t, snapshots, "all is empty", func(s Snapshot) bool { return len(s.Pods) == 0 && len(s.Warnings) == 0 })

	write := func(name, text string) {
		t.Helper()
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write(".a", podText("a", "a:1"))
	must.Do(t, os.Rename(filepath.Join(dir, ".a"), filepath.Join(dir, "a.yaml")))
	eventually(t, snapshots, "a was renamed into place", hasPod("a-n", "a:1"))
	write("a.yaml", podText("a", "a:2"))
	eventually(t, snapshots, "a was written in place", hasPod("a-n", "a:2"))
	write("a.yaml", "{")
	eventually(t, snapshots, "a is half written", func(s Snapshot) bool { return len(s.Errors) == 1 && hasPod("a-n", "a:2")(s) })
	must.Do(t, os.Remove(filepath.Join(dir, "a.yaml")))
	eventually(t, snapshots, "a is gone", func(s Snapshot) bool { return len(s.Pods) == 0 })

	// The folder at the path is replaced.
	must.Do(t, os.Rename(dir, dir+".old"))
	must.Do(t, os.Mkdir(dir, 0o700))
	write("b.yaml", podText("b", "b:1"))
	eventually(t, snapshots, "b is there", hasPod("b-n", "b:1"))
	write("c.yaml", podText("c", "c:1"))
	eventually(t, snapshots, "c is there", hasPod("c-n", "c:1"))
	// The new folder may have the same inode as the old one.
	for range 3 {
		must.Do(t, errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)))
		write("d.yaml", podText("d", "d:1"))
		eventually(t, snapshots, "d is there", hasPod("d-n", "d:1"))
		write("d.yaml", podText("d", "d:2"))
		eventually(t, snapshots, "d is another", hasPod("d-n", "d:2"))
	}
}

// A file is removed and written again before the folder is read: its pod is removed all the same.
func TestFolderRemovedAndWritten(t *testing.T) {
	if goruntime.GOOS != "linux" {
		t.Skip("only Linux reports a removal as such")
	}
	dir := t.TempDir()
	f := must.Get(NewFolder(FolderConfig{Path: dir, NodeName: "n", Rescan: time.Hour}))(t)
	path := filepath.Join(dir, "a.yaml")
	must.Do(t, os.WriteFile(path, []byte(podText("a", "a:1")), 0o600))
	snapshots := make(chan Snapshot, 1000)
	must.Run(t, func(ctx context.Context) error { return f.Run(ctx, func(s Snapshot) { snapshots <- s }) })
	eventually(t, snapshots, "a is there", hasPod("a-n", "a:1"))
	must.Do(t, errors.Join(os.Remove(path), os.WriteFile(path, []byte(podText("a", "a:1")), 0o600)))
	eventually(t, snapshots, "a is gone", func(s Snapshot) bool { return len(s.Pods) == 0 })
	eventually(t, snapshots, "a is there again", hasPod("a-n", "a:1"))
}

// The folder is created between the attempt to watch it and its scan. It is watched soon,
// and no error is reported.
func TestFolderThatIsCreatedAfterTheWatch(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "manifests")
	f := must.Get(NewFolder(FolderConfig{Path: dir, NodeName: "n", Rescan: time.Hour}))(t)
	var once sync.Once
	f.watch = func(dir string) (w *watch, err error) {
		w, err = newWatch(dir)
		once.Do(func() { err = errors.Join(err, os.Mkdir(dir, 0o700)) })
		return w, err
	}
	snapshots := make(chan Snapshot, 100)
	must.Run(t, func(ctx context.Context) error { return f.Run(ctx, func(s Snapshot) { snapshots <- s }) })
	first := <-snapshots
	if len(first.Warnings) > 0 {
		t.Errorf("%v, want no Warnings", first.Warnings)
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(podText("a", "a:1")), 0o600))
	eventually(t, snapshots, "a is there", hasPod("a-n", "a:1"))
}

// A ConfigMap that is mounted is changed by replacing a hidden link.
func TestFolderFollowsMountedConfigMaps(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"..1": podText("a", "a:1"), "..2": podText("a", "a:2")} {
		must.Do(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		must.Do(t, os.WriteFile(filepath.Join(dir, name, "a.yaml"), []byte(text), 0o600))
	}
	if err := errors.Join(os.Symlink("..1", filepath.Join(dir, "..data")), os.Symlink("..data/a.yaml", filepath.Join(dir, "a.yaml"))); err != nil {
		t.Skip(err)
	}
	f := must.Get(NewFolder(FolderConfig{Path: dir, NodeName: "n", Rescan: time.Hour}))(t)
	snapshots := make(chan Snapshot, 1000)
	must.Run(t, func(ctx context.Context) error { return f.Run(ctx, func(s Snapshot) { snapshots <- s }) })
	eventually(t, snapshots, "it is the first", hasPod("a-n", "a:1"))
	must.Do(t, errors.Join(os.Symlink("..2", filepath.Join(dir, "..new")), os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data"))))
	eventually(t, snapshots, "it is the second", hasPod("a-n", "a:2"))
}

// Most of the time a folder is read and nothing has changed: then nothing is parsed.
func TestFolderParsesChangedFilesOnly(t *testing.T) {
	f, path := testFolder(t), filepath.Join(t.TempDir(), "a.yaml")
	write := func(text string) {
		t.Helper()
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write(podText("a", "a:1"))
	first := f.load(path, nil)
	write(podText("a", "a:1"))
	if f.load(path, first) != first {
		t.Error("parsed again")
	}
	write(podText("a", "a:2"))
	if f.load(path, first) == first {
		t.Error("not parsed again")
	}
}

// The missing objects of an unread folder are unknown: a running pod must
// not lose the files of an optional ConfigMap.
func TestFolderReportsUnreadObjectsAsUnknown(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "late")
	synctest.Test(t, func(t *testing.T) {
		unread := must.Get(NewFolder(FolderConfig{Path: dir, NodeName: "n"}))(t)
		ft := runFolder(t, dir)
		for what, f := range map[string]*Folder{"before Run": unread, "a folder that is not there": ft.f} {
			if _, err := f.ConfigMap(t.Context(), "default", "c"); err == nil || env.NotFound(err) {
				t.Errorf("%s: error %v, want that it is not known", what, err)
			}
		}
		must.Do(t, os.Mkdir(dir, 0o700))
		ft.rescan()
		if _, err := ft.f.ConfigMap(t.Context(), "default", "c"); !env.NotFound(err) {
			t.Errorf("once it is read: %v", err)
		}
	})
}
