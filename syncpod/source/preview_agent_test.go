package source_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/source"
)

// randomManifest returns one of several versions of a pod.
func randomManifest(r *rand.Rand, name string) string {
	container := func(name, command string) string {
		return fmt.Sprintf("\n  - {name: %s, image: 'registry.test/app:%d', imagePullPolicy: IfNotPresent, command: [sh, -c, '%s']}", name, r.IntN(2), command)
	}
	head := func(meta, spec string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s%s}\nspec:%s\n  containers:", name, meta, spec)
	}
	const forever = "sleep infinity & wait"
	switch r.IntN(8) {
	case 0:
		return head("", "") + container("app", forever)
	case 1:
		return head("", "") + container("app", forever) + container("side", forever)
	case 2:
		return head("", "\n  initContainers:"+container("init", "exit 0")) + container("app", forever)
	case 3:
		return head("", "\n  restartPolicy: Never") + container("app", "exit 0")
	case 4: // invalid
		return head("", "") + "\n  - {name: app}"
	case 5: // unreadable
		return head("", "") + "\n\t- {name: app}"
	default: // a pod that keeps its UID changes in place
		cpu := fmt.Sprintf("%dm", 100*(1+r.IntN(2)))
		return head(", uid: "+name, "") + strings.Replace(container("app", forever), "command:", "resources: {requests: {cpu: "+cpu+"}, limits: {cpu: "+cpu+"}}, command:", 1)
	}
}

// For 1,000 random folders, the agent does what the preview has said.
func TestPreviewIsWhatTheAgentDoes(t *testing.T) {
	const lives, steps = 20, 50
	effects := map[actions.Effect]int{}
	for seed := range uint64(lives) {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			folder := must.Get(source.NewFolder(source.FolderConfig{Path: dir, NodeName: "n", Rescan: 10 * time.Second}))(t)
			agent, rt := previewed(t, folder.Unwatched())
			time.Sleep(11 * time.Second)
			r, files := rand.New(rand.NewPCG(seed, 0)), map[string][]byte{}
			for step := range steps {
				for i := range 4 {
					name := fmt.Sprintf("p%d", i)
					switch r.IntN(4) {
					case 0:
						files[name+".yaml"] = []byte(randomManifest(r, name))
					case 1:
						delete(files, name+".yaml")
					}
				}
				preview := agent.Preview(folder.Name(), folder.Preview(files, true))
				before := len(rt.Journal())
				replaceFiles(t, dir, files)
				time.Sleep(40 * time.Second)
				checkPreview(t, fmt.Sprintf("life %d, step %d", seed, step), preview, rt.Journal().After(before), effects)
			}
		})
	}
	for effect := range actions.Restarts + 1 {
		if effects[effect] == 0 {
			t.Errorf("no container %v", effect)
		}
	}
	t.Logf("containers: %v", effects)
}

func previewed(t *testing.T, folder *source.Folder) (*agent.Agent, *critest.Runtime) {
	rt, conn := critest.Start(t, critest.Config{})
	a := must.Get(agent.New(agent.Config{
		Client: cri.NewClient(conn), Sources: []source.Source{folder}, NoEviction: true, NoLogRotation: true, NoOOMEvents: true, NoImageGC: true,
		Sync: syncpod.Config{RuntimeName: "critest", Node: syncpod.Node{LogsRoot: "/var/log/pods"}},
	}))(t)
	must.Run(t, a.Run)
	return a, rt
}

// replaceFiles replaces the files of a folder, so that no partial state is read.
func replaceFiles(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	old, err := os.ReadDir(dir)
	for _, e := range old {
		if _, stays := files[e.Name()]; !stays && err == nil {
			err = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	for name, text := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
	}
	must.Do(t, err)
}

// checkPreview compares a preview with the calls that followed.
func checkPreview(t *testing.T, when string, p loop.Preview, calls critest.Journal, effects map[actions.Effect]int) {
	t.Helper()
	described := map[string]bool{}
	for _, pod := range p.Pods {
		ofPod := calls.Pod(string(pod.UID))
		ofName := calls.Where(func(c critest.Call) bool { return c.Pod == pod.Name })
		described[string(pod.UID)] = true
		for _, c := range pod.Containers {
			effects[c.Effect]++
			starts, resizes := ofPod.Container(c.Name).Count(critest.StartContainer), ofPod.Container(c.Name).Count(critest.UpdateContainerResources)
			stops := ofName.Container(c.Name).Count(critest.StopContainer)
			ok := false
			switch c.Effect {
			case actions.Unchanged:
				ok = starts+stops+resizes == 0
			case actions.Starts, actions.Waits: // for an init container
				ok = starts == 1 && stops == 0
			case actions.Restarts:
				ok = starts == 1 && stops > 0
			case actions.Stops:
				ok = starts == 0 && stops > 0
			case actions.Resizes:
				ok = starts+stops == 0 && resizes > 0
			}
			if !ok {
				t.Errorf("%s: pod %s, container %s %v (%s), pod %v (%s), and the agent has made these calls:\n%v", when, pod.Name, c.Name, c.Effect, c.Reason, pod.Effect, pod.Reason, ofName)
			}
		}
		if changes := ofPod.Of(critest.StartContainer, critest.StopContainer, critest.RunPodSandbox, critest.UpdateContainerResources); (pod.Effect == actions.Unchanged) != (len(changes) == 0) && len(pod.Containers) > 0 && pod.Effect != actions.Waits {
			t.Errorf("%s: pod %s %v (%s), and the agent has made these calls:\n%v", when, pod.Name, pod.Effect, pod.Reason, changes)
		}
		if pod.Effect == actions.Restarts {
			for _, c := range ofName { // the version before is described by this one
				described[c.PodUID] = true
			}
		}
	}
	for _, c := range calls.Of(critest.StartContainer, critest.StopContainer) {
		if !described[c.PodUID] {
			t.Errorf("%s: the preview has no pod %s with the UID %s, and the agent calls %v", when, c.Pod, c.PodUID, c)
		}
	}
}
