package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// furnish creates three pods in the API server, and the objects that they refer to.
func (s *site) furnish() {
	s.Helper()
	s.create(
		&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"}, Data: map[string]string{"CONF": "one"}},
		&v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "words"}, Data: map[string][]byte{"WORD": []byte("sesame")}},
		&v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"}, Spec: v1.ServiceSpec{ClusterIP: "10.96.0.1", Ports: []v1.ServicePort{{Port: 443}}}},
		podOf("changed", "registry.test/app:1"), podOf("deleted", "registry.test/app:1"), podOf("same", "registry.test/app:1"),
	)
}

// rearrange deletes one pod in the API server, changes one, and adds one.
func (s *site) rearrange() {
	s.Helper()
	pods := v1.SchemeGroupVersion.WithResource("pods")
	must.Do(s, s.kube.Tracker().Delete(pods, "default", "deleted"))
	changed := s.pod("changed").DeepCopy()
	changed.Spec.Containers[0].Image, changed.Generation = "registry.test/app:2", 2
	must.Do(s, s.kube.Tracker().Update(pods, changed, "default"))
	s.create(podOf("new", "registry.test/app:1"))
}

// back is the maximum time until the agent receives events again after the API server was unavailable: client-go waits
// for up to a minute between attempts.
const back = 3 * time.Minute

// wantRearranged checks that the node runs the pods of the API server, and has reported them.
func (s *site) wantRearranged(since int) {
	s.Helper()
	s.wantRunning("changed", "new", "same")
	s.wantUndisturbed(since, "same")
	if stops := s.rt.Journal().After(since).Pod("uid-deleted").Of(critest.StopContainer); len(stops) == 0 {
		s.Error("the pod that was deleted was not stopped")
	}
	if starts := s.rt.Journal().After(since).Pod("uid-changed").Of(critest.StartContainer); len(starts) != 1 {
		s.Errorf("the pod that has changed was started %d times, want 1", len(starts))
	}
	for _, name := range []string{"changed", "new", "same"} {
		if pod := s.pod(name); pod == nil || pod.Status.Phase != v1.PodRunning {
			s.Errorf("pod %s at the API server is not known to run", name)
		}
	}
	if health := s.parts.loop.Health(); !health.OK() {
		s.Errorf("health is %v", health)
	}
}

// A node loses power, and boots while the API server is unavailable: it runs the same pods, with the last known
// ConfigMaps, Secrets and Services. When the server is available again, the agent stops the pod that was deleted,
// restarts the pod that has changed, and does not disturb the third.
func TestE5_BootWithoutTheAPIServer(t *testing.T) {
	onSite(t, func(s *site) {
		s.furnish()
		s.boot()
		s.sleep(30 * time.Second)
		s.wantRunning("changed", "deleted", "same")
		s.off()

		s.server.is(true)
		s.rearrange()
		s.boot()
		s.sleep(9 * time.Second)
		s.wantRunning()
		s.sleep(10 * time.Second)
		s.wantRunning("changed", "deleted", "same")
		since := len(s.rt.Journal())
		s.sleep(time.Hour)
		s.wantRunning("changed", "deleted", "same")
		s.wantUndisturbed(since, "changed", "deleted", "same")

		s.server.is(false)
		s.sleep(back)
		s.wantRearranged(since)
	})
}

// The agent restarts while the API server is unavailable: it does not disturb running pods.
func TestE5_AgentStartsWithoutTheAPIServer(t *testing.T) {
	onSite(t, func(s *site) {
		s.furnish()
		s.boot()
		s.sleep(30 * time.Second)
		s.off()

		s.server.is(true)
		since := len(s.rt.Journal())
		s.run()
		s.sleep(time.Hour)
		s.wantRunning("changed", "deleted", "same")
		s.wantUndisturbed(since, "changed", "deleted", "same")
		s.rearrange()
		s.server.is(false)
		s.sleep(back)
		s.wantRearranged(since)
	})
}

