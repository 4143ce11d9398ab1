package syncpod_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod"
)

var admitAll = admitterFunc(func(context.Context, *v1.Pod) *syncpod.Rejection { return nil })

func TestNewNamesTheField(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		var good syncpod.Config
		n.restart(func(c *syncpod.Config) { good = *c })
		for field, spoil := range map[string]func(*syncpod.Config){
			"Config.Client is missing":                               func(c *syncpod.Config) { *c = syncpod.Config{} },
			"Config.Client is not connected: make it with cri.Dial":  func(c *syncpod.Config) { c.Client = &cri.Client{} },
			`Config.RuntimeName "a://b" has a colon`:                 func(c *syncpod.Config) { c.RuntimeName = "a://b" },
			`Config.RuntimeName "a/b" has`:                           func(c *syncpod.Config) { c.Client, c.RuntimeName = n.Client, "a/b" },
			"Config.RuntimeName is missing: only":                    func(c *syncpod.Config) { c.Client, c.RuntimeName = n.Client, "" },
			"Config.Extensions.Admit[1] is nil":                      func(c *syncpod.Config) { c.Extensions.Admit = []syncpod.Admitter{admitAll, nil} },
			`Config.Node.LogsRoot "logs" is not an absolute path`:    func(c *syncpod.Config) { c.Node.LogsRoot = "logs" },
			`Config.Node.LogLinks "./links" is not an absolute path`: func(c *syncpod.Config) { c.Node.LogLinks = "./links" },
			`Config.Node.HostIPs[1] "bad" is not an IP address`:      func(c *syncpod.Config) { c.Node.HostIPs = func() []string { return []string{"::1", "bad"} } },
			`Config.Node.DNS.Servers[0] "dns.example" is not an IP`: func(c *syncpod.Config) {
				c.Node.DNS = func() sandbox.NodeDNS { return sandbox.NodeDNS{Servers: []string{"dns.example"}} }
			},
			`Config.Node.DNS.ClusterServers[0] "" is not an IP address`: func(c *syncpod.Config) {
				c.Node.DNS = func() sandbox.NodeDNS { return sandbox.NodeDNS{ClusterServers: []string{""}} }
			},
			"Config.RuntimeName":                 func(c *syncpod.Config) { c.RuntimeName = "" },
			"Config.Node.Containers.MemoryBytes": func(c *syncpod.Config) { c.Node.Containers.MemoryBytes = -1 },
			"Config.Limits.StopTimeout":          func(c *syncpod.Config) { c.Limits.StopTimeout = -1 },
			"Config.Limits.CleanupTimeout":       func(c *syncpod.Config) { c.Limits.CleanupTimeout = -1 },
			"Config.Limits.MaxParallelStarts":    func(c *syncpod.Config) { c.Limits.MaxParallelStarts = -2 },
			"InitialBackOff and MaxBackOff":      func(c *syncpod.Config) { c.Limits.InitialBackOff = -1 },
			"Owner.Name":                         func(c *syncpod.Config) { c.Owner.Name = "a b" },
		} {
			c := good
			spoil(&c)
			if _, err := syncpod.New(c); err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("error %v, want one naming %s", err, field)
			}
		}
		if len(n.Journal()) > 0 {
			t.Errorf("New made calls:\n%v", n.Journal())
		}
	})
}

func TestBadInputIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		for want, pod := range map[string]*v1.Pod{
			"Pod is required": nil,
			"metadata.uid":    testPod(func(p *v1.Pod) { p.UID = "" }),
			"metadata.uid has 5000 characters, want at most 63": testPod(func(p *v1.Pod) { p.UID = types.UID(strings.Repeat("u", 5000)) }),
			"both named": testPod(containers(ctr("a"), ctr("a"))),
		} {
			if _, err := n.SyncPod(t.Context(), pod, nil); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		}
		if err := n.SyncTerminatingPod(t.Context(), syncpod.Termination{}); err == nil {
			t.Error("a termination of no pod")
		}
		if err := n.SyncTerminatedPod(t.Context(), nil, nil); err == nil {
			t.Error("no pod is tidied up")
		}
		if err := n.SyncTerminatingRuntimePod(t.Context(), syncpod.RuntimePod{}); err == nil {
			t.Error("a termination of no runtime pod")
		}
	})
}

