package syncpod_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/cgroup"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/device"
)

// cgroups records its calls.
type cgroups struct {
	calls []string
	err   error
}

// classesFunc is a function that is a sandbox.RuntimeClasses.
type classesFunc func(ctx context.Context, class string) (string, error)

func (f classesFunc) RuntimeHandler(ctx context.Context, class string) (string, error) {
	return f(ctx, class)
}

func (c *cgroups) EnsureCgroup(_ context.Context, pod *v1.Pod) (string, error) {
	c.calls = append(c.calls, "ensure")
	return "/kubepods/" + string(pod.UID), c.err
}

func (c *cgroups) RaiseCgroup(ctx context.Context, pod *v1.Pod) (string, error) {
	return c.EnsureCgroup(ctx, pod)
}

func (c *cgroups) RemovePod(context.Context, types.UID) error {
	c.calls = append(c.calls, "remove")
	return nil
}

func (*cgroups) PodsCgroup() string { return "" }

func TestCgroupsOfAPod(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		made := &cgroups{err: errors.New("no controllers")}
		n.restart(func(c *syncpod.Config) { c.Extensions.Cgroups = made })
		if _, err := n.SyncPod(t.Context(), testPod(), nil); !errors.Is(err, syncpod.ErrPreparePod) || !errors.Is(err, made.err) {
			t.Errorf("error %v", err)
		}
		made.err = nil
		n.settle(testPod(), time.Minute)
		asked := n.Journal().Of(critest.RunPodSandbox)[0].Request().(*runtimeapi.RunPodSandboxRequest)
		if got := asked.GetConfig().GetLinux().GetCgroupParent(); got != "/kubepods/"+podUID {
			t.Errorf("cgroup parent %q", got)
		}
		n.end(testPod(), nil)
		must(t, n.SyncTerminatedPod(t.Context(), testPod(), nil))
		if last := made.calls[len(made.calls)-1]; last != "remove" || slices.Index(made.calls, "remove") != len(made.calls)-1 {
			t.Errorf("calls %v, want last %q and %v", made.calls, "remove", len(made.calls)-1)
		}
	})
}

// noMounts is a part without volumes.
type noMounts struct{}

func (noMounts) Mounts(context.Context, container.MountRequest) (container.Mounts, error) {
	return container.Mounts{}, nil
}

func TestNothingRunsWithoutItsVolumes(t *testing.T) {
	for name, replace := range map[string]func(*syncpod.Config){
		"no part": func(*syncpod.Config) {}, "a part that does not know it": func(c *syncpod.Config) { c.Parts.Mounts = noMounts{} },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.restart(replace)
				for field, c := range map[string]v1.Container{
					`container "app" mounts volume "data" at /data`:              {VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: "/data"}}},
					`container "app" uses volume "disk" as the device /dev/xvda`: {VolumeDevices: []v1.VolumeDevice{{Name: "disk", DevicePath: "/dev/xvda"}}},
				} {
					n.restart(replace)
					c.Name, c.Image = "app", "registry.test/app:1"
					_, err := n.SyncPod(t.Context(), testPod(containers(c)), nil)
					if !errors.Is(err, syncpod.ErrCreateContainerConfig) || !strings.Contains(err.Error(), field) {
						t.Errorf("error %v, want %s", err, field)
					}
					w := n.report.container("app").State.Waiting
					if w == nil || w.Reason != "CreateContainerConfigError" || !strings.Contains(w.Message, field) {
						t.Errorf("reported %+v, want reason %q, and %v in the message", w, "CreateContainerConfigError", field)
					}
				}
				if n.Journal().Count(critest.CreateContainer) > 0 {
					t.Error("it was made all the same")
				}
			})
		})
	}
}

