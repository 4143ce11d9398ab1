package agent_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// runOthers runs pods of another agent, of a kubelet and of nobody, and returns the IDs of their sandboxes. Half of them have ended: an agent that
// took them for its own would collect them as garbage. One has the UID of a pod of the agent.
func runOthers(n *node) map[string]bool {
	theirs := map[string]bool{}
	other := n.As(cri.Owner{Name: "other"})
	for _, uid := range []string{"web", "theirs", "theirs-ended"} {
		other.RunSandbox(uid)
		for attempt := range uint32(5) {
			id := other.Start(uid, "app", attempt, "sleep infinity")
			if attempt < 4 || uid == "theirs-ended" {
				other.Exit(id, 1)
			}
		}
		theirs[other.SandboxIDs[uid]] = true
	}
	for uid, labels := range map[string]map[string]string{
		"kubelets": {runtime.LabelPodName: "kubelets", runtime.LabelPodNamespace: "ns", runtime.LabelPodUID: "kubelets"}, "nobodys": nil,
	} {
		for attempt := range uint32(3) {
			config := n.SandboxConfig(uid)
			config.Labels, config.Metadata.Attempt = maps.Clone(labels), attempt
			resp, err := n.Client.RunPodSandbox(n.Context(), &runtimeapi.RunPodSandboxRequest{Config: config})
			n.Must(err)
			if attempt < 2 {
				_, err := n.Client.StopPodSandbox(n.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: resp.GetPodSandboxId()})
				n.Must(err)
			}
			theirs[resp.GetPodSandboxId()] = true
		}
	}
	_, err := n.Client.StopPodSandbox(n.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: other.SandboxIDs["theirs-ended"]})
	n.Must(err)
	return theirs
}

// An agent that starts, restarts and removes pods, and collects its garbage, makes no call that changes a sandbox or container
// that it has not created, in whatever state that is, and whatever its labels say.
func TestPodsOfOtherAgentsAreNotTouched(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		theirs := runOthers(n)
		before := len(n.Journal())
		for range 2 {
			src := source.NewStaticPush("file") // all sandboxes say that they are of this source
			web, db := pod("file", "web", "web", forever), pod("file", "db", "db", forever)
			a := n.start([]source.Source{src}, func(c *agent.Config) { c.NoImageGC = false })
			n.Must(src.Set(web, db))
			time.Sleep(10 * time.Minute)
			n.wantRunning(1, "web", "db")
			n.Exit(n.instances("web").Containers[0].ID.ID, 1)
			time.Sleep(10 * time.Minute)
			n.Must(src.Set(db))
			time.Sleep(2 * time.Hour)
			n.wantRunning(0, "web")
			a.stop()
		}
		own := 0
		reads := []critest.Method{critest.ListPodSandbox, critest.PodSandboxStatus, critest.ListContainers, critest.ContainerStatus, critest.ListPodSandboxStats, critest.ListContainerStats}
		for _, call := range n.Journal().After(before) {
			switch {
			case call.SandboxID == "" || slices.Contains(reads, call.Method):
			case theirs[call.SandboxID]:
				t.Errorf("the agent has called %s of a sandbox that it did not create: %v", call.Method, call)
			default:
				own++
			}
		}
		if own < 10 {
			t.Errorf("the agent has made %d calls that change its own pods", own)
		}
		left := map[string]bool{}
		for _, s := range n.Sandboxes() {
			left[s.GetId()] = true
		}
		for id := range theirs {
			if !left[id] {
				t.Errorf("sandbox %s of another agent was removed", id)
			}
		}
	})
}