func TestBorrowedValuesAreNotModified(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(inits(ctr("one", "true"), sidecar("proxy")), containers(preStop(postStart(ctr("app"), "true"), "true")))
		kept := pod.DeepCopy()
		for range 4 {
			status := n.status()
			same := n.status()
			_, err := n.SyncPod(t.Context(), pod, status)
			must(t, err)
			status.ObservedAt = same.ObservedAt
			if !reflect.DeepEqual(status, same) {
				t.Error("the status was changed")
			}
			synctest.Wait()
		}
		n.end(pod, nil)
		if !reflect.DeepEqual(pod, kept) {
			t.Error("the pod was changed")
		}
	})
}

func TestFinishedPodStaysFinished(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(inits(sidecar("proxy")), func(p *v1.Pod) { p.Spec.RestartPolicy = v1.RestartPolicyNever })
		n.settle(pod, time.Minute)
		n.exit("app", 0)
		if r := n.sync(pod); !r.Terminal {
			t.Errorf("result %+v, want it to be over", r)
		}
		n.end(pod, nil)
		n.wantEnded()
	})
}

func TestRestartAllRemovesTheAskingContainerLast(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(inits(ctr("one", "true")), containers(ctr("app"), ctr("b")), func(p *v1.Pod) {
			p.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{
				Action:    v1.ContainerRestartRuleActionRestartAllContainers,
				ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{88}},
			}}
		})
		n.settle(pod, time.Minute)
		n.exit("app", 88)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.RemoveContainer, Container: "b"}, Err: errBroken})
		if _, err := n.SyncPod(t.Context(), pod, nil); err == nil || n.Journal().Container("app").Count(critest.RemoveContainer) != 0 {
			t.Errorf("error %v; app was removed although b is still there", err)
		}
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopContainer, Container: "app"}, Err: errBroken}) // it runs no more
		n.settle(pod, time.Minute)
		removed := n.Journal().Of(critest.RemoveContainer)
		removed = slices.DeleteFunc(removed, func(c critest.Call) bool { return c.Err != nil })
		if len(removed) != 3 || removed[2].Container != "app" {
			t.Fatalf("removed\n%v\nwant app last of three", removed)
		}
		n.wantStates("app 1 running", "b 1 running", "one 1 exited")
	})
}

// The parts that a Client provides read and change only their agent's objects.
func TestAnotherAgentsPodIsNotTouchedThroughAClient(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		mine := n.current("app").ID.ID
		other, err := syncpod.New(syncpod.Config{Client: n.Client, RuntimeName: "critest", Owner: cri.Owner{Name: "other"}})
		must(t, err)
		must(t, other.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: testPod(), Deadline: time.Now()}))
		if n.peek(mine).String() != "CONTAINER_RUNNING" || n.readySandboxes() != 1 {
			t.Errorf("the other agent's pod was stopped\n%v", n.Journal())
		}
	})
}

func TestAnotherAgentsPodIsNotTouched(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		mine := n.current("app").ID.ID
		n.restart(func(c *syncpod.Config) { c.Owner.Name = "other" })
		if st, err := n.Reader().PodStatus(t.Context(), podUID, nil); err != nil || len(st.Containers) != 1 {
			t.Fatal(st, err)
		}
		_, err := n.SyncPod(t.Context(), testPod(), &runtime.PodStatus{UID: podUID})
		if err == nil {
			t.Error("the name of the container is taken, and that was not an error")
		}
		if n.peek(mine).String() != "CONTAINER_RUNNING" {
			t.Error("the other agent's container was stopped")
		}
	})
}

// A runtime expects to find the directory that it writes a container's log to.
func TestLogDirectoryIsThere(t *testing.T) {
	dir := t.TempDir()
	bubble(t, func(t *testing.T, n *node) {
		n.restart(func(c *syncpod.Config) { c.Node.LogsRoot, c.Parts.Logs = filepath.Join(dir, "pods"), nil })
		n.sync(testPod())
		n.wantStates("app 0 running")
	}, func(c *critest.Config) { c.Dir = dir })
}