// A container whose variables, command or arguments no process could be started with waits, and
// the message names which.
func TestAContainerWithTooLongAnEnvironmentWaits(t *testing.T) {
	vars := []v1.EnvVar{{Name: "V0", Value: "x"}}
	for i := 1; i <= 10; i++ {
		vars = append(vars, v1.EnvVar{Name: fmt.Sprintf("V%d", i), Value: strings.Repeat(fmt.Sprintf("$(V%d)", i-1), 10)})
	}
	for want, c := range map[string]v1.Container{
		"variable V6": {Env: vars},
		"command[2]":  {Env: vars[:6], Command: []string{"sh", "-c", "$(V5)$(V5)"}},
		"args[1]":     {Env: vars[:6], Args: []string{"x", "$(V5)$(V5)"}},
	} {
		bubble(t, func(t *testing.T, n *node) {
			c.Name, c.Image = "app", "registry.test/app:1"
			_, err := n.SyncPod(t.Context(), testPod(containers(c)), nil)
			w := n.report.container("app").State.Waiting
			if !errors.Is(err, syncpod.ErrCreateContainerConfig) || w == nil || w.Reason != "CreateContainerConfigError" || !strings.Contains(w.Message, want) {
				t.Errorf("%s: error %.300v, reported %.300v", want, err, w)
			}
			if n.Journal().Count(critest.CreateContainer) > 0 {
				t.Errorf("%s: it was created", want)
			}
		})
	}
}

// noSecret has no pull secrets to give.
type noSecret struct{}

func (noSecret) PullSecrets(context.Context, *v1.Pod) ([]v1.Secret, error) {
	return nil, errors.New(`secret "registry" not found`)
}

func TestMissingPullSecretIsReported(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.restart(func(c *syncpod.Config) { c.Objects.PullSecrets = noSecret{} })
		n.settle(testPod(containers(ctr("app"), ctr("b"))), time.Minute)
		if told := n.events.count(`FailedToRetrieveImagePullSecret  Unable to retrieve some image pull secrets (secret "registry" not found); attempting to pull`); told != 1 {
			t.Errorf("%d events: %q", told, n.events.all)
		}
	})
}

func TestResolverOfAPod(t *testing.T) {
	cluster := sandbox.NodeDNS{Servers: []string{"192.0.2.1"}, ClusterServers: []string{"10.96.0.10"}, ClusterDomain: "cluster.local"}
	domain := sandbox.NodeDNS{ClusterDomain: "cluster.local"}
	noCluster := sandbox.NodeDNS{Servers: []string{"192.0.2.1"}}
	own := &v1.PodDNSConfig{Nameservers: []string{"192.0.2.7"}}
	many := &v1.PodDNSConfig{Nameservers: []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"}}
	given := &sandbox.Input{DNS: &runtimeapi.DNSConfig{Servers: []string{"192.0.2.9"}}, ClusterDomain: "given.local"}
	for name, tc := range map[string]struct {
		node     sandbox.NodeDNS
		policy   v1.DNSPolicy
		own      *v1.PodDNSConfig
		given    *sandbox.Input
		servers  []string
		hostname string
		warnings int
		left     bool // to the runtime
	}{
		"cluster":                      {node: cluster, policy: v1.DNSClusterFirst, servers: []string{"10.96.0.10"}, hostname: "web.sub.default.svc.cluster.local"},
		"node":                         {node: cluster, policy: v1.DNSDefault, servers: []string{"192.0.2.1"}, hostname: "web.sub.default.svc.cluster.local"},
		"left to the runtime":          {policy: v1.DNSClusterFirst, hostname: "web.sub.default.svc", left: true},
		"only a cluster domain":        {node: domain, policy: v1.DNSClusterFirst, hostname: "web.sub.default.svc.cluster.local", left: true},
		"none":                         {policy: v1.DNSNone, hostname: "web.sub.default.svc"},
		"too many of the pod's own":    {policy: v1.DNSClusterFirst, own: many, servers: many.Nameservers[:3], hostname: "web.sub.default.svc", warnings: 1},
		"only the pod's own":           {policy: v1.DNSClusterFirst, own: own, servers: []string{"192.0.2.7"}, hostname: "web.sub.default.svc"},
		"given by Prepare":             {node: cluster, policy: v1.DNSClusterFirst, given: given, servers: []string{"192.0.2.9"}, hostname: "web.sub.default.svc.given.local"},
		"a node without a cluster DNS": {node: noCluster, policy: v1.DNSClusterFirst, servers: []string{"192.0.2.1"}, hostname: "web.sub.default.svc", warnings: 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.restart(func(c *syncpod.Config) {
					c.Node.DNS = func() sandbox.NodeDNS { return tc.node }
					if tc.given != nil {
						c.Parts.Prepare = preparerFunc(func(context.Context, *v1.Pod) (sandbox.Input, error) { return *tc.given, nil })
					}
				})
				n.settle(testPod(func(p *v1.Pod) {
					p.Spec.DNSPolicy, p.Spec.DNSConfig = tc.policy, tc.own
					p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = "sub", new(true)
				}), time.Minute)
				asked := n.Journal().Of(critest.RunPodSandbox)[0].Request().(*runtimeapi.RunPodSandboxRequest).GetConfig()
				if got := asked.GetDnsConfig().GetServers(); !slices.Equal(got, tc.servers) || asked.GetHostname() != tc.hostname {
					t.Errorf("servers %v, hostname %s; want %v, %s", got, asked.GetHostname(), tc.servers, tc.hostname)
				}
				if (asked.GetDnsConfig() == nil) != tc.left {
					t.Errorf("resolver %v, want %v", asked.GetDnsConfig(), tc.left)
				}
				if n.events.count("DNS") != tc.warnings {
					t.Errorf("events %q, want %v", n.events.all, tc.warnings)
				}
			})
		})
	}
}

