package syncpod_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/volume"
)

// mounting has the container mount a volume.
func mounting(source v1.VolumeSource) *v1.Pod {
	return testPod(func(p *v1.Pod) {
		p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: source}}
		p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
	})
}

func configMap(name string) v1.VolumeSource {
	return v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: name}}}
}

// noConfigMap has no ConfigMaps.
type noConfigMap struct{}

func (noConfigMap) ConfigMap(context.Context, string, string) (*v1.ConfigMap, error) {
	return nil, env.ErrNotFound
}

// Failures that concern the whole pod appear in no container status, so they are reported as
// events: at each attempt, and not during the back-off.
func TestFailuresOfAPodAreReported(t *testing.T) {
	nfs := v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "nfs.test", Path: "/"}}
	host := v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/nosuch", Type: new(v1.HostPathDirectory)}}
	rooted := func(n *node, c *syncpod.Config) {
		c.Root, c.Objects.Sources.ConfigMaps, c.Parts.Statuses, c.Parts.Logs = n.TempDir(), noConfigMap{}, n.Reader(), nil
		c.Node.LogsRoot = filepath.Join(c.Root, "logs")
	}
	prepare := func(err error) func(*node, *syncpod.Config) {
		return func(_ *node, c *syncpod.Config) {
			c.Parts.Prepare = preparerFunc(func(context.Context, *v1.Pod) (sandbox.Input, error) { return sandbox.Input{}, err })
		}
	}
	for name, tc := range map[string]struct {
		pod    *v1.Pod
		adjust func(*node, *syncpod.Config)
		want   []string
	}{
		"no such ConfigMap": {mounting(configMap("nosuch")), rooted, []string{`FailedMount  MountVolume.SetUp failed for volume "data" : configMap "nosuch": `}},
		"NFS":               {mounting(nfs), rooted, []string{`FailedMount  MountVolume.SetUp failed for volume "data" : there is no provider of volumes of this kind`}},
		"no such path":      {mounting(host), rooted, []string{`FailedMount  MountVolume.SetUp failed for volume "data" : hostPath type check failed: Directory: `}},
		"no directory": {testPod(), func(n *node, c *syncpod.Config) {
			rooted(n, c)
			n.Must(os.WriteFile(filepath.Join(c.Root, "pods"), nil, 0o600))
		}, []string{"Failed  error making pod data directories: pod directory: mkdir "}},
		"volumes of another": {testPod(), prepare(errors.New("no driver")), []string{"FailedMount  Unable to attach or mount volumes: no driver"}},
		"several": {testPod(), prepare(fmt.Errorf("CSI: %w", errors.Join(&volume.Error{Volume: "a", Err: errBroken}, &volume.Error{Volume: "b", Err: errBroken}))),
			[]string{`FailedMount  MountVolume.SetUp failed for volume "a" : `, `FailedMount  MountVolume.SetUp failed for volume "b" : `}},
		"cgroup": {testPod(), func(_ *node, c *syncpod.Config) { c.Extensions.Cgroups = &cgroups{err: errBroken} },
			[]string{"FailedCreatePodContainer  unable to ensure pod container exists: "}},
		"resolver": {testPod(func(p *v1.Pod) { p.Spec.DNSPolicy = "Nosuch" }), func(_ *node, c *syncpod.Config) {
			c.Node.DNS = func() sandbox.NodeDNS { return sandbox.NodeDNS{Servers: []string{"192.0.2.1"}} }
		},
			[]string{"FailedCreatePodSandBox  Failed to create pod sandbox: "}},
		"FQDN is too long": {testPod(func(p *v1.Pod) {
			p.Spec.Hostname, p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = strings.Repeat("h", 63), "t", new(true)
		}), func(*node, *syncpod.Config) {},
			[]string{"FailedCreatePodSandBox  Failed to create pod sandbox: failed to construct FQDN from pod hostname and cluster domain, FQDN hhh"}},
		"status of the sandbox": {testPod(), func(n *node, _ *syncpod.Config) {
			n.Fault(faults.Fault{Match: faults.Match{Method: critest.PodSandboxStatus}, Times: 1, Err: status.Error(codes.Internal, "broken")})
		}, []string{"FailedPodSandBoxStatus  Unable to get pod sandbox status: "}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.restart(func(c *syncpod.Config) { tc.adjust(n, c) })
				told := func(times int) {
					t.Helper()
					for _, want := range tc.want {
						if n.events.count(want) != times {
							t.Errorf("%d events, want %d: %s\n%s", n.events.count(want), times, want, strings.Join(n.events.all, "\n"))
						}
					}
				}
				r, err := n.SyncPod(t.Context(), tc.pod, nil)
				if err == nil {
					t.Fatal("it has not failed")
				}
				told(1)
				_, err = n.SyncPod(t.Context(), tc.pod, nil)
				must(t, err) // it waits
				told(1)
				if name == "status of the sandbox" {
					return // it does not fail again
				}
				time.Sleep(time.Until(r.NextTry))
				n.SyncPod(t.Context(), tc.pod, nil)
				told(2)
			})
		})
	}
}

// A sandbox without an address delays a pod, which is reported once for each wait.
func TestS4_MissingAddressIsReported(t *testing.T) {
	const told = "FailedCreatePodSandBox  Failed to create pod sandbox: the sandbox has no address yet"
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		n.address("")
		for want := range 2 {
			if n.events.count(told) != want {
				t.Errorf("%d events, want %d", n.events.count(told), want)
			}
			for range 2 {
				n.SyncPod(t.Context(), testPod(), nil)
			}
		}
	})
}

// Failures to inspect or stop a pod are reported as by a kubelet.
func TestFailedStopIsReported(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopContainer}, Times: faults.Always, Err: status.Error(codes.Internal, "broken")})
		changed := testPod(func(p *v1.Pod) { p.Spec.Containers[0].Image = "registry.test/app:2" })
		if _, err := n.SyncPod(t.Context(), changed, nil); err == nil || n.events.count("FailedKillPod spec.containers{app} error killing container app: ") != 1 {
			t.Errorf("error %v, events %q", err, n.events.all)
		}
		if err := n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: testPod()}); err == nil || n.events.count("FailedKillPod  error killing pod: ") != 1 {
			t.Errorf("error %v, events %q", err, n.events.all)
		}
		n.restart(func(c *syncpod.Config) {
			c.Parts.Statuses = unclear{StatusReader: c.Parts.Statuses, read: errBroken}
		})
		if _, err := n.SyncPod(t.Context(), testPod(), nil); err == nil || n.events.count("FailedSync  error determining status: ") != 1 {
			t.Errorf("error %v, events %q", err, n.events.all)
		}
	})
}

// Failures because the agent must end cause no events.
func TestEndOfTheAgentCausesNoEvent(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		ctx, cancel := context.WithCancel(t.Context())
		n.restart(func(c *syncpod.Config) {
			c.Parts.Prepare = preparerFunc(func(context.Context, *v1.Pod) (sandbox.Input, error) {
				cancel()
				return sandbox.Input{}, ctx.Err()
			})
		})
		if _, err := n.SyncPod(ctx, testPod(), nil); err == nil || len(n.events.all) > 0 {
			t.Errorf("error %v, events %q", err, n.events.all)
		}
	})
}