func TestLogLink(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	t.Chdir(elsewhere)
	bubble(t, func(t *testing.T, n *node) {
		n.restart(func(c *syncpod.Config) { c.Node.LogsRoot, c.Parts.Logs = filepath.Join(dir, "pods"), nil })
		n.sync(testPod()) // without links
		must(t, n.Remove(n.current("app").ID.ID))
		n.restart(func(c *syncpod.Config) {
			c.Node.LogsRoot, c.Node.LogLinks, c.Parts.Logs = filepath.Join(dir, "pods"), filepath.Join(dir, "links"), nil
		})
		logDir := filepath.Join(dir, "pods", "default_web_"+podUID, "app")
		must(t, os.MkdirAll(logDir, 0o755))
		for _, name := range []string{"2.log", "3.log.20260101-000000", "x.log", "9.txt", "4.log"} {
			must(t, os.WriteFile(filepath.Join(logDir, name), nil, 0o644))
		}
		n.sync(testPod())
		n.wantStates("app 5 running") // one more than any log on disk
	}, func(c *critest.Config) { c.Dir = dir })
	if links, err := os.ReadDir(elsewhere); err != nil || len(links) > 0 {
		t.Errorf("links %v, %v, want none without the setting", links, err)
	}
	links, err := os.ReadDir(filepath.Join(dir, "links"))
	must(t, err)
	if len(links) != 1 || !strings.HasPrefix(links[0].Name(), "web_default_app-") {
		t.Fatalf("links %v, want one that begins with %q", links, "web_default_app-")
	}
	target, err := os.Readlink(filepath.Join(dir, "links", links[0].Name()))
	must(t, err)
	if want := filepath.Join(dir, "pods", "default_web_"+podUID, "app", "5.log"); target != want {
		t.Errorf("link to %s, want %s", target, want)
	}
}

// The links of two containers of a pod with a long name have two names.
func TestLogLinkNameKeepsTheID(t *testing.T) {
	long := testPod(func(p *v1.Pod) { p.Name, p.Namespace = strings.Repeat("p", 253), strings.Repeat("n", 63) })
	for _, id := range []string{strings.Repeat("e", 64), strings.Repeat("f", 64)} {
		name, err := syncpod.LogLinkName(long, "app", id)
		if err != nil || len(name) != 255 || !strings.HasSuffix(name, "-"+id+".log") {
			t.Errorf("%q, %v: want 255 characters that end with the ID", name, err)
		}
	}
	if name, err := syncpod.LogLinkName(long, "app", strings.Repeat("f", 251)); err == nil {
		t.Errorf("the name %q for an ID that leaves no place", name)
	}
}

func TestLogLinkName(t *testing.T) {
	long := testPod(func(p *v1.Pod) { p.Name = strings.Repeat("p", 253) })
	name, err := syncpod.LogLinkName(long, "app", strings.Repeat("f", 64))
	if err != nil || len(name) != 255 || !strings.HasSuffix(name, ".log") {
		t.Errorf("%d characters: %s, %v, want 255 that end with %q", len(name), name, err, ".log")
	}
	for _, bad := range []*v1.Pod{nil, testPod(func(p *v1.Pod) { p.Name = "../x" }), testPod(func(p *v1.Pod) { p.Namespace = "" })} {
		if name, err := syncpod.LogLinkName(bad, "app", "id"); err == nil {
			t.Errorf("%q is a name", name)
		}
	}
}

// A Syncer needs only a Client: it uses it to run handlers and to resize in place.
func TestClientAlone(t *testing.T) {
	logs := t.TempDir()
	bubble(t, func(t *testing.T, n *node) {
		s, err := syncpod.New(syncpod.Config{Client: n.Client, RuntimeName: "critest", Node: syncpod.Node{LogsRoot: logs}})
		must(t, err)
		pod := testPod(limited("1", "1Gi"), func(p *v1.Pod) { p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: exec("true")} })
		for _, cpu := range []string{"1", "2"} {
			limited(cpu, "1Gi")(pod)
			_, err := s.SyncPod(t.Context(), pod, nil)
			must(t, err)
		}
		if j := n.Journal(); j.Count(critest.ExecSync) != 1 || j.Count(critest.UpdateContainerResources) != 1 {
			t.Errorf("calls, want 1 and 1\n%v", j)
		}
	})
}

// The text of a failure names the container or the pod, and the cause if there is one.
func TestTextOfAStepError(t *testing.T) {
	app := actions.ContainerRef{Kind: actions.RegularContainer, Name: "app"}
	for want, e := range map[string]*syncpod.StepError{
		"pod: CreatePodSandboxError: CreatePodSandboxError": {Reason: syncpod.ErrCreatePodSandbox},
		`container "app": RunContainerError: full`:          {Reason: syncpod.ErrRunContainer, Container: app, Err: errors.New("full")},
	} {
		if got := e.Error(); got != want || !errors.Is(e, e.Reason) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
