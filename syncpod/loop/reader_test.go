package loop_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
	statusstore "github.com/podsync/podsync/syncpod/store"
)

// plainStore remembers statuses alone.
type plainStore struct{ statusstore.Store }

func (s plainStore) SetStatus(ctx context.Context, stored statusstore.Status) error {
	stored.Runtime = nil
	return s.Store.SetStatus(ctx, stored)
}

// After a restart, the agent reads only objects that have changed since an earlier agent read
// them. The reported statuses are the same with and without the records of that agent.
func TestTakeOverInspectsChangedPods(t *testing.T) {
	asks := []critest.Method{critest.PodSandboxStatus, critest.ContainerStatus}
	for _, tt := range []struct {
		name  string
		store func(t *testing.T) statusstore.Store
		asked int
	}{
		{"files", func(t *testing.T) statusstore.Store {
			files, err := statusstore.NewFiles(filepath.Join(t.TempDir(), "statuses"))
			if err != nil {
				t.Fatal(err)
			}
			return files
		}, 0},
		{"statuses alone", func(*testing.T) statusstore.Store {
			return plainStore{&memoryStore{records: map[types.UID]statusstore.Status{}}}
		}, 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
				store := tt.store(t)
				withStore := func(c *nodeagent.Config) { c.Store = store }
				pods := []*v1.Pod{pod("file", "job", "job", "sleep 20; exit 3")}
				pods[0].Spec.RestartPolicy = v1.RestartPolicyNever
				for i := range 3 {
					pods = append(pods, pod("file", fmt.Sprint("web-", i), fmt.Sprint("web-", i), "sleep 1000000"))
				}
				push := source.NewStaticPush("file")
				first := n.start([]source.Source{push}, withStore)
				set(t, push, pods...)
				time.Sleep(10 * time.Second)
				if got := first.sink.phases()[v1.PodRunning]; got != len(pods) {
					t.Fatalf("%d pods run, want %d", got, len(pods))
				}
				first.kill()
				time.Sleep(20 * time.Second)
				before := len(n.Journal())
				push = source.NewStaticPush("file")
				second := n.start([]source.Source{push}, withStore)
				set(t, push, pods...)
				time.Sleep(10 * time.Second)
				calls := n.Journal().After(before)
				asked := 0
				for _, p := range pods[1:] {
					asked += calls.Pod(string(p.UID)).Count(asks...)
				}
				if exited := calls.Pod("job").Count(critest.ContainerStatus); asked != tt.asked || exited != 1 {
					t.Errorf("it asked %d times for what was as before, want %d, and %d times for what was not, want 1\n%v", asked, tt.asked, exited, calls.Of(asks...))
				}
				if changes := calls.Changes().Of(critest.CreateContainer, critest.RunPodSandbox); len(changes) > 0 {
					t.Errorf("it made something anew\n%v", changes)
				}
				for _, p := range pods[1:] {
					was, is := first.sink.of(p.UID), second.sink.of(p.UID)
					if is.Phase != v1.PodRunning || is.PodIP == "" || is.PodIP != was.PodIP || !is.ContainerStatuses[0].State.Running.StartedAt.Equal(&was.ContainerStatuses[0].State.Running.StartedAt) {
						t.Errorf("%s was %v, and is %v", p.Name, was, is)
					}
				}
				if job := second.sink.of("job"); job.Phase != v1.PodFailed || job.ContainerStatuses[0].State.Terminated.ExitCode != 3 {
					t.Errorf("the job that failed meanwhile is %v", job)
				}
			})
		})
	}
}

// The recorded details of a removed sandbox and container are not reported for their
// replacements.
func TestTakeOverOfOthersThanWereSeen(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		p := pod("file", "web", "web", "sleep 1000000")
		push := source.NewStaticPush("file")
		first := n.start([]source.Source{push}, nil)
		set(t, push, p)
		time.Sleep(10 * time.Second)
		first.stop()
		seen := n.store.records["web"]
		for _, process := range n.Processes() {
			if err := n.Remove(process.ContainerID); err != nil {
				t.Fatal(err)
			}
		}
		for _, sb := range seen.Runtime.Sandboxes {
			if err := n.Remove(sb.ID); err != nil {
				t.Fatal(err)
			}
		}
		push = source.NewStaticPush("file")
		second := n.start([]source.Source{push}, nil)
		set(t, push, p)
		time.Sleep(10 * time.Second)
		second.stop()
		push = source.NewStaticPush("file")
		seen.Runtime.Sandboxes[0].Network.IPs = []string{"10.99.0.1"}
		n.store.records["web"] = seen // as a disk may have it that was not written to
		third := n.start([]source.Source{push}, nil)
		set(t, push, p)
		time.Sleep(10 * time.Second)
		was, is := second.sink.of("web"), third.sink.of("web")
		if is.Phase != v1.PodRunning || is.PodIP != was.PodIP ||
			is.ContainerStatuses[0].ContainerID != was.ContainerStatuses[0].ContainerID {
			t.Errorf("it was %v, and is %v", was, is)
		}
	})
}