// With a Root a pod has its directory, /etc/hosts, volumes and termination message.
func TestRoot(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	bubble(t, func(t *testing.T, n *node) {
		n.restart(func(c *syncpod.Config) { c.Root = root })
		pod := testPod(never, containers(ctr("app", "sh", "-c", "echo hello > /scratch/x")), func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}
			p.Spec.Containers[0].TerminationMessagePath = "/dev/termination-log"
		})
		n.sync(pod)
		asked := n.Journal().Of(critest.CreateContainer)[0].Request().(*runtimeapi.CreateContainerRequest)
		mounts := map[string]string{}
		for _, m := range asked.GetConfig().GetMounts() {
			mounts[m.GetContainerPath()] = m.GetHostPath()
		}
		for _, at := range []string{"/scratch", "/etc/hosts", "/dev/termination-log"} {
			if !strings.HasPrefix(mounts[at], filepath.Join(root, "pods", podUID)) {
				t.Errorf("%s is %q", at, mounts[at])
			}
		}
		must(t, os.WriteFile(mounts["/dev/termination-log"], []byte("out of luck"), 0o644))
		for range 10 {
			if r := n.sync(pod); r.Terminal {
				break
			}
			time.Sleep(time.Second)
		}
		if got := n.report.container("app").State.Terminated; got == nil || !strings.HasSuffix(got.Message, "out of luck") {
			t.Errorf("reported %+v, want the message", got)
		}
		n.end(pod, nil)
		must(t, n.SyncTerminatedPod(t.Context(), pod, nil))
		if left, err := os.ReadDir(filepath.Join(root, "pods")); err != nil || len(left) > 0 {
			t.Errorf("left %v, %v, want nothing", left, err)
		}
		if left, err := os.ReadDir(filepath.Join(root, "records")); err != nil || len(left) > 0 {
			t.Errorf("records left %v, %v", left, err)
		}
	})
}

func TestVolumesNeedARoot(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		_, err := n.SyncPod(t.Context(), mounting(v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}), nil)
		if want := `mounts volume "data" at /data, which nothing on this node provides (no Config.Root is set)`; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	})
}

