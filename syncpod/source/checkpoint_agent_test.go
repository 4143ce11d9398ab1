package source_test

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/cri/critest/podtest"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/source"
)

// A server has pods, ConfigMaps and Secrets, or is unavailable.
type server struct {
	mu   sync.Mutex
	away bool
}

var errAway = errors.New("dial tcp 192.0.2.1:6443: connection refused")

func (s *server) is(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

func (s *server) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return errAway
	}
	return nil
}

func (s *server) ConfigMap(_ context.Context, namespace, name string) (*v1.ConfigMap, error) {
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"conf": "one"}}, s.err()
}

func (s *server) Secret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	return &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"word": []byte("sesame")}}, s.err()
}

// A machine is a node that can lose its power: only its disk survives.
type machine struct {
	*testing.T
	root   string
	server *server
	rt     *critest.Runtime
	agent  *agent.Agent
	push   *source.Push
	off    func()
}

// boot starts a runtime in which nothing runs, and an agent.
func (m *machine) boot(static bool) {
	m.Helper()
	rt, _ := critest.Start(m.T, critest.Config{})
	m.rt = rt
	m.run(static)
}

// run starts an agent on the runtime there is.
func (m *machine) run(static bool) {
	m.Helper()
	conn := must.Get(m.rt.Dial())(m)
	m.push = source.NewPush()
	if static {
		m.push = source.NewStaticPush("http")
	}
	mem := must.Get(source.NewCheckpoint(source.CheckpointConfig{
		Source: m.push, ConfigMaps: m.server, Secrets: m.server,
		Path: filepath.Join(m.root, "checkpoint", "pods"), Key: []byte("0123456789abcdef0123456789abcdef"),
	}))(m)
	m.agent = must.Get(agent.New(agent.Config{
		Client: cri.NewClient(conn), Root: m.root, Sources: []source.Source{mem}, NoEviction: true, // this machine may be short of something
		NoLogRotation: true, // this runtime has no log files
		Sync: syncpod.Config{
			RuntimeName: "critest", Node: syncpod.Node{LogsRoot: filepath.Join(m.root, "logs")},
			Objects: syncpod.Objects{Sources: env.Sources{ConfigMaps: mem, Secrets: mem}},
		},
	}))(m)
	end := must.Run(m, m.agent.Run)
	m.off = func() { end(); conn.Close() }
	m.Cleanup(m.off)
}

// running returns the pods with a running container, by name.
func (m *machine) running() map[string]bool {
	m.Helper()
	synctest.Wait()
	running := map[string]bool{}
	for _, p := range m.agent.Pods() {
		if p.Status.Phase == v1.PodRunning {
			running[p.Pod.Name+" "+string(p.Pod.UID)] = true
		}
	}
	return running
}

func (m *machine) wantRunning(pods ...string) {
	m.Helper()
	running := m.running()
	for _, pod := range pods {
		if !running[pod] {
			m.Errorf("pod %s does not run: %v\n%v", pod, running, m.agent.Health())
		}
	}
	if len(running) != len(pods) {
		m.Errorf("running are %v, want %v", running, pods)
	}
}

// wanted is a pod with a variable from a ConfigMap and one from a Secret.
func wanted(name, uid string) *v1.Pod {
	from := func(s v1.EnvVarSource) v1.EnvVar { return v1.EnvVar{Name: "V" + strings.ToUpper(name), ValueFrom: &s} }
	return podtest.Pod(name, podtest.UID(types.UID(uid)), podtest.GracePeriod(3),
		podtest.Container("app", podtest.Script("trap 'exit 0' TERM; sleep infinity & wait"), func(c *v1.Container) {
			c.ImagePullPolicy = v1.PullIfNotPresent
			c.Env = []v1.EnvVar{
				from(v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "settings"}, Key: "conf"}}),
				from(v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "words"}, Key: "word"}}),
			}
		}))
}

func onMachine(t *testing.T, test func(m *machine)) {
	t.Helper()
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) { test(&machine{T: t, root: root, server: &server{}}) })
}

func (m *machine) set(pods ...*v1.Pod) {
	m.Helper()
	must.Do(m, m.push.Set(pods...))
	time.Sleep(20 * time.Second)
}

// A node loses its power, and boots while its server is unavailable: it runs the same pods. When
// the server is available again, pods that were deleted meanwhile stop, new pods start, and unchanged
// pods keep running.
func TestE5_BootWithoutTheServer(t *testing.T) {
	onMachine(t, func(m *machine) {
		m.boot(false)
		m.set(wanted("a", "uid-a"), wanted("b", "uid-b"))
		m.wantRunning("a uid-a", "b uid-b")
		m.off()

		m.server.is(true)
		m.boot(false)
		time.Sleep(9 * time.Second)
		m.wantRunning()
		time.Sleep(2 * time.Second)
		m.wantRunning("a uid-a", "b uid-b")
		if health := m.agent.Health(); health.OK() || !strings.Contains(health.String(), "2 pods come from the checkpoint of ") {
			t.Errorf("health is %v, want a problem with %q in it", health, "2 pods come from the checkpoint of ")
		}
		time.Sleep(48 * time.Hour)
		m.wantRunning("a uid-a", "b uid-b")

		m.server.is(false)
		before := len(m.rt.Journal())
		m.set(wanted("b", "uid-b"), wanted("c", "uid-c"))
		m.wantRunning("b uid-b", "c uid-c")
		if changes := m.rt.Journal().After(before).Pod("uid-b").Changes(); len(changes) > 0 {
			t.Errorf("the pod that is the same was disturbed:\n%v", changes)
		}
		if health := m.agent.Health(); !health.OK() {
			t.Errorf("health is %v", health)
		}
	})
}

