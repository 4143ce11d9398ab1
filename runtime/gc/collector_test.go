package gc_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/foreign"
	"github.com/podsync/podsync/runtime/gc"
)

// remover records its calls, and returns errors for some of them.
type remover struct {
	calls []string
	errs  map[string]error // by call
}

func (r *remover) call(what, id string) error {
	r.calls = append(r.calls, what+" "+id)
	return r.errs[what+" "+id]
}

func (r *remover) RemoveContainer(_ context.Context, req *runtimeapi.RemoveContainerRequest, _ ...grpc.CallOption) (*runtimeapi.RemoveContainerResponse, error) {
	return &runtimeapi.RemoveContainerResponse{}, r.call("remove", req.GetContainerId())
}

func (r *remover) StopPodSandbox(_ context.Context, req *runtimeapi.StopPodSandboxRequest, _ ...grpc.CallOption) (*runtimeapi.StopPodSandboxResponse, error) {
	return &runtimeapi.StopPodSandboxResponse{}, r.call("stop", req.GetPodSandboxId())
}

func (r *remover) RemovePodSandbox(_ context.Context, req *runtimeapi.RemovePodSandboxRequest, _ ...grpc.CallOption) (*runtimeapi.RemovePodSandboxResponse, error) {
	return &runtimeapi.RemovePodSandboxResponse{}, r.call("remove", req.GetPodSandboxId())
}

// took returns the calls since the last call of took.
func (r *remover) took() string {
	calls := strings.Join(r.calls, ", ")
	r.calls = nil
	return calls
}

// gone are the removed pods.
type gone []types.UID

func (g gone) RuntimeShouldBeRemoved(pod types.UID) bool { return slices.Contains(g, pod) }
func (g gone) ContentShouldBeRemoved(pod types.UID) bool { return slices.Contains(g, pod) }

func (g gone) AllShouldBeRemoved(types.UID) bool { return false }

// evicted are pods that were evicted. Their workers may be unable to go on.
type evicted []types.UID

func (e evicted) RuntimeShouldBeRemoved(types.UID) bool     { return false }
func (e evicted) ContentShouldBeRemoved(pod types.UID) bool { return slices.Contains(e, pod) }
func (e evicted) AllShouldBeRemoved(pod types.UID) bool     { return slices.Contains(e, pod) }

type collector struct {
	*gc.Collector
	*remover
	cache  *runtime.Cache
	config gc.Config
}

func newCollector(t *testing.T, change func(*gc.Config)) *collector {
	t.Helper()
	c := &collector{remover: &remover{errs: map[string]error{}}, cache: &runtime.Cache{}}
	c.config = gc.Config{Pods: c.cache, Runtime: c.remover}
	if change != nil {
		change(&c.config)
	}
	var err error
	if c.Collector, err = gc.New(c.config); err != nil {
		t.Fatal(err)
	}
	return c
}

// has sets the containers of a pod in the runtime.
func (c *collector) has(uid types.UID, containers ...runtime.ContainerStatus) *runtime.PodStatus {
	status := &runtime.PodStatus{UID: uid, Namespace: "ns", Name: "p", Containers: containers}
	c.cache.Set(uid, status, nil, time.Now())
	return status
}

func crashing() []runtime.ContainerStatus {
	return []runtime.ContainerStatus{running(3), dead(2, 1), dead(1, 2), dead(0, 3)}
}

func (c *collector) collect(t *testing.T, lives gc.PodStates) {
	t.Helper()
	must.Do(t, c.Collect(t.Context(), lives))
}

func TestConfig(t *testing.T) {
	for field, change := range map[string]func(*gc.Config){
		"Pods":     func(c *gc.Config) { c.Pods = nil },
		"Runtime":  func(c *gc.Config) { c.Runtime = nil },
		"LogsRoot": func(c *gc.Config) { c.LogLinks = "/links" },
	} {
		config := gc.Config{Pods: &runtime.Cache{}, Runtime: &remover{}}
		change(&config)
		if _, err := gc.New(config); err == nil || !strings.Contains(err.Error(), "gc: Config."+field+" is") {
			t.Errorf("%s: %v, want it named", field, err)
		}
	}
}

func TestCollect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCollector(t, nil)
		c.has("a", crashing()...)
		c.has("b", named("other", running(1)), named("other", dead(0, 1)))
		c.has("left", crashing()...)
		unread := c.has("unread", crashing()...)
		c.cache.Set("unread", unread, errors.New("cannot be read"), time.Now())
		c.collect(t, gone{"left"})
		if got := c.took(); got != "remove c1, remove c0" {
			t.Errorf("took %q, want %q", got, "remove c1, remove c0")
		}
	})
}