func TestRootIsAbsolute(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		_, err := syncpod.New(syncpod.Config{Client: n.Client, RuntimeName: "critest", Root: "relative"})
		if err == nil || !strings.Contains(err.Error(), "Config.Root") {
			t.Errorf("error %v, want an error and %q in it", err, "Config.Root")
		}
		if _, err := syncpod.New(syncpod.Config{Client: n.Client}); err == nil || !strings.Contains(err.Error(), "Config.RuntimeName") {
			t.Errorf("error %v, want an error and %q in it", err, "Config.RuntimeName")
		}
		if _, err := syncpod.New(syncpod.Config{Client: n.Client, RuntimeName: "critest", Root: "/x"}); err != nil {
			t.Error(err)
		}
	})
}

// The configurations of a sandbox and its containers follow the node, the agent and the pod's runtime
// class.
func TestConfigurationOfANewSandbox(t *testing.T) {
	for limited, of := range map[bool]container.Node{true: {MemoryBytes: 1 << 30}, false: {MemoryBytes: 1 << 30, NoCPUQuota: true}} {
		bubble(t, func(t *testing.T, n *node) {
			n.restart(func(c *syncpod.Config) {
				c.Node.Containers = of
				c.Objects.RuntimeClasses = classesFunc(func(_ context.Context, class string) (string, error) { return "handler-of-" + class, nil })
			})
			n.sync(testPod(func(p *v1.Pod) {
				p.Spec.RuntimeClassName = new("kata")
				p.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
			}))
			asked := n.Journal().Of(critest.RunPodSandbox)[0].Request().(*runtimeapi.RunPodSandboxRequest)
			made := n.Journal().Of(critest.CreateContainer)[0].Request().(*runtimeapi.CreateContainerRequest).GetConfig()
			if asked.GetRuntimeHandler() != "handler-of-kata" {
				t.Errorf("runtime handler %q", asked.GetRuntimeHandler())
			}
			pulled := n.Journal().Of(critest.PullImage)[0].Request().(*runtimeapi.PullImageRequest).GetImage().GetRuntimeHandler()
			if pulled != "handler-of-kata" {
				t.Errorf("the image is pulled for runtime handler %q", pulled)
			}
			if quota := asked.GetConfig().GetLinux().GetResources().GetCpuQuota(); (quota > 0) != limited {
				t.Errorf("CPU quota of the pod %d", quota)
			}
			for _, labels := range []map[string]string{asked.GetConfig().GetLabels(), made.GetLabels()} {
				if !(cri.Owner{}).Owns(labels) {
					t.Errorf("labels %v are not the agent's", labels)
				}
			}
		}, func(c *critest.Config) { c.Handlers = []string{"handler-of-kata"} })
	}
}

// If the node cannot be prepared for a pod, no sandbox or container is created.
func TestUnpreparedPod(t *testing.T) {
	cause := errors.New("no such volume")
	bubble(t, func(t *testing.T, n *node) {
		n.restart(func(c *syncpod.Config) {
			c.Parts.Prepare = preparerFunc(func(context.Context, *v1.Pod) (sandbox.Input, error) { return sandbox.Input{}, cause })
		})
		_, err := n.SyncPod(t.Context(), testPod(), nil)
		if changes := n.Journal().Changes(); !errors.Is(err, syncpod.ErrPreparePod) || !errors.Is(err, cause) || len(changes) > 0 {
			t.Errorf("error %v, calls\n%v", err, changes)
		}
	})
}

// raisingCgroups are cgroups that record resizes separately.
type raisingCgroups struct {
	cgroups
	calls func() int
}

func (c *raisingCgroups) RaiseCgroup(_ context.Context, pod *v1.Pod) (string, error) {
	c.cgroups.calls = append(c.cgroups.calls, fmt.Sprintf("raise after %d updates", c.calls()))
	return "/kubepods/" + string(pod.UID), c.err
}

func (c *raisingCgroups) EnsureCgroup(ctx context.Context, pod *v1.Pod) (string, error) {
	_, _ = c.cgroups.EnsureCgroup(ctx, pod)
	c.cgroups.calls[len(c.cgroups.calls)-1] += fmt.Sprintf(" after %d updates", c.calls())
	return "/kubepods/" + string(pod.UID), c.err
}

