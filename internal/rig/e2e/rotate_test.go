package e2e

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	podlogs "github.com/podsync/podsync/runtime/logs"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// printed is the number of lines that the chatty container prints, in some seconds.
const printed = 20000

// A container prints as much as it can while its log is rotated, compressed and followed:
// over five rotations and more no line is lost or doubled.
func TestRotatedWhileFollowed(t *testing.T) {
	onEdges(t, func(t *testing.T, e *edge) {
		dir, pods := t.TempDir(), source.NewPush()
		agent := must.Get(nodeagent.New(nodeagent.Config{
			Client: e.client, Root: filepath.Join(dir, "root"), Sources: []source.Source{pods}, NoEviction: true, NoImageGC: true,
			LogPolicy: podlogs.RotationPolicy{MaxSize: 200 << 10, MaxFiles: 50}, LogInterval: 100 * time.Millisecond,
			Sync: syncpod.Config{Owner: e.owner, Node: syncpod.Node{LogsRoot: filepath.Join(dir, "logs")}},
		}))(t)
		must.Run(t, agent.Run)
		t.Cleanup(func() {
			if err := pods.Set(); err != nil {
				t.Error(err)
			}
			within(t, func() error {
				if left := agent.Pods(); len(left) > 0 {
					return fmt.Errorf("still there: %s, %v", left[0].Phase, agent.Health())
				}
				return nil
			})
		})
		uid := fmt.Sprintf("rotated-%d", time.Now().UnixNano())
		must.Do(t, pods.Set(chattyPod(uid)))
		log := filepath.Join(dir, "logs", "e2e_chatty_"+uid, "app", "0.log")
		phase := func() v1.PodPhase {
			for _, p := range agent.Pods() {
				return p.Status.Phase
			}
			return ""
		}
		within(t, func() error {
			if p := phase(); p != v1.PodRunning && p != v1.PodSucceeded {
				return fmt.Errorf("the pod is %s: %v", p, agent.Health())
			}
			return nil
		})
		var followed, read bytes.Buffer
		over := func(ctx context.Context) error {
			for ctx.Err() == nil && phase() != v1.PodSucceeded {
				time.Sleep(50 * time.Millisecond)
			}
			return ctx.Err()
		}
		var reader podlogs.Reader
		must.Do(t, reader.Read(t.Context(), podlogs.Log{Path: log, Ended: over}, &v1.PodLogOptions{Follow: true}, &followed, &followed))
		must.Do(t, reader.Read(t.Context(), podlogs.Log{Path: log}, nil, &read, &read))
		wantLines(t, "followed", followed.String())
		wantLines(t, "read in the end", read.String())
		parts, _ := filepath.Glob(log + ".*")
		packed, _ := filepath.Glob(log + ".*.gz")
		t.Logf("%d rotated files, %d of them compressed", len(parts), len(packed))
		if len(parts) < 5 || len(packed) != len(parts)-1 {
			t.Errorf("%d rotated files, %d of them compressed", len(parts), len(packed))
		}
	})
}

// chattyPod prints lines of 100 bytes in the log.
func chattyPod(uid string) *v1.Pod {
	script := fmt.Sprintf(`i=0; while [ $i -lt %d ]; do echo "$i %s"; i=$((i+1)); [ $((i %% 400)) = 0 ] && sleep 0.1; done`, printed, strings.Repeat("x", 60))
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "e2e", Name: "chatty", UID: types.UID(uid)},
		Spec: v1.PodSpec{
			RestartPolicy: v1.RestartPolicyNever,
			Containers: []v1.Container{{
				Name: "app", Image: image, ImagePullPolicy: v1.PullIfNotPresent, Command: []string{"/bin/busybox", "sh", "-c", script},
			}},
		},
	}
}

// wantLines fails unless all lines are present, once and in order.
func wantLines(t *testing.T, how, text string) {
	t.Helper()
	next := 0
	for line := range strings.Lines(text) {
		var number int
		if _, err := fmt.Sscan(line, &number); err != nil || number != next {
			t.Fatalf("%s: line %q comes where %d is due: %v", how, line, next, err)
		}
		next++
	}
	if next != printed {
		t.Errorf("%s: %d lines, want %d", how, next, printed)
	}
}

// within waits until something holds.
func within(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for err := check(); err != nil; err = check() {
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
