package loop_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	podreader "github.com/podsync/podsync/runtime/reader"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/source"
)

// instances returns the containers of a pod in the runtime.
func (n *node) instances(uid string) *runtime.PodStatus {
	n.Helper()
	conn, err := n.Runtime.Dial()
	if err != nil {
		n.Fatal(err)
	}
	defer conn.Close()
	reader, err := podreader.New(podreader.Config{Runtime: cri.NewClient(conn), RuntimeName: "critest"})
	if err != nil {
		n.Fatal(err)
	}
	status, err := reader.PodStatus(n.Context(), types.UID(uid), nil)
	if err != nil {
		n.Fatal(err)
	}
	return status
}

func countFiles(t *testing.T, pattern string) int {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}

// A container crashes for a day, as fast as its back-off allows: the number of its dead instances
// stays bounded, and its restart count increases, also in the next agent.
func TestC3_CrashLoopOfADay(t *testing.T) {
	dir := t.TempDir()
	inBubble(t, critest.Config{Dir: dir}, func(t *testing.T, n *node) {
		logs, links := filepath.Join(dir, "logs"), filepath.Join(dir, "links")
		if err := os.Mkdir(links, 0o755); err != nil {
			t.Fatal(err)
		}
		onDisk := func(c *nodeagent.Config) {
			c.Sync.Node.LogsRoot, c.Sync.Parts.Logs, c.Sync.Node.LogLinks = logs, nil, links
		}
		src := source.NewStaticPush("file")
		a := n.start([]source.Source{src}, onDisk)
		p := pod("file", "web", "u", "echo I; exit 3")
		p.Spec.InitContainers = []v1.Container{{Name: "init", Image: "registry.test/app:1", Command: []string{"sh", "-c", "exit 0"}}}
		set(t, src, p)
		time.Sleep(12 * time.Hour)
		restarts := wantBounded(t, n, a, logs, links, 0)
		if restarts < 120 {
			t.Errorf("%d restarts in 12 h, want one every 5 min", restarts)
		}

		a.kill()
		src = source.NewStaticPush("file")
		a = n.start([]source.Source{src}, onDisk)
		set(t, src, p)
		time.Sleep(12 * time.Hour)
		if again := wantBounded(t, n, a, logs, links, restarts); again < 2*restarts-10 {
			t.Errorf("%d restarts in a day, %d in the first half of it", again, restarts)
		}
		if got := n.Journal().Container("init").Count(critest.StartContainer); got != 1 {
			t.Errorf("the init container ran %d times, want once", got)
		}

		set(t, src)
		time.Sleep(2 * time.Minute)
		if logs, links := countFiles(t, filepath.Join(logs, "*")), countFiles(t, filepath.Join(links, "*")); logs+links > 0 {
			t.Errorf("of a pod that is gone %d log directories and %d links are left", logs, links)
		}
	})
}

// wantBounded checks the remaining instances of a crashing container, and returns
// its restart count, which must have increased.
func wantBounded(t *testing.T, n *node, a *agent, logs, links string, before int32) int32 {
	t.Helper()
	status := n.instances("u")
	of := map[string]int{}
	for _, c := range status.Containers {
		of[c.Name]++
	}
	if of["app"] < 1 || of["app"] > 2 || of["init"] != 1 {
		t.Errorf("the runtime has %v instances, want at most 2", of)
	}
	if got := countFiles(t, filepath.Join(logs, "*_u", "app", "*")); got < 1 || got > 2 {
		t.Errorf("there are %d logs, want at most 2", got)
	}
	if got := countFiles(t, filepath.Join(links, "*")); got < 2 || got > 3 {
		t.Errorf("there are %d links, want at most 2, and that of init", got)
	}
	reported := a.sink.of("u").ContainerStatuses
	if len(reported) != 1 {
		t.Fatalf("%d containers are reported", len(reported))
	}
	got := reported[0]
	started := n.Journal().Container("app").Count(critest.StartContainer)
	if int(got.RestartCount) != started-1 || got.RestartCount <= before {
		t.Errorf("%d restarts are reported of %d starts, before it were %d", got.RestartCount, started, before)
	}
	if got.LastTerminationState.Terminated == nil || got.LastTerminationState.Terminated.ExitCode != 3 {
		t.Errorf("the last end is %v", got.LastTerminationState)
	}
	return got.RestartCount
}