// In a resize the pod's limits go up before those of its containers, and down after them;
// what fails is tried again.
func TestCgroupInAResize(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		made := &raisingCgroups{calls: func() int { return n.Journal().Count(critest.UpdateContainerResources) }}
		n.restart(func(c *syncpod.Config) { c.Extensions.Cgroups = made })
		n.settle(testPod(limited("1", "1Gi")), time.Minute)
		made.cgroups.calls = nil
		n.sync(testPod(limited("2", "1Gi")))
		if want := []string{"raise after 0 updates", "ensure after 1 updates"}; !slices.Equal(made.cgroups.calls, want) {
			t.Errorf("calls %q, want %q", made.cgroups.calls, want)
		}
		made.err = errBroken
		for range 2 {
			if _, err := n.SyncPod(t.Context(), testPod(limited("2", "1Gi")), nil); !errors.Is(err, errBroken) {
				t.Errorf("error %v, want %v", err, errBroken)
			}
		}
		made.err = nil
		n.sync(testPod(limited("2", "1Gi")))
	})
}

// refused is a resize of a container that the runtime refuses.
func (n *node) refused(times int) {
	n.Fault(faults.Fault{Match: faults.Match{Method: critest.UpdateContainerResources}, Times: times, Err: errBroken})
}

// If the resize of a container fails, the limits of its pod's cgroup are not lowered: the container
// keeps its resources.
func TestCgroupStaysLargeUntilContainersAreResized(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		made := &raisingCgroups{calls: func() int { return 0 }}
		n.restart(func(c *syncpod.Config) { c.Extensions.Cgroups = made })
		n.settle(testPod(limited("2", "1Gi")), time.Minute)
		made.cgroups.calls = nil
		n.refused(1)
		if _, err := n.SyncPod(t.Context(), testPod(limited("1", "1Gi")), nil); err == nil {
			t.Fatal("the resize did not fail")
		}
		if want := []string{"raise after 0 updates"}; !slices.Equal(made.cgroups.calls, want) {
			t.Errorf("calls %q, want %q", made.cgroups.calls, want)
		}
		n.drive(testPod(limited("1", "1Gi")), time.Minute)
		if last := made.cgroups.calls[len(made.cgroups.calls)-1]; last != "ensure after 0 updates" {
			t.Errorf("calls %q, want the cgroup lowered in the end", made.cgroups.calls)
		}
	})
}

// A pod that uses more memory than its new limit keeps the old limit: this is reported, retried
// with back-off, and does not prevent starts of its containers.
func TestCgroupMemoryInUse(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		made := &fullCgroups{}
		n.restart(func(c *syncpod.Config) { c.Extensions.Cgroups = made })
		n.settle(testPod(limited("1", "2Gi")), time.Minute)
		made.full = true
		smaller := testPod(limited("1", "1Gi"))
		if _, err := n.SyncPod(t.Context(), smaller, nil); !errors.Is(err, syncpod.ErrResizePod) {
			t.Errorf("error %v, want %v", err, syncpod.ErrResizePod)
		}
		n.wantCondition(v1.PodResizeInProgress, v1.PodReasonError, "pod: the memory limit is below what is in use")
		n.exit("app", 1)
		made.ensured = nil
		n.drive(smaller, 10*time.Minute)
		n.wantStates("app 0 exited", "app 1 running")
		if len(made.ensured) < 4 || made.ensured[1].Sub(made.ensured[0]) < 9*time.Second || len(made.ensured) > 12 {
			t.Errorf("tried at %v, want at least 4 and at least %v and at most 12", made.ensured, 9*time.Second)
		}
		n.wantCondition(v1.PodResizeInProgress, v1.PodReasonError, "pod: ")
		made.full = false
		n.drive(smaller, 6*time.Minute)
		n.wantCondition(v1.PodResizeInProgress, "absent", "")
		made.full, made.ensured = true, nil
		n.sync(testPod(limited("1", "2Gi"))) // which needs nothing back
	})
}

// fullCgroups are of pods that use more memory than they may have from now on.
type fullCgroups struct {
	cgroups
	full    bool
	ensured []time.Time
}