// The writable layers of an evicted pod are removed although the pod is still wanted, and although its worker waits, for example
// for space to record its status: otherwise the disk stays full, and more pods are evicted.
func TestContainersOfEvictedPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCollector(t, nil)
		exited := in("s0", dead(0, 0))
		exited.FinishedAt = time.Now()
		stopped := []runtime.SandboxStatus{box(0, runtime.SandboxNotReady)}
		c.has("evicted", exited, in("s0", instance(1, runtime.ContainerCreated))).Sandboxes = stopped
		c.has("kept", dead(0, 1))
		for name, left := range map[string]runtime.ContainerState{"runs": runtime.ContainerRunning, "unknown": runtime.ContainerUnknown} {
			c.has(types.UID(name), in("s0", instance(0, left))).Sandboxes = stopped
		}
		c.has("stops").Sandboxes = []runtime.SandboxStatus{box(1, runtime.SandboxReady)}
		c.errs["stop s0"] = status.Error(codes.Unavailable, "the plugin is unavailable")
		for _, pass := range []struct {
			after time.Duration
			want  string
		}{
			{0, ""}, // the worker has not had the time to read the exit code
			{10 * time.Second, "remove s0-c0, remove s0-c1, stop s0"},
			{time.Minute, "remove s0-c0, remove s0-c1, stop s0"}, // the cache has not changed
		} {
			time.Sleep(pass.after)
			if err := c.Collect(t.Context(), evicted{"evicted", "runs", "unknown", "stops"}); (err != nil) != (pass.want != "") {
				t.Error(err)
			}
			if got := c.took(); got != pass.want {
				t.Errorf("after %v took %q, want %q", pass.after, got, pass.want)
			}
		}
		c.has("evicted").Sandboxes = stopped
		delete(c.errs, "stop s0")
		time.Sleep(2 * time.Minute)
		c.collect(t, evicted{"evicted"})
		if got, want := c.took(), "stop s0, remove s0"; got != want {
			t.Errorf("took %q, want %q", got, want)
		}
	})
}

// A clock that was set back keeps nothing.
func TestContainersThatEndedInTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCollector(t, nil)
		exited := dead(0, 0)
		exited.FinishedAt = time.Now().Add(time.Hour)
		c.has("evicted", exited)
		c.collect(t, evicted{"evicted"})
		if got := c.took(); got != "remove c0" {
			t.Errorf("took %q, want %q", got, "remove c0")
		}
	})
}

// An old sandbox is removed after its last container.
func TestCollectSandbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCollector(t, nil)
		s := c.has("u", in("s1", running(2)), in("s1", dead(1, 1)))
		s.Sandboxes = []runtime.SandboxStatus{box(1, runtime.SandboxReady), box(0, runtime.SandboxNotReady)}
		c.errs["stop s0"] = status.Error(codes.Unavailable, "the plugin is unavailable")
		if err := c.Collect(t.Context(), gone{}); err == nil || !strings.Contains(err.Error(), "sandbox s0 of pod ns/p") {
			t.Errorf("%v, want what could not be removed", err)
		}
		if got := c.took(); got != "stop s0" {
			t.Errorf("took %q: a sandbox is not removed before its network is released", got)
		}
		c.errs["stop s0"] = status.Error(codes.NotFound, "not found")
		time.Sleep(time.Minute)
		c.collect(t, gone{})
		if got := c.took(); got != "stop s0, remove s0" {
			t.Errorf("took %q, want %q", got, "stop s0, remove s0")
		}
	})
}

// If a container no longer exists, its removal has succeeded.
func TestK2_NotFoundIsSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCollector(t, nil)
		s := c.has("u", crashing()...)
		s.Sandboxes = []runtime.SandboxStatus{box(1, runtime.SandboxReady), box(0, runtime.SandboxNotReady)}
		for i := range s.Containers {
			s.Containers[i].SandboxID = "s1"
		}
		c.errs["remove c1"] = status.Error(codes.NotFound, "not found")
		c.errs["remove c0"] = status.Error(codes.Unknown, "container c0 does not exist")
		c.errs["remove s0"] = status.Error(codes.NotFound, "not found")
		c.collect(t, gone{})
		if got := c.took(); got != "remove c1, remove c0, stop s0, remove s0" {
			t.Errorf("took %q, want %q", got, "remove c1, remove c0, stop s0, remove s0")
		}
	})
}

