package loop_test

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// onDisk gives an agent a root, logs and links below dir.
func onDisk(dir string) func(c *nodeagent.Config) {
	return func(c *nodeagent.Config) {
		c.Root, c.Sync.Node.LogsRoot, c.Sync.Node.LogLinks = filepath.Join(dir, "root"), filepath.Join(dir, "logs"), filepath.Join(dir, "links")
		c.Sync.Parts.Logs, c.Store = nil, nil
	}
}

// leftOf returns what is left of pods on the disk.
func leftOf(t *testing.T, dir string) (left []string) {
	t.Helper()
	for _, pattern := range []string{"logs/*", "links/*", "root/pods/*", "root/records/*", "root/statuses/*"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, found...)
	}
	return left
}

// The logs of a pod and the links to them are removed with the pod, however short its life was (kubernetes #125079).
func TestR5_LogsOfAShortLife(t *testing.T) {
	for _, life := range []time.Duration{time.Second, 10 * time.Second, 2 * time.Minute} {
		t.Run(life.String(), func(t *testing.T) {
			dir := t.TempDir()
			inBubble(t, critest.Config{Dir: dir}, func(t *testing.T, n *node) {
				src := source.NewStaticPush("file")
				a := n.start([]source.Source{src}, onDisk(dir))
				set(t, src, pod("file", "web", "u", forever), pod("file", "other", "v_u", forever))
				time.Sleep(life)
				if links, logs := countFiles(t, filepath.Join(dir, "links/*")), countFiles(t, filepath.Join(dir, "logs/*")); links != 2 || logs != 2 {
					t.Fatalf("%d links and %d directories of logs, want those of two pods", links, logs)
				}
				set(t, src, pod("file", "other", "v_u", forever))
				time.Sleep(35 * time.Second) // no garbage collection is needed
				if links, logs := countFiles(t, filepath.Join(dir, "links/*")), countFiles(t, filepath.Join(dir, "logs/*_v_u")); links != 1 || logs != 1 {
					t.Errorf("%d links and %d directories of logs of the other pod, want its own", links, logs)
				}
				set(t, src)
				time.Sleep(35 * time.Second)
				if left := leftOf(t, dir); len(left) > 0 {
					t.Errorf("left: %q", left)
				}
				a.stop()
			})
		})
	}
}

// The agent is killed during a removal, or just before it, and the next one removes the rest.
func TestR5_NothingIsLeftAfterAKillDuringARemoval(t *testing.T) {
	for _, method := range []critest.Method{critest.StopContainer, critest.StopPodSandbox, critest.RemoveContainer, critest.RemovePodSandbox, ""} {
		for name, late := range map[string]bool{"and the call has no effect": false, "and the call succeeds later": true} {
			t.Run(string(method)+" "+name, func(t *testing.T) {
				dir := t.TempDir()
				inBubble(t, critest.Config{Dir: dir}, func(t *testing.T, n *node) {
					src := source.NewStaticPush("file")
					var reached atomic.Bool
					a := n.start([]source.Source{src}, func(c *nodeagent.Config) {
						onDisk(dir)(c)
						if method == "" { // in the deletion of the files
							c.Sync.Parts.Clean = []syncpod.Cleaner{cleanerFunc(func(ctx context.Context, _ types.UID) error {
								reached.Store(true)
								<-ctx.Done()
								return ctx.Err()
							})}
						}
					})
					set(t, src, pod("file", "web", "u", forever))
					time.Sleep(time.Second)
					gate := &faults.Gate{}
					if method != "" {
						if _, err := n.Inject(faults.Fault{Match: faults.Match{Method: method}, Times: 1, Hang: gate, IgnoreCancel: late}); err != nil {
							t.Fatal(err)
						}
					}
					set(t, src)
					time.Sleep(40 * time.Second)
					synctest.Wait()
					a.kill()
					gate.Open()
					n.start([]source.Source{src}, onDisk(dir))
					set(t, src)
					time.Sleep(3 * time.Minute)
					if left := leftOf(t, dir); len(left) > 0 {
						t.Errorf("left: %q\n%v", left, n.Journal())
					}
				})
			})
		}
	}
}

// Only links to logs of the pod are removed, and no other file.
func TestR5_OtherFilesBesideLogsStay(t *testing.T) {
	dir := t.TempDir()
	inBubble(t, critest.Config{Dir: dir}, func(t *testing.T, n *node) {
		for _, name := range []string{"logs/shipper_u", "logs/default_other_x_u", "links"} {
			if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for name, to := range map[string]string{"mine": dir + "/elsewhere/default_web_u/a.log", "other": dir + "/logs/default_other_x_u/app/0.log"} {
			if err := os.Symlink(to, filepath.Join(dir, "links", name)); err != nil {
				t.Fatal(err)
			}
		}
		src := source.NewStaticPush("file")
		n.start([]source.Source{src}, onDisk(dir))
		set(t, src, pod("file", "web", "u", forever))
		time.Sleep(time.Second)
		set(t, src)
		time.Sleep(35 * time.Second)
		if left := leftOf(t, dir); len(left) != 4 && len(left) != 3 {
			t.Errorf("left: %q, want what was there before", left)
		}
		if _, err := os.Stat(filepath.Join(dir, "logs/default_other_x_u")); err != nil {
			t.Error(err)
		}
	})
}
