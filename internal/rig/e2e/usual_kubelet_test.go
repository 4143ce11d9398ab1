package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A real kubelet runs the usual pods in memory as static pods: PODSYNC_KUBELET is its path. It needs root, and no other agent may
// run on the machine. CI leaves it out: docs/results/twin.txt has the last run.
func TestUsualPodsOfAKubelet(t *testing.T) {
	kubelet := os.Getenv("PODSYNC_KUBELET")
	if kubelet == "" {
		t.Skip("PODSYNC_KUBELET is not set")
	}
	dir := t.TempDir()
	root, static, logs, socket := filepath.Join(dir, "kubelet"), filepath.Join(dir, "static"), filepath.Join(dir, "logs"), filepath.Join(dir, "c.sock")
	must.Do(t, os.MkdirAll(root, 0o755))
	must.Do(t, os.MkdirAll(static, 0o755))
	rt := must.Get(critest.New(critest.Config{Dir: root, LogsRoot: logs, Images: usualImages()}))(t)
	t.Cleanup(func() { must.Do(t, rt.Close()) })
	endpoint := must.Get(rt.Listen(socket))(t)
	port := freePort(t)
	config := filepath.Join(dir, "config.yaml")
	must.Do(t, os.WriteFile(config, []byte(fmt.Sprintf(`
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: %s
staticPodPath: %s
podLogsDir: %s
fileCheckFrequency: 1s
readOnlyPort: %d
port: %d
healthzPort: 0
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
localStorageCapacityIsolation: false
evictionHard: {memory.available: 1Mi}
imageGCHighThresholdPercent: 100
`, endpoint, static, logs, port, freePort(t))), 0o644))
	out := must.Get(os.Create(filepath.Join(dir, "kubelet.log")))(t)
	defer out.Close()
	cmd := exec.Command(kubelet, "--config", config, "--root-dir", root, "--hostname-override", nodeName)
	cmd.Stdout, cmd.Stderr = out, out
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // the test has ended it
		if t.Failed() {
			text, _ := os.ReadFile(out.Name())
			t.Logf("the kubelet says\n%s", text[max(0, len(text)-4000):])
		}
		mounted, _ := filepath.Glob(filepath.Join(root, "pods", "*", "volumes", "*", "*"))
		for _, name := range append(mounted, root) { // which the kubelet mounts on itself
			_ = exec.Command("umount", name).Run() // most are not mounted
		}
	})
	manifest := func(p *v1.Pod) string { return filepath.Join(static, p.Name+".json") }
	s := &usualAgent{
		root: dir, node: "-" + nodeName, statuses: map[string]v1.PodStatus{}, problems: rt.Problems,
		run: func(p *v1.Pod) error {
			p = p.DeepCopy()
			p.APIVersion, p.Kind, p.UID = "v1", "Pod", ""
			text, err := json.Marshal(p)
			if err != nil {
				return err
			}
			return os.WriteFile(manifest(p), text, 0o644)
		},
		stop: func(p *v1.Pod) { _ = os.Remove(manifest(p)) },
	}
	must.Go(t, func(ctx context.Context) {
		for ; ctx.Err() == nil; time.Sleep(300 * time.Millisecond) {
			s.read(fmt.Sprintf("http://127.0.0.1:%d/pods", port))
		}
	})
	for _, versions := range readUsual(t, filepath.Join(root, "host"), "").pods {
		t.Run(versions[0].Name, func(t *testing.T) {
			if why := notStatic(versions); why != "" {
				t.Skip(why)
			}
			t.Parallel()
			which := inMemory
			if versions[0].Name == "unmounted-memory" { // a kubelet mounts it
				which = wanted
			}
			s.comesTo(t, versions, which, 2*patience)
		})
	}
}

// notStatic returns why a pod cannot be a static one in memory.
func notStatic(versions []*v1.Pod) string {
	if len(versions) > 1 {
		return "static pods are replaced, not changed"
	}
	p := versions[0]
	if p.Name == "no-such-image" {
		return "a kubelet without an API server goes on to report ErrImagePull"
	}
	for _, v := range p.Spec.Volumes {
		if v.ConfigMap != nil || v.Secret != nil || v.Projected != nil {
			return "static pods have no objects"
		}
	}
	for _, c := range p.Spec.Containers {
		if c.EnvFrom != nil || len(c.Env) > 0 && c.Env[0].ValueFrom != nil && c.Env[0].ValueFrom.SecretKeyRef != nil {
			return "static pods have no objects"
		}
		for _, probe := range []*v1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
			if probe != nil && probe.Exec == nil {
				return "a kubelet's network probes do not reach pods in memory"
			}
		}
	}
	return ""
}

// read records the statuses that a kubelet's read-only port shows.
func (s *usualAgent) read(url string) {
	resp, err := http.Get(url)
	if err != nil {
		return // it starts
	}
	defer resp.Body.Close()
	var list v1.PodList
	if json.NewDecoder(resp.Body).Decode(&list) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range list.Items {
		s.statuses[p.Name] = p.Status
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	lis := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer lis.Close()
	return lis.Addr().(*net.TCPAddr).Port
}