// The runtime may repeat the command of a container, with values of Secrets that the collector does not know.
func TestTextsOfRemovalsAreWithheld(t *testing.T) {
	c := newCollector(t, nil)
	s := c.has("u", in("s2", running(3)), in("s2", dead(2, 1)), in("s2", dead(1, 2)))
	s.Sandboxes = []runtime.SandboxStatus{box(2, runtime.SandboxReady), box(1, runtime.SandboxNotReady), box(0, runtime.SandboxNotReady)}
	for _, call := range []string{"remove s2-c1", "stop s1", "remove s0"} {
		c.errs[call] = status.Error(codes.PermissionDenied, "exec app-hunter2")
	}
	err := c.Collect(t.Context(), gone{})
	if text := fmt.Sprintf("%v %+v", err, err); strings.Contains(text, "hunter2") || strings.Count(text, string(cri.ErrPermission)+": "+foreign.Withheld) < 3 || !errors.Is(err, cri.ErrPermission) {
		t.Errorf("%s, want three errors with their class and without the text", text)
	}
	for of := (*cri.Error)(nil); errors.As(err, &of); err = of.Err {
		if strings.Contains(of.Err.Error(), "hunter2") {
			t.Errorf("%v is wrapped", of.Err)
		}
	}
}

// One pass is made at a time.
func TestCollectIsConcurrent(t *testing.T) {
	c := newCollector(t, nil)
	c.has("u", crashing()...)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { c.collect(t, gone{}) })
	}
	all.Wait()
	if got := c.took(); got != "remove c1, remove c0" {
		t.Errorf("took %q, want %q", got, "remove c1, remove c0")
	}
}

// What cannot be removed holds up nothing else, and is tried ever more rarely.
func TestG5_FailureOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCollector(t, nil)
		c.has("u", crashing()...)
		c.has("v", in("s9", running(3)), in("s9", dead(2, 1)), in("s9", dead(1, 2)))
		c.errs["remove c1"] = status.Error(codes.Unknown, "device or resource busy")
		err := c.Collect(t.Context(), gone{})
		if err == nil || !strings.Contains(err.Error(), "container c1 of pod ns/p") || !errors.Is(err, cri.ErrUnknown) {
			t.Errorf("%v, want an error with %q and its class", err, "container c1 of pod ns/p")
		}
		if got := c.took(); got != "remove c1, remove c0, remove s9-c1" {
			t.Errorf("took %q: all but one was to be removed", got)
		}
		c.has("u", running(3), dead(2, 1), dead(1, 2)) // the others are removed
		c.has("v", in("s9", running(3)), in("s9", dead(2, 1)))
		tries := 0
		for range 24 * 60 {
			time.Sleep(time.Minute)
			_ = c.Collect(t.Context(), gone{}) // counted below
			tries += len(c.calls)
			c.took()
		}
		if tries < 24 || tries > 30 {
			t.Errorf("%d attempts in a day, want one an hour", tries)
		}
		delete(c.errs, "remove c1")
		time.Sleep(time.Hour)
		c.collect(t, gone{})
		if got := c.took(); got != "remove c1" {
			t.Errorf("took %q in the end", got)
		}
	})
}

// The removal of a container that an outdated status still shows is not repeated immediately.
func TestCollectByAnOldStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCollector(t, nil)
		c.has("u", crashing()...)
		c.collect(t, gone{})
		c.took()
		c.collect(t, gone{})
		if got := c.took(); got != "" {
			t.Errorf("took %q once more", got)
		}
		c.has("u", running(3), dead(2, 1))
		c.collect(t, gone{})
		c.has("u", crashing()...) // there again, against all rules
		c.collect(t, gone{})
		if got := c.took(); got != "remove c1, remove c0" {
			t.Errorf("removed %q, which exist again", got)
		}
	})
}

func TestCollectEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCollector(t, nil)
		c.has("u", crashing()...)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = c.Collect(ctx, gone{})
		if got := c.took(); got != "" {
			t.Errorf("took %q, want %q", got, "")
		}
	})
}

// write makes empty files.
func write(t *testing.T, dir string, files ...string) {
	t.Helper()
	for _, f := range files {
		must.Do(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(f)), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(dir, f), nil, 0o600))
	}
}

