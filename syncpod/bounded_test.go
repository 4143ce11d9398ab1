package syncpod_test

import (
	"context"
	"encoding/json"
	"fmt"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/foreign"
	"github.com/podsync/podsync/syncpod"
)

// refusing is a connection to a runtime that creates no container. Each error has its own text.
type refusing struct {
	grpc.ClientConnInterface
	text func() string
}

func (r refusing) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if method == runtimeapi.RuntimeService_CreateContainer_FullMethodName {
		return status.Error(codes.Unknown, r.text())
	}
	return r.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

// A pod with many containers, each of which fails with a long error, takes little memory, and has a status that an API
// server accepts.
func TestPodOfLongErrorsTakesLittleMemory(t *testing.T) {
	const many, errorBytes, limit = 1024, 1 << 20, 32 << 20
	bubble(t, func(t *testing.T, n *node) {
		var lines, longest int
		log := funcr.New(func(_, line string) { lines, longest = lines+1, max(longest, len(line)) }, funcr.Options{})
		n.restart(func(c *syncpod.Config) {
			c.Client, c.Log = cri.NewClient(refusing{n.conn, func() string { return "refused: " + strings.Repeat("x", errorBytes) }}), log
		})
		pod := testPod(func(p *v1.Pod) {
			p.Spec.Containers = nil
			for i := range many {
				p.Spec.Containers = append(p.Spec.Containers, ctr(fmt.Sprintf("c%d", i)))
			}
		})
		before := liveHeap()
		_, err := n.SyncPod(t.Context(), pod, nil)
		if grown := int64(liveHeap()) - int64(before); grown > limit {
			t.Errorf("the pod takes %d MiB, want %d at most", grown>>20, limit>>20)
		}
		if err == nil || len(err.Error()) > 17<<10 {
			t.Errorf("an error of %d bytes: %.100v", len(err.Error()), err)
		}
		n.report.last()
		sent, _ := json.Marshal(n.report.last())
		waiting := 0
		for _, c := range n.report.last().ContainerStatuses {
			waiting += len(c.State.Waiting.Message)
		}
		if len(sent) > 1<<20 || waiting > 64<<10 || waiting < 32<<10 {
			t.Errorf("a status of %d bytes, with %d bytes of why containers wait", len(sent), waiting)
		}
		for _, message := range n.events.all {
			if len(message) > 5<<10 {
				t.Errorf("an event of %d bytes", len(message))
			}
		}
		if longest > 20<<10 {
			t.Errorf("a log line of %d bytes", longest)
		}
		if text := n.Explain(pod.UID); len(text) > 4<<20 {
			t.Errorf("an explanation of %d bytes", len(text))
		}
		goruntime.KeepAlive(n.Syncer)
	})
}

// liveHeap returns the size of the live heap in bytes.
func liveHeap() uint64 {
	goruntime.GC()
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return m.HeapAlloc
}

// The text of a runtime that nobody bounds with escape sequences and line breaks reaches no event, status or error as
// it is; a short one stays as it is.
func TestTextsOfTheRuntimeAreHarmless(t *testing.T) {
	for text, want := range map[string]string{
		"403\x1b]0;owned\x07\u202e\u009b\nFORGED": `403\x1b]0;owned\x07\u202e\u009b\nFORGED`,
		`exec: "/bin/app": not found`:             `exec: "/bin/app": not found`,
	} {
		bubble(t, func(t *testing.T, n *node) {
			n.restart(func(c *syncpod.Config) { c.Client = cri.NewClient(refusing{n.conn, func() string { return text }}) })
			_, err := n.SyncPod(t.Context(), testPod(), nil)
			for where, got := range map[string]string{
				"error": err.Error(), "event": strings.Join(n.events.all, "\n"), "status": n.report.container("app").State.Waiting.Message,
			} {
				if !strings.Contains(got, want) || strings.ContainsAny(got, "\x1b\x07\u202e\u009b") {
					t.Errorf("%s: %q, want %q in it", where, got, want)
				}
			}
		})
	}
}

// Authors of pods choose names of any length and with any characters; events repeat them.
func TestEventsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(func(p *v1.Pod) { p.Spec.Containers[0].Image = "r.io/\x1b" + strings.Repeat("x", 1<<20) })
		_, _ = n.SyncPod(t.Context(), pod, nil)
		time.Sleep(time.Second)
		if len(n.events.all) == 0 {
			t.Error("no event")
		}
		for _, e := range n.events.all {
			if len(e) > 5<<10 || strings.Contains(e, "\x1b") {
				t.Errorf("an event of %d bytes: %.50q", len(e), e)
			}
		}
		if m := n.report.container("app").State.Waiting.Message; len(m) > foreign.Max {
			t.Errorf("a waiting message of %d bytes", len(m))
		}
	})
}

// An image may name a user of any length, which an error about runAsNonRoot repeats.
func TestUserOfAnImageIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(func(p *v1.Pod) {
			p.Spec.Containers[0].Image = "r.io/hostile:v1"
			p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsNonRoot: new(true)}
		})
		r, err := n.SyncPod(t.Context(), pod, nil)
		if err == nil || len(r.Failed) != 1 || len(r.Failed[0].Err.Error()) > 2*foreign.Max || !strings.Contains(err.Error(), "root") {
			t.Errorf("%d failures, %.300v", len(r.Failed), err)
		}
	}, func(c *critest.Config) {
		c.Registry = append(c.Registry, critest.RemoteImage{Image: critest.Image{Name: "r.io/hostile:v1", User: strings.Repeat("u", 1<<20)}})
	})
}