// Only the agent is restarted, and its checkpoint differs from the running pods: a pod that is missing in the checkpoint
// is not stopped, and no pod is started twice.
func TestE5_RunningPodOutsideTheCheckpoint(t *testing.T) {
	for name, static := range map[string]bool{"static": true, "of an API server": false} {
		t.Run(name, func(t *testing.T) {
			onMachine(t, func(m *machine) {
				m.boot(static)
				m.set(wanted("a", "uid-a"))
				must.Do(t, m.push.Set(wanted("a", "uid-a"), wanted("b", "uid-b")))
				time.Sleep(20 * time.Second)
				m.wantRunning("a uid-a", "b uid-b")
				m.forget("b")
				before := len(m.rt.Journal())
				m.run(static)
				time.Sleep(time.Hour)
				if changes := m.rt.Journal().After(before).Changes(); len(changes) > 0 {
					t.Errorf("something was done to what runs:\n%v", changes)
				}
				m.set(wanted("a", "uid-a"))
				if stops := m.rt.Journal().After(before).Pod("uid-b").Of(critest.StopContainer); len(stops) == 0 {
					t.Error("the pod that the source does not want was not stopped")
				}
				m.wantRunning("a uid-a")
			})
		})
	}
}

// forget ends the agent, and has the next one remember one pod less.
func (m *machine) forget(name string) {
	m.Helper()
	m.off()
	push := source.NewPush()
	if m.push.Static() {
		push = source.NewStaticPush("http")
	}
	mem := must.Get(source.NewCheckpoint(source.CheckpointConfig{
		Source: push, Path: filepath.Join(m.root, "checkpoint", "pods"), Key: []byte("0123456789abcdef0123456789abcdef"),
	}))(m)
	var pods []*v1.Pod
	for _, p := range m.agent.Pods() {
		if p.Pod.Name != name {
			pods = append(pods, p.Pod)
		}
	}
	must.Do(m, push.Set(pods...))
	ctx, cancel := context.WithTimeout(m.Context(), time.Second)
	defer cancel()
	must.Do(m, mem.Run(ctx, func(source.Snapshot) {}))
}

// A static pod was replaced right before the agent ended, and the checkpoint has the
// old version. The old version does not start next to the running one, and replaces it only if
// the source delivers it.
func TestM1_CheckpointedVersionWaitsForTheOneThatRuns(t *testing.T) {
	for name, wins := range map[string]string{"the source wants the one that runs": "uid-2", "it wants the one before": "uid-1"} {
		t.Run(name, func(t *testing.T) {
			onMachine(t, func(m *machine) {
				m.boot(true)
				m.set(wanted("a", "uid-1"))
				path := filepath.Join(m.root, "checkpoint", "pods")
				checkpoint := readFile(t, path)
				m.set(wanted("a", "uid-2"))
				m.wantRunning("a uid-2")
				m.off()
				writeFile(t, path, checkpoint)
				m.run(true)
				time.Sleep(time.Hour)
				if n := len(m.rt.Journal().Pod("uid-1").Of(critest.StartContainer)); n != 1 {
					t.Errorf("the version before was started %d times, want once, at first", n)
				}
				m.set(wanted("a", wins))
				m.wantRunning("a " + wins)
			})
		})
	}
}

// Once the containers of the pod that is missing in the checkpoint have exited, the pod in the checkpoint starts.
func TestM1_CheckpointedVersionDoesNotWaitForEver(t *testing.T) {
	onMachine(t, func(m *machine) {
		m.boot(true)
		m.set(wanted("a", "uid-1"))
		path := filepath.Join(m.root, "checkpoint", "pods")
		checkpoint := readFile(t, path)
		m.set(wanted("a", "uid-2"))
		m.off()
		writeFile(t, path, checkpoint)
		m.run(true)
		time.Sleep(time.Minute)
		for _, c := range m.rt.Journal().Pod("uid-2").Of(critest.StartContainer) {
			must.Do(t, m.rt.ExitContainer(c.ContainerID, critest.Exit{Code: 1}))
		}
		time.Sleep(time.Minute)
		m.wantRunning("a uid-1")
	})
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	return must.Get(os.ReadFile(path))(t)
}

func writeFile(t *testing.T, path string, text []byte) {
	t.Helper()
	must.Do(t, os.WriteFile(path, text, 0o600))
}