// files returns the files below a directory, including links.
func files(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	must.Do(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			path, err = filepath.Rel(dir, path)
			all = append(all, filepath.ToSlash(path))
		}
		return err
	}))
	return strings.Join(all, " ")
}

func TestLogs(t *testing.T) {
	for _, tt := range []struct {
		name       string
		containers []runtime.ContainerStatus
		have, want string
	}{
		{"the newest two stay", []runtime.ContainerStatus{running(3)}, "0.log 1.log 2.log 3.log", "2.log 3.log"},
		{"numbers, not names", []runtime.ContainerStatus{running(11)}, "11.log 10.log 9.log 8.log", "10.log 11.log"},
		{"rotated ones with them", []runtime.ContainerStatus{running(3)},
			"1.log 1.log.20260101-000000 1.log.20251231-000000.gz 2.log 2.log.20260101-000000 3.log", "2.log 2.log.20260101-000000 3.log"},
		{"the log of an existing instance", []runtime.ContainerStatus{running(9), dead(2, 1)}, "1.log 2.log 3.log 8.log 9.log", "2.log 8.log 9.log"},
		{"newer than the known instances", []runtime.ContainerStatus{running(1)}, "0.log 1.log 2.log 3.log 4.log", "1.log 2.log 3.log 4.log"},
		{"those of others", []runtime.ContainerStatus{running(9)}, "notes.txt 1.txt 1.logs -1.log 5.log/x 8.log 9.log 7.log", "-1.log 1.logs 1.txt 5.log/x 8.log 9.log notes.txt"},
		{"of a container that only has logs", []runtime.ContainerStatus{named("other", running(9))}, "0.log 1.log 2.log 3.log", "0.log 1.log 2.log 3.log"},
	} {
		root := t.TempDir()
		dir := filepath.Join(root, "ns_p_u", "app")
		write(t, dir, strings.Fields(tt.have)...)
		c := newCollector(t, func(c *gc.Config) { c.LogsRoot = root })
		c.has("u", tt.containers...)
		c.collect(t, gone{})
		if got := files(t, dir); got != tt.want {
			t.Errorf("%s: %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

// The log directory of a container that has never restarted is not read, so its errors are not
// reported. After a restart they are.
func TestLogsOfFirstInstancesAreNotRead(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "ns_p_u"), "app") // a file
	c := newCollector(t, func(c *gc.Config) { c.LogsRoot = root })
	c.has("u", running(0))
	c.collect(t, gone{})
	c.has("u", running(1))
	if err := c.Collect(t.Context(), gone{}); err == nil {
		t.Error("the directory is not read after a restart")
	}
}

// A pod's logs are removed after the pod, but not while the pod may return.
func TestLogsOfARemovedPod(t *testing.T) {
	root := t.TempDir()
	write(t, root, "ns_p_u/app/0.log", "ns_p_v/app/0.log")
	c := newCollector(t, func(c *gc.Config) { c.LogsRoot = root })
	c.has("u", running(0))
	c.collect(t, gone{})
	c.collect(t, gone{"u"}) // the runtime still has containers of it
	empty := &runtime.PodStatus{UID: "u"}
	c.cache.Set("u", empty, nil, time.Now())
	c.collect(t, gone{})
	c.cache.Set("u", nil, errors.New("cannot be read"), time.Now())
	c.collect(t, gone{"u"}) // it may have something
	c.cache.Set("u", empty, nil, time.Now())
	if got := files(t, root); got != "ns_p_u/app/0.log ns_p_v/app/0.log" {
		t.Errorf("%s is left too early", got)
	}
	for range 2 {
		c.collect(t, gone{"u", "v"})
		if got := files(t, root); got != "ns_p_v/app/0.log" {
			t.Errorf("%s is left, want what was never seen to be ours", got)
		}
	}
	write(t, root, "ns_p_u/app/0.log") // a file of another program
	c.collect(t, gone{"u"})
	if got := files(t, root); got != "ns_p_u/app/0.log ns_p_v/app/0.log" {
		t.Errorf("%s is left, want what came later, too", got)
	}
}

// The logs of a pod that an earlier agent has evicted are removed, although the runtime has nothing of it any more.
func TestR5_LogsOfAPodThatAnEarlierAgentEvicted(t *testing.T) {
	root := t.TempDir()
	write(t, root, "ns_p_u/app/0.log", "ns_p_v/app/0.log", "ns_p_w/app/0.log", "other/0.log")
	c := newCollector(t, func(c *gc.Config) { c.LogsRoot = root })
	c.has("v", running(0))
	c.collect(t, gone{})                 // its source has not delivered yet
	c.collect(t, evicted{"u", "v", "x"}) // v still runs, and w belongs to another agent
	if got := files(t, root); got != "ns_p_v/app/0.log ns_p_w/app/0.log other/0.log" {
		t.Errorf("%s is left", got)
	}
}

func TestLogsThatCannotBeRemoved(t *testing.T) {
	root := t.TempDir()
	uid := types.UID(strings.Repeat("u", 300)) // more than a file system takes
	c := newCollector(t, func(c *gc.Config) { c.LogsRoot = root })
	c.has(uid, dead(0, 0))
	_ = c.Collect(t.Context(), gone{})
	c.has(uid)
	for range 2 {
		if err := c.Collect(t.Context(), gone{uid}); err == nil || !strings.Contains(err.Error(), "logs of pod u") {
			t.Errorf("%v, want what could not be removed, each time", err)
		}
	}
	write(t, root, "file")
	c = newCollector(t, func(c *gc.Config) { c.LogsRoot = filepath.Join(root, "file") })
	if err := c.Collect(t.Context(), gone{}); err == nil || !strings.Contains(err.Error(), "Config.LogsRoot") {
		t.Errorf("%v, want the field whose value is no directory", err)
	}
}

func TestLogsThatAreNotThere(t *testing.T) {
	root := t.TempDir()
	c := newCollector(t, func(c *gc.Config) { c.LogsRoot, c.LogLinks = root, filepath.Join(root, "links") })
	c.has("u", running(0))
	c.collect(t, gone{})
	c = newCollector(t, func(c *gc.Config) { c.LogsRoot = filepath.Join(root, "none") })
	c.has("u", running(0))
	c.collect(t, gone{})
}

// No name of a pod or of a container, and no link, leads out of the directory.
func TestLogsElsewhere(t *testing.T) {
	top := t.TempDir()
	root := filepath.Join(top, "logs")
	write(t, top, "app/0.log", "app/1.log", "app/2.log", "app/3.log", "logs/ns_p_u/keep", "logs/app/0.log", "logs/app/1.log", "logs/app/2.log", "logs/0.log", "logs/1.log", "logs/2.log")
	link(t, filepath.Join(top, "app"), filepath.Join(root, "ns_p_u", "linked"))
	c := newCollector(t, func(c *gc.Config) { c.LogsRoot = root })
	c.has("u", named("../../app", running(9)), named("..", running(9)), named("linked", running(9)))
	c.has("u/../app", running(9))
	if err := c.Collect(t.Context(), gone{}); err == nil || !strings.Contains(err.Error(), `container "linked"`) {
		t.Errorf("%v, want an error about the link", err)
	}
	c.has("u/../app")
	_ = c.Collect(t.Context(), gone{"u/../app"}) // the link is reported again
	if got := files(t, top); got != "app/0.log app/1.log app/2.log app/3.log logs/0.log logs/1.log logs/2.log logs/app/0.log logs/app/1.log logs/app/2.log logs/ns_p_u/keep logs/ns_p_u/linked" {
		t.Errorf("left is %s", got)
	}
}

func link(t *testing.T, target, name string) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(name), 0o755))
	if err := os.Symlink(target, name); err != nil {
		t.Skipf("no links here: %v", err)
	}
}

func TestLinks(t *testing.T) {
	top := t.TempDir()
	root, links := filepath.Join(top, "logs"), filepath.Join(top, "links")
	write(t, root, "ns_p_u/app/0.log", "ns_p_u/app/2.log", "ns_p_u/app/3.log")
	for name, target := range map[string]string{
		"pruned":   filepath.Join(root, "ns_p_u", "app", "0.log"),
		"dead":     filepath.Join(root, "ns_q_w", "app", "0.log"),
		"alive":    filepath.Join(root, "ns_p_u", "app", "3.log"),
		"rotating": filepath.Join(root, "ns_p_u", "app", "4.log"),
		"foreign":  filepath.Join(top, "elsewhere", "0.log"),
		"relative": "0.log",
	} {
		link(t, target, filepath.Join(links, name))
	}
	write(t, links, "file")
	c := newCollector(t, func(c *gc.Config) { c.LogsRoot, c.LogLinks = root, links })
	c.has("u", running(4))
	c.collect(t, gone{})
	if got := files(t, links); got != "alive file foreign relative rotating" {
		t.Errorf("left is %s, want %q", got, "alive file foreign relative rotating")
	}
}