// The API server is unavailable for a day while the agent runs. The agent restarts a container that exits.
func TestE5_ADayWithoutTheAPIServer(t *testing.T) {
	onSite(t, func(s *site) {
		s.furnish()
		s.boot()
		s.sleep(30 * time.Second)
		s.server.is(true)
		since := len(s.rt.Journal())
		s.sleep(23 * time.Hour)
		s.wantUndisturbed(since, "changed", "deleted", "same")
		crashed := s.rt.Journal().Pod("uid-deleted").Of(critest.StartContainer)[0].ContainerID
		must.Do(s, s.rt.ExitContainer(crashed, critest.Exit{Code: 1}))
		s.sleep(time.Hour)
		s.wantRunning("changed", "deleted", "same")
		s.rearrange()
		s.server.is(false)
		s.sleep(back)
		s.wantRearranged(since)
	})
}

// A pod selects its node by a label that the agent does not set. Without the API server the agent does not know the
// label, and runs the pod nevertheless.
func TestE5_NodeSelectorWithoutTheAPIServer(t *testing.T) {
	onSite(t, func(s *site) {
		s.furnish()
		s.create(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"disk": "ssd"}}})
		pod := podOf("same", "registry.test/app:1")
		pod.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		must.Do(s, s.kube.Tracker().Update(v1.SchemeGroupVersion.WithResource("pods"), pod, "default"))
		s.boot()
		s.sleep(30 * time.Second)
		s.wantRunning("changed", "deleted", "same")
		s.off()
		s.server.is(true)
		s.boot()
		s.sleep(time.Minute)
		s.wantRunning("changed", "deleted", "same")
	})
}

// With --forget-pods the agent runs no pods without the API server, and removes the checkpoint of an earlier agent.
func TestE5_NothingIsRememberedIfUnwanted(t *testing.T) {
	onSite(t, func(s *site) {
		s.furnish()
		s.boot()
		s.sleep(30 * time.Second)
		s.off()
		s.change = func(a *agent) { a.forget = true }
		s.server.is(true)
		s.boot()
		s.sleep(time.Hour)
		s.wantRunning()
		if _, err := os.Stat(filepath.Join(s.root, "checkpoint")); !os.IsNotExist(err) {
			s.Errorf("the pods of the earlier agent are still there: %v", err)
		}
		s.server.is(false)
		s.sleep(back + 5*time.Minute) // and the back-off of failed starts
		s.wantRunning("changed", "deleted", "same")
	})
}

// The age of the checkpoint is the time since the last successful heartbeat, not since the last change. A node that was
// off for longer than --forget-pods-after runs none of the checkpoint's pods.
func TestE5_RememberedPodsAreForgottenByAge(t *testing.T) {
	for name, tc := range map[string]struct {
		off  time.Duration
		want []string
	}{
		"soon": {8 * time.Minute, []string{"changed", "deleted", "same"}},
		"late": {11 * time.Minute, nil},
	} {
		t.Run(name, func(t *testing.T) {
			onSite(t, func(s *site) {
				s.change = func(a *agent) { a.forgetAfter = 10 * time.Minute }
				s.furnish()
				s.boot()
				s.sleep(20 * time.Minute)
				s.off()
				s.server.is(true)
				time.Sleep(tc.off)
				s.boot()
				s.sleep(time.Minute)
				s.wantRunning(tc.want...)
				s.server.is(false)
				s.sleep(back + 5*time.Minute) // and the back-off of failed starts
				s.wantRunning("changed", "deleted", "same")
			})
		})
	}
}

// The node's client certificate has expired: the API server is available, and does not authenticate the node. Pods
// keep running, also across a restart of the agent and of the machine. With the next certificate the agent receives
// events again.
func TestE5_ClientCertificateHasExpired(t *testing.T) {
	onSite(t, func(s *site) {
		s.furnish()
		s.boot()
		s.sleep(30 * time.Second)
		s.server.refuses(false, true)
		since := len(s.rt.Journal())
		s.sleep(20 * time.Minute)
		s.wantUndisturbed(since, "changed", "deleted", "same")
		s.off()
		s.run()
		s.sleep(20 * time.Minute)
		s.wantRunning("changed", "deleted", "same")
		s.wantUndisturbed(since, "changed", "deleted", "same")
		s.off()
		s.boot()
		s.sleep(time.Minute)
		s.wantRunning("changed", "deleted", "same")
		since = len(s.rt.Journal())
		s.rearrange()
		s.server.is(false)
		s.sleep(back)
		s.wantRearranged(since)
	})
}