func (c *fullCgroups) EnsureCgroup(_ context.Context, pod *v1.Pod) (string, error) {
	c.ensured = append(c.ensured, time.Now())
	if limit := pod.Spec.Containers[0].Resources.Limits.Memory().Value(); c.full && limit < 2<<30 {
		return "", fmt.Errorf("%w: so much", cgroup.ErrMemoryInUse)
	}
	return "/pods", nil
}

func (c *fullCgroups) RaiseCgroup(context.Context, *v1.Pod) (string, error) { return "/pods", nil }

// forgottenCgroups know pods by their UID alone.
type forgottenCgroups struct {
	cgroups
	removed []types.UID
}

func (c *forgottenCgroups) RemovePod(_ context.Context, uid types.UID) error {
	c.removed = append(c.removed, uid)
	return nil
}

func TestCgroupOfAForgottenPod(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		made := &forgottenCgroups{}
		n.restart(func(c *syncpod.Config) { c.Extensions.Cgroups = made })
		must(t, n.Forget(t.Context(), "u"))
		if !slices.Equal(made.removed, []types.UID{"u"}) {
			t.Errorf("removed %v, want %v", made.removed, []types.UID{"u"})
		}
		n.restart(func(c *syncpod.Config) { c.Extensions.Cgroups = &cgroups{} })
		must(t, n.Forget(t.Context(), "u"))
	})
}

// claimed are devices that a driver prepares for each pod.
type claimed struct {
	*device.Keeper
	prepare, unprepare error
	calls              []string
}

func (c *claimed) PreparePod(context.Context, *v1.Pod) error {
	c.calls = append(c.calls, "prepare")
	return c.prepare
}

func (c *claimed) UnpreparePod(context.Context, types.UID) error {
	c.calls = append(c.calls, "unprepare")
	return c.unprepare
}

// Nothing of a pod is created before its devices are prepared, and its end is not reported before they are released, because others may
// then get its claims.
func TestPreparedDevices(t *testing.T) {
	dir := t.TempDir()
	bubble(t, func(t *testing.T, n *node) {
		keeper, err := device.New(device.Config{State: dir, Allocator: noDevices{}})
		must(t, err)
		c := &claimed{Keeper: keeper, prepare: errors.New("the driver is missing")}
		n.restart(func(config *syncpod.Config) { config.Extensions.Devices = c })
		pod := testPod(never, func(p *v1.Pod) { p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu"}} })
		for range 3 { // the pause does not grow
			began := time.Now()
			r, err := n.SyncPod(t.Context(), pod, nil)
			if !errors.Is(err, c.prepare) || r.NextTry.Sub(began) != 10*time.Second || n.Journal().Count(critest.RunPodSandbox) > 0 {
				t.Errorf("%v, the next try after %v", err, r.NextTry.Sub(began))
			}
		}
		if n.events.count("FailedPrepareDynamicResources  Failed to prepare dynamic resources: the driver is missing") == 0 {
			t.Errorf("events %v", n.events.all)
		}
		c.prepare, c.unprepare = nil, errors.New("the driver is missing")
		n.settle(pod, time.Minute)
		c.prepare = errors.New("not again")
		n.exit("app", 0)
		n.sync(pod)
		err = n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: pod})
		if phase := n.report.last().Phase; !errors.Is(err, c.unprepare) || phase != v1.PodRunning || n.report.container("app").State.Terminated == nil {
			t.Errorf("%v, reported as %s", err, phase)
		}
		c.unprepare = nil
		n.end(pod, nil)
		if phase := n.report.last().Phase; phase != v1.PodSucceeded {
			t.Errorf("reported as %s", phase)
		}
	})
}

// noDevices allocates nothing.
type noDevices struct{}

func (noDevices) Allocate(context.Context, *v1.Pod, *v1.Container) (device.Allocation, error) {
	return device.Allocation{}, nil
}

func (noDevices) Release(context.Context, types.UID) error { return nil }
