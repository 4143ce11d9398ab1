package agent_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/eviction"
	"github.com/podsync/podsync/syncpod/source"
)

// startEvicting starts an agent that evicts pods for their limits alone.
func (n *node) startEvicting(src source.Source) *running {
	n.Helper()
	short, root := newShortNode(n), n.TempDir()
	return n.start([]source.Source{src}, func(c *agent.Config) {
		short.evicting(eviction.Policy{})(c)
		c.Root = root
	})
}

// writes sets the size of the writable layer of each instance of a pod's containers, by the names of the containers.
func (n *node) writes(uid string, bytes map[string]uint64) {
	n.Helper()
	for _, c := range n.instances(uid).Containers {
		if err := n.Runtime.SetUsage(c.ID.ID, critest.Usage{RootFSBytes: bytes[c.Name]}); err != nil {
			n.Fatal(err)
		}
	}
}

// limited returns a pod with a limit of 1 MiB of ephemeral storage.
func limited(uid string) *v1.Pod {
	p := asking(uid, "")
	p.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse("1Mi")}
	return p
}

// The writable layers of exited containers count together while the runtime keeps them.
func TestLayersOfEndedContainersCount(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := source.NewPush()
		a := n.startEvicting(src)
		first, second := limited("first"), limited("second")
		for _, p := range []*v1.Pod{first, second} {
			for _, name := range []string{"init", "more"} {
				c := once(pod(runtime.ConfigSourceAPI, "init", "init", "exit 0")).Spec.Containers[0]
				c.Name = name
				p.Spec.InitContainers = append(p.Spec.InitContainers, c)
			}
		}
		set(t, src, first, second)
		time.Sleep(30 * time.Second)
		n.writes("first", map[string]uint64{"init": 600 << 10, "more": 600 << 10})
		n.writes("second", map[string]uint64{"init": 600 << 10})
		time.Sleep(3 * time.Minute)
		wantEvicted(t, a, "first")
		if want, got := "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ", a.sink.of("first").Message; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// Each run of a container that restarts has the whole limit: what earlier ones have written does not count.
func TestRestartsDoNotAddUp(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := source.NewPush()
		a := n.startEvicting(src)
		first := limited("first")
		first.Spec.Containers[0].Command = []string{"sh", "-c", "sleep 100; exit 1"}
		set(t, src, first)
		instances := 0
		for range 60 {
			time.Sleep(5 * time.Second)
			n.writes("first", map[string]uint64{first.Spec.Containers[0].Name: 600 << 10})
			instances = max(instances, len(n.instances("first").Containers))
		}
		wantEvicted(t, a)
		if instances < 2 {
			t.Errorf("at most %d instances are there at once, want an earlier one, too", instances)
		}
		n.writes("first", map[string]uint64{first.Spec.Containers[0].Name: 2 << 20})
		time.Sleep(time.Minute)
		wantEvicted(t, a, "first")
	})
}
