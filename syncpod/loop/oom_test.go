package loop_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/oom"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/source"
)

// kills are told by a test.
type kills chan oom.Kill

func (k kills) Run(ctx context.Context, tell func(oom.Kill)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case kill := <-k:
			tell(kill)
		}
	}
}

// Who was killed is told of the container, and of the node if that is out of memory. What is
// of nobody's container is not told.
func TestOOMEvents(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		killed, src := make(kills), source.NewPush()
		var events []string
		n.start([]source.Source{src}, func(c *loop.Config) {
			c.OOM, c.NodeName = killed, "node-1"
			c.Sync.Events = syncpod.EventRecorderFunc(func(about k8sruntime.Object, kind, reason, format string, args ...any) {
				if ref := about.(*v1.ObjectReference); strings.Contains(reason, "OOM") {
					events = append(events, fmt.Sprintf("%s %s%s %s %s: %s", ref.Kind, ref.Name, ref.FieldPath, kind, reason, fmt.Sprintf(format, args...)))
				}
			})
		})
		set(t, src, asking("web", ""))
		time.Sleep(30 * time.Second)
		id := n.instances("web").Containers[0].ID.ID
		at := "/kubepods/podweb/" + id
		for _, k := range []oom.Kill{
			{PID: 7, Process: "sh", Cgroup: at, Limit: at},
			{PID: 8, Process: "db", Cgroup: "/system.slice/db.service"},
			{PID: 9, Process: "sh", Cgroup: at},
			{PID: 10, Process: "sh", Cgroup: "/kubepods/x/" + strings.Repeat("0", 64), Limit: "/kubepods/x"},
		} {
			killed <- k
			synctest.Wait()
		}
		time.Sleep(time.Second)
		want := []string{
			"Pod webspec.containers{app} Warning OOMKilling: Process sh, PID 7, of container app was killed: the memory limit was reached",
			"Node node-1 Warning SystemOOM: System OOM encountered, victim process: db, pid: 8",
			"Node node-1 Warning SystemOOM: System OOM encountered, victim process: sh, pid: 9",
			"Pod webspec.containers{app} Warning OOMKilling: Process sh, PID 9, of container app was killed: the node is out of memory",
		}
		if !slices.Equal(events, want) {
			t.Errorf("%s\nwant\n%s", strings.Join(events, "\n"), strings.Join(want, "\n"))
		}
	})
}
