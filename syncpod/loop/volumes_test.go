package loop_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/source"
)

// configs are ConfigMaps of one file, conf, that all have the same text.
type configs struct {
	mu    sync.Mutex
	text  string
	err   error
	hangs bool
	asked int
}

func (c *configs) change(to func(*configs)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	to(c)
}

func (c *configs) ConfigMap(ctx context.Context, _, _ string) (*v1.ConfigMap, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if c.hangs {
		c.mu.Unlock()
		<-ctx.Done()
		c.mu.Lock()
		return nil, ctx.Err()
	}
	return &v1.ConfigMap{Data: map[string]string{"conf": c.text}}, c.err
}

// withConfig mounts the ConfigMap "settings" into the pod's container.
func withConfig(p *v1.Pod) *v1.Pod {
	p.Spec.Volumes = []v1.Volume{{Name: "settings", VolumeSource: v1.VolumeSource{
		ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "settings"}},
	}}}
	p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "settings", MountPath: "/etc/app"}}
	return p
}

// wantConf checks the configuration that a pod's container reads.
func wantConf(t *testing.T, root, uid, want string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(root, "pods", uid, "volumes/kubernetes.io~configmap/settings/conf"))
	if err != nil || string(got) != want {
		t.Errorf("the container reads %q, %v, want %q", got, err, want)
	}
}

// wantUndisturbed checks that since a call nothing was started or stopped.
func (n *node) wantUndisturbed(since int, uid string) {
	n.Helper()
	n.wantRunning(1, uid)
	if changes := n.Journal().After(since).Changes(); len(changes) > 0 {
		n.Errorf("the pod was disturbed:\n%v", changes)
	}
}

// A ConfigMap changes: within a minute the container reads the new text, without a
// restart. For pods that mount no ConfigMap, no request is made.
func TestVolumesFollowTheirSource(t *testing.T) {
	root := t.TempDir()
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src, settings, events := source.NewStaticPush("file"), &configs{text: "one"}, &recorder{}
		n.start([]source.Source{src}, func(c *nodeagent.Config) {
			c.Root, c.Sync.Objects.Sources, c.Sync.Events = root, env.Sources{ConfigMaps: settings}, syncpod.EventRecorderFunc(events.Eventf)
		})
		set(t, src, withConfig(pod("file", "web", "u", forever)), pod("file", "plain", "p", forever))
		time.Sleep(time.Hour)
		wantConf(t, root, "u", "one")
		before, plain := len(n.Journal()), len(n.Journal().Pod("p"))
		settings.change(func(c *configs) { c.text, c.asked = "two", 0 })
		time.Sleep(time.Minute + time.Second)
		wantConf(t, root, "u", "two")
		n.wantUndisturbed(before, "u")
		settings.change(func(c *configs) {
			if c.asked < 1 || c.asked > 2 {
				t.Errorf("the ConfigMap was asked for %d times in a minute", c.asked)
			}
		})
		if calls := len(n.Journal().Pod("p")) - plain; calls > 0 {
			t.Errorf("%d calls for a pod without files", calls)
		}
		if got := strings.Join(events.all(), "\n"); strings.Contains(got, "Warning") {
			t.Errorf("events, want no %q in it\n%s", "Warning", got)
		}
	})
}

// The source of ConfigMaps fails: the failure is reported and retried, and the pod keeps running with
// its old files.
func TestVolumesWhoseSourceFails(t *testing.T) {
	root := t.TempDir()
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src, settings, events := source.NewStaticPush("file"), &configs{text: "one"}, &recorder{}
		a := n.start([]source.Source{src}, func(c *nodeagent.Config) {
			c.Root, c.Sync.Objects.Sources, c.Sync.Events = root, env.Sources{ConfigMaps: settings}, syncpod.EventRecorderFunc(events.Eventf)
		})
		set(t, src, withConfig(pod("file", "web", "u", forever)))
		time.Sleep(time.Minute)
		before := len(n.Journal())
		settings.change(func(c *configs) { c.err = errors.New("the server is unavailable") })
		time.Sleep(10 * time.Minute)
		wantConf(t, root, "u", "one")
		n.wantUndisturbed(before, "u")
		got := strings.Join(events.all(), "\n")
		if count := strings.Count(got, "Warning FailedMount MountVolume.SetUp failed for volume \"settings\" : "); count < 10 || count > 25 {
			t.Errorf("%d events in 10 minutes:\n%s", count, got)
		}
		if h := a.Health(); !h.OK() {
			t.Errorf("health is %v", h)
		}
		settings.change(func(c *configs) { c.text, c.err = "two", nil })
		time.Sleep(time.Minute)
		wantConf(t, root, "u", "two")
		n.wantUndisturbed(before, "u")
	})
}

// The source of ConfigMaps hangs: the pod is worked on all the same, and stopped when
// it is to stop.
func TestVolumesWhoseSourceHangs(t *testing.T) {
	root := t.TempDir()
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src, settings := source.NewStaticPush("file"), &configs{text: "one"}
		n.start([]source.Source{src}, func(c *nodeagent.Config) {
			c.Root, c.Sync.Objects.Sources = root, env.Sources{ConfigMaps: settings}
		})
		p := withConfig(pod("file", "web", "u", forever))
		set(t, src, p)
		time.Sleep(50 * time.Second)
		settings.change(func(c *configs) { c.hangs = true })
		p = p.DeepCopy()
		p.Labels = map[string]string{"changed": "1"}
		set(t, src, p) // what hangs, hangs now
		time.Sleep(6 * time.Second)
		settings.change(func(c *configs) { c.asked = 0 })
		p = p.DeepCopy()
		p.Labels["changed"] = "2"
		set(t, src, p)
		synctest.Wait()
		settings.change(func(c *configs) {
			if c.asked != 1 {
				t.Errorf("asked %d times after a change, want once: the work on the pod goes on", c.asked)
			}
		})
		before := time.Now()
		set(t, src)
		synctest.Wait()
		n.wantRunning(0, "u")
		if took := time.Since(before); took != 0 {
			t.Errorf("stopped after %v", took)
		}
	})
}
