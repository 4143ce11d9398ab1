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
)

// furnish has the API server have three pods, and what they refer to.
func (s *site) furnish() {
	s.Helper()
	s.create(
		&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"}, Data: map[string]string{"CONF": "one"}},
		&v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "words"}, Data: map[string][]byte{"WORD": []byte("sesame")}},
		&v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"}, Spec: v1.ServiceSpec{ClusterIP: "10.96.0.1", Ports: []v1.ServicePort{{Port: 443}}}},
		podOf("changed", "registry.test/app:1"), podOf("deleted", "registry.test/app:1"), podOf("same", "registry.test/app:1"),
	)
}

// rearrange deletes a pod at the API server, changes one, and adds one.
func (s *site) rearrange() {
	s.Helper()
	pods := v1.SchemeGroupVersion.WithResource("pods")
	s.must(s.kube.Tracker().Delete(pods, "default", "deleted"))
	changed := s.pod("changed").DeepCopy()
	changed.Spec.Containers[0].Image, changed.Generation = "registry.test/app:2", 2
	s.must(s.kube.Tracker().Update(pods, changed, "default"))
	s.create(podOf("new", "registry.test/app:1"))
}

// back is how long it may take until an API server that was away is heard again: client-go waits
// for up to a minute between attempts.
const back = 3 * time.Minute

// wantRearranged checks that the node does what the API server wants, and has told it.
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

// A node loses its power, and boots while the API server is away: it runs what it ran, with
// what that was told of ConfigMaps, Secrets and Services. Later the server is back:
// what was deleted meanwhile stops, what has changed is changed, and the rest is left alone.
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

// The agent alone is started anew while the API server is away: nothing is done to what runs.
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

// The API server is away for a day while the agent runs. A container that ends is started again.
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
		s.must(s.rt.ExitContainer(crashed, critest.Exit{Code: 1}))
		s.sleep(time.Hour)
		s.wantRunning("changed", "deleted", "same")
		s.rearrange()
		s.server.is(false)
		s.sleep(back)
		s.wantRearranged(since)
	})
}

// The node has a label that its agent does not give it, by which a pod was bound. Without the
// API server that is not known, and the pod runs all the same.
func TestE5_NodeSelectorWithoutTheAPIServer(t *testing.T) {
	onSite(t, func(s *site) {
		s.furnish()
		s.create(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"disk": "ssd"}}})
		pod := podOf("same", "registry.test/app:1")
		pod.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		s.must(s.kube.Tracker().Update(v1.SchemeGroupVersion.WithResource("pods"), pod, "default"))
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

// An agent that is to remember nothing runs no pods without the API server, and leaves nothing of
// an earlier one on the disk.
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
		s.sleep(back + 5*time.Minute) // and the back-off of what could not start
		s.wantRunning("changed", "deleted", "same")
	})
}

// What is remembered has the age of the last heartbeat that the API server has answered, and not
// that of the last change. A node that was off for longer than --forget-pods-after runs none of it.
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
				s.sleep(back + 5*time.Minute) // and the back-off of what could not start
				s.wantRunning("changed", "deleted", "same")
			})
		})
	}
}

// The client certificate of the node has expired: the API server is there, and does not know who
// asks. What runs goes on, also over a restart of the agent and of the machine; with the next
// certificate the server is heard again.
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

// Agents before v0.1.0 kept the checkpoint in the directory "remembered". The next agent reads it, also if it
// finds an older checkpoint in the directory of today, which a rollback leaves behind.
func TestE5_CheckpointOfAnEarlierAgent(t *testing.T) {
	onSite(t, func(s *site) {
		dir, old := filepath.Join(s.root, "checkpoint"), filepath.Join(s.root, "remembered")
		s.furnish()
		s.boot()
		s.sleep(30 * time.Second)
		s.off()
		s.must(os.Rename(dir, old))
		s.must(os.Mkdir(dir, 0o700))
		s.must(os.WriteFile(filepath.Join(dir, "pods"), nil, 0o600))
		s.server.is(true)
		s.boot()
		s.sleep(time.Minute)
		s.wantRunning("changed", "deleted", "same")
		if _, err := os.Stat(old); !os.IsNotExist(err) {
			s.Errorf("the earlier directory still exists: %v", err)
		}
	})
}

// Without a key no Secret is on the disk, and a pod that needs one waits for the API server.
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
		text, err := os.ReadFile(filepath.Join(s.root, "checkpoint", "pods"))
		s.must(err)
		if !strings.Contains(string(text), `"CONF":"one"`) || strings.Contains(string(text), "c2VzYW1l") {
			t.Errorf("the file is %s", text)
		}
		s.server.is(true)
		s.boot()
		s.sleep(time.Minute)
		s.wantRunning("plain")
		s.server.is(false)
		s.sleep(back + 5*time.Minute) // and the back-off of what could not start
		s.wantRunning("changed", "deleted", "plain", "same")
	})
}

// What is in Secrets is in no line of the log, at any level, whatever goes wrong.
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
	if err := os.WriteFile(there, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	open, good := filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "key")
	for path, mode := range map[string]os.FileMode{open: 0o640, good: 0o400} {
		if err := os.WriteFile(path, []byte("0123456789abcdef0123456789abcdef"), mode); err != nil {
			t.Fatal(err)
		}
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