// Agents before v0.1.0 kept the checkpoint in the directory "remembered". The next agent reads it, even if there is also
// an older checkpoint in the current directory, which a rollback leaves behind.
func TestE5_CheckpointOfAnEarlierAgent(t *testing.T) {
	onSite(t, func(s *site) {
		dir, old := filepath.Join(s.root, "checkpoint"), filepath.Join(s.root, "remembered")
		s.furnish()
		s.boot()
		s.sleep(30 * time.Second)
		s.off()
		must.Do(s, os.Rename(dir, old))
		must.Do(s, os.Mkdir(dir, 0o700))
		must.Do(s, os.WriteFile(filepath.Join(dir, "pods"), nil, 0o600))
		s.server.is(true)
		s.boot()
		s.sleep(time.Minute)
		s.wantRunning("changed", "deleted", "same")
		if _, err := os.Stat(old); !os.IsNotExist(err) {
			s.Errorf("the earlier directory still exists: %v", err)
		}
	})
}

// Without a key the checkpoint contains no Secret, and a pod that needs a Secret waits for the API server.
func TestE5_WithoutAKeySecretsAreNotRemembered(t *testing.T) {
	onSite(t, func(s *site) {
		s.change = func(a *agent) { a.checkpointKey = "" }
		s.furnish()
		plain := podOf("plain", "registry.test/app:1")
		plain.Spec.Containers[0].EnvFrom = plain.Spec.Containers[0].EnvFrom[:1]
		s.create(plain)
		s.boot()
		s.sleep(30 * time.Second)
		s.wantRunning("changed", "deleted", "plain", "same")
		s.off()
		text := must.Get(os.ReadFile(filepath.Join(s.root, "checkpoint", "pods")))(s)
		if !strings.Contains(string(text), `"CONF":"one"`) || strings.Contains(string(text), "c2VzYW1l") {
			t.Errorf("the file is %s", text)
		}
		s.server.is(true)
		s.boot()
		s.sleep(time.Minute)
		s.wantRunning("plain")
		s.server.is(false)
		s.sleep(back + 5*time.Minute) // and the back-off of failed starts
		s.wantRunning("changed", "deleted", "plain", "same")
	})
}

// The contents of Secrets are in no line of the log, at any level, whatever fails.
func TestSecretsAreNotLogged(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	note := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}
	onSite(t, func(s *site) {
		s.change = func(a *agent) {
			a.log = funcr.New(func(prefix, args string) { note(prefix + " " + args) }, funcr.Options{Verbosity: 100})
		}
		s.furnish()
		broken := podOf("broken", "registry.test/app:1")
		broken.Spec.Containers[0].Env = []v1.EnvVar{{Name: "A", ValueFrom: &v1.EnvVarSource{
			SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "words"}, Key: "OTHER"},
		}}}
		s.create(broken)
		s.boot()
		s.sleep(time.Minute)
		s.server.is(true)
		s.sleep(time.Minute)
		s.off()
		s.boot()
		s.sleep(time.Minute)
		s.server.is(false)
		s.sleep(back)
		s.wantRunning("changed", "deleted", "same")
	})
	mu.Lock()
	defer mu.Unlock()
	if len(lines) < 30 {
		t.Errorf("there are %d lines", len(lines))
	}
	for _, line := range lines {
		if strings.Contains(line, "sesame") || strings.Contains(line, "c2VzYW1l") {
			t.Errorf("logged: %s", line)
		}
	}
}

func TestCheckpointKeyIsChecked(t *testing.T) {
	there, gone := filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "key")
	must.Do(t, os.WriteFile(there, []byte("short"), 0o600))
	open, good := filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "key")
	for path, mode := range map[string]os.FileMode{open: 0o640, good: 0o400} {
		must.Do(t, os.WriteFile(path, []byte("0123456789abcdef0123456789abcdef"), mode))
	}
	dir := t.TempDir()
	for path, want := range map[string]string{
		gone: "no such file", there: "has 5 bytes, want 32", open: "want a regular file that its owner alone may read", dir: "not a regular file",
		"/dev/zero": "not a regular file", good + "," + open: open, good + "," + there: "has 5 bytes",
	} {
		a := &agent{options: options{root: t.TempDir(), checkpointKey: path}}
		if _, err := a.checkpoint(&parts{}); err == nil || !strings.Contains(err.Error(), "--checkpoint-key-file") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", path, err, want)
		}
	}
}