// asker is a part that asks the Host when a test does.
type asker struct {
	mu    sync.Mutex
	lives loop.Host
}

func (a *asker) Run(ctx context.Context, host loop.Host) error {
	a.mu.Lock()
	a.lives = host
	a.mu.Unlock()
	<-ctx.Done()
	return nil
}

// host returns the Host of the agent that runs.
func (a *asker) host() loop.Host {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lives
}

// want checks what may be removed of a pod.
func (a *asker) want(t *testing.T, why string, uid types.UID, dead, content bool) {
	t.Helper()
	host := a.host()
	if d, c := host.RuntimeShouldBeRemoved(uid), host.ContentShouldBeRemoved(uid); d != dead || c != content {
		t.Errorf("%s: %v and %v may be removed, want %v and %v", why, d, c, dead, content)
	}
}

// Objects of an unknown pod may be removed once all sources have delivered,
// and if none of them wants the pod. A pod that is added again waits for the removal of
// its earlier objects (W10).
func TestM3_PartsMayRemoveCertainOrphans(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src, other, a, asked := source.NewStaticPush("file"), source.NewStaticPush("other"), &asker{}, map[types.UID]int{}
		n.start([]source.Source{src, other}, func(c *nodeagent.Config) {
			c.Parts = []loop.Part{a}
			c.Admission = loop.AdmissionFunc(func(p *v1.Pod, _ []*v1.Pod) *syncpod.Rejection {
				asked[p.UID]++
				return nil
			})
		})
		job, web := once(pod("file", "job", "job", "exit 0")), pod("file", "web", "web", forever)
		set(t, src, job, web)
		time.Sleep(time.Minute)
		a.want(t, "a source has not spoken", "unheard of", false, false)
		a.want(t, "wanted, and finished", "job", true, false)
		a.want(t, "wanted, and running", "web", false, false)
		set(t, other)
		time.Sleep(time.Minute)
		a.want(t, "all have spoken", "unheard of", true, true)

		stuck, err := n.Inject(faults.Fault{
			Match: faults.Match{Method: critest.RemovePodSandbox, PodUID: "web"}, Times: faults.Always, Err: status.Error(codes.Unknown, "busy"),
		})
		if err != nil {
			t.Fatal(err)
		}
		set(t, src, job)
		time.Sleep(time.Minute)
		set(t, src, job, web)
		time.Sleep(time.Minute)
		a.want(t, "on its way", "web", false, false)
		if n.wantRunning(0, "web"); asked["web"] != 1 {
			t.Errorf("asked %d times for a pod that cannot come yet", asked["web"]-1)
		}
		stuck.Remove()
		time.Sleep(time.Minute)
		n.wantRunning(1, "web")
	})
}

// While no container exits, nothing is removed, and the container collection makes no list call.
func TestQuietNodeIsNotAskedForGarbage(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := source.NewStaticPush("file")
		n.start([]source.Source{src}, nil)
		var pods []*v1.Pod
		for i := range 30 {
			id := fmt.Sprintf("web-%d", i)
			pods = append(pods, pod("file", id, id, forever))
		}
		set(t, src, pods...)
		time.Sleep(10 * time.Minute)
		before := len(n.Journal())
		time.Sleep(time.Hour)
		if calls := n.Journal().After(before).Changes(); len(calls) > 0 {
			t.Errorf("after 30 pods have settled there was\n%v", calls)
		}
	})
}

// With NoContainerGC all containers stay.
func TestNoContainerGC(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := source.NewStaticPush("file")
		n.start([]source.Source{src}, func(c *nodeagent.Config) { c.NoContainerGC = true })
		set(t, src, pod("file", "web", "u", "exit 3"))
		time.Sleep(time.Hour)
		if got := len(n.instances("u").Containers); got < 10 {
			t.Errorf("there are %d instances after an hour, want all", got)
		}
	})
}
