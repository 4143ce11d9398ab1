package syncpod_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod"
)

// address sets or takes away the address of the pod's sandbox.
func (n *node) address(ip string) {
	n.Helper()
	n.Must(n.EditSandbox(n.status().LatestSandbox().ID, func(s *runtimeapi.PodSandboxStatus) {
		s.Network = &runtimeapi.PodSandboxNetworkStatus{Ip: ip}
	}))
}

// S4: a single status without an address neither replaces the sandbox nor fails a pod that
// may run only once; pending work in the sandbox is done. A pod that stays without
// an address gets another sandbox, once for each step of the back-off.
func TestS4_RunningPodLosesItsAddress(t *testing.T) {
	for name, policy := range map[string]v1.RestartPolicy{"Always": v1.RestartPolicyAlways, "Never": v1.RestartPolicyNever} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				pod := testPod(containers(ctr("app"), ctr("b")), func(p *v1.Pod) { p.Spec.RestartPolicy = policy })
				n.settle(pod, time.Minute)
				ip := n.status().IPs()[0]
				for _, restarted := range []bool{false, true} {
					if restarted {
						n.restart()
					}
					n.address("")
					r := n.sync(pod)
					if r.Terminal || r.Plan.KillPod || r.NextTry.IsZero() {
						t.Errorf("restarted %t: result %+v, want to wait", restarted, r)
					}
					time.Sleep(9 * time.Second)
					n.sync(pod)
					n.wantStates("app 0 running", "b 0 running")
					n.address(ip)
					if r := n.sync(pod); !r.Plan.NoOp() || !r.NextTry.IsZero() {
						t.Errorf("result %+v with the address back", r)
					}
				}
				time.Sleep(time.Hour)
				n.address("")
				lent := n.status()
				r, err := n.SyncPod(t.Context(), pod, lent)
				must(t, err)
				if r.Terminal || r.Plan.KillPod || lent.LatestSandbox().Network == nil {
					t.Errorf("result %+v the second time, want to wait; lent %+v", r, lent.LatestSandbox())
				}
				time.Sleep(10 * time.Second)
				r = n.sync(pod)
				if policy == v1.RestartPolicyNever {
					if !r.Terminal {
						t.Errorf("result %+v, want the pod to be over", r)
					}
					return
				}
				n.wantStates("app 0 exited", "app 1 running", "b 0 exited", "b 1 running")
			})
		})
	}
}

func TestS4_WaitingForAnAddressDelaysStartsOnly(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(containers(ctr("app"), ctr("b")))
		n.settle(pod, time.Minute)
		n.address("")
		changed := testPod(containers(ctr("app"), ctr("b")))
		changed.Spec.Containers[0].Image = "registry.test/app:2"
		n.sync(changed)
		n.wantStates("app 0 exited", "b 0 running")
		n.address("10.0.0.9")
		n.settle(changed, time.Minute)
		n.wantStates("app 0 exited", "app 1 running", "b 0 running")
	})
}

func TestS4_RecreatedAtMostOncePerBackOffStep(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, Times: faults.Always, IPAfter: faults.Never})
		for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
			n.SyncPod(t.Context(), testPod(), nil)
		}
		want := []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second}
		got := n.gaps(critest.RunPodSandbox)
		if len(got) != len(want) {
			t.Fatalf("sandboxes %v apart, want %v", got, want)
		}
		for i := range want {
			if got[i] < want[i] || got[i] > want[i]+2*time.Second {
				t.Errorf("sandboxes %v apart, want %v", got, want)
			}
		}
	})
}

// S1: a sandbox that appears late, next to the one in use, is removed before it
// makes the pod start over.
func TestS1_LateSandboxIsRemovedFirst(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, When: faults.Midway, Delay: time.Hour, IgnoreCancel: true})
		for end := time.Now().Add(50 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
			if r, err := n.SyncPod(t.Context(), testPod(), n.status()); err == nil && r.Plan.NoOp() {
				break
			}
		}
		n.wantStates("app 0 running")
		mine := n.status().LatestSandbox()
		for _, c := range n.Journal().Of(critest.CreateContainer) {
			if got := c.Request().(*runtimeapi.CreateContainerRequest).GetSandboxConfig().GetMetadata().GetAttempt(); got != mine.Attempt {
				t.Errorf("a container was made for sandbox %d, the pod has %d", got, mine.Attempt)
			}
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if ready := n.readySandboxes(); ready != 2 {
			t.Fatalf("%d sandboxes are ready, want the late one, too", ready)
		}
		if r, err := n.SyncPod(t.Context(), testPod(), n.status()); err != nil || !r.Plan.NoOp() {
			t.Errorf("result %+v, %v", r, err)
		}
		n.wantStates("app 0 running")
		if s := n.status(); n.readySandboxes() != 1 || s.ActiveSandbox() == nil || s.ActiveSandbox().ID != mine.ID {
			t.Errorf("sandboxes %+v, want only %v ready and active", s.Sandboxes, mine.ID)
		}
	}, func(c *critest.Config) { c.Like = critest.Containerd2 })
}

// S1: also if the late one has the higher attempt, and would pass for the latest.
func TestS1_SandboxInUseIsKept(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		first, second := &faults.Gate{}, &faults.Gate{}
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, When: faults.Midway, Hang: first, IgnoreCancel: true})
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox, If: func(c critest.Call) bool {
			if c.Attempt == 1 {
				first.Open()
			}
			return c.Attempt == 1
		}}, When: faults.Midway, Hang: second, IgnoreCancel: true})
		n.settle(testPod(), time.Hour)
		n.wantStates("app 0 running")
		mine := n.status().LatestSandbox()
		if mine.Attempt != 0 {
			t.Fatalf("the pod uses sandbox %d, want the one that came late", mine.Attempt)
		}
		second.Open()
		synctest.Wait()
		r, err := n.SyncPod(t.Context(), testPod(), n.status())
		if s := n.status().ActiveSandbox(); err != nil || !r.Plan.NoOp() || s == nil || s.ID != mine.ID {
			t.Errorf("uses %+v, want %+v; result %+v, %v", s, mine, r, err)
		}
		n.wantStates("app 0 running")
	}, func(c *critest.Config) { c.Like = critest.Containerd2 })
}

// A pod in the node's network has the node's addresses.
func TestAddressesOfTheNodesNetwork(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.restart(func(c *syncpod.Config) { c.Node.HostIPs = func() []string { return []string{"192.0.2.1"} } })
		pod := testPod(func(p *v1.Pod) {
			p.Spec.HostNetwork, p.Spec.SecurityContext = true, &v1.PodSecurityContext{}
			p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "IP", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "status.podIP"}}}}
		})
		n.settle(pod, time.Minute)
		asked := n.Journal().Of(critest.CreateContainer)[0].Request().(*runtimeapi.CreateContainerRequest).GetConfig()
		if e := asked.GetEnvs(); len(e) == 0 || e[0].GetKey() != "IP" || string(e[0].GetValue()) != "192.0.2.1" {
			t.Errorf("environment %v, want %q with the value %q first", e, "IP", "192.0.2.1")
		}
	})
}

// E5: addresses and name servers of the node may change while it runs: each status and each sandbox has those of its time. A pod
// in the node's network keeps its address, as with a kubelet.
func TestE5_AddressesOfTheNodeChange(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		address, server := "192.0.2.1", "192.0.2.10"
		n.restart(func(c *syncpod.Config) {
			c.Node.HostIPs = func() []string { return []string{address} }
			c.Node.DNS = func() sandbox.NodeDNS { return sandbox.NodeDNS{Servers: []string{server}} }
		})
		pod := testPod(func(p *v1.Pod) {
			p.Spec.HostNetwork, p.Spec.SecurityContext, p.Spec.DNSPolicy = true, &v1.PodSecurityContext{}, v1.DNSDefault
		})
		n.settle(pod, time.Minute)
		address, server = "192.0.2.2", "192.0.2.20"
		must(t, n.EditSandbox(n.status().Sandboxes[0].ID, func(s *runtimeapi.PodSandboxStatus) { s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY }))
		n.settle(pod, time.Minute)
		if s := n.report.last(); s.HostIP != address || len(s.HostIPs) != 1 || s.HostIPs[0].IP != address || s.PodIP != "192.0.2.1" {
			t.Errorf("addresses %q, %v, %q of the pod; want %q and 192.0.2.1", s.HostIP, s.HostIPs, s.PodIP, address)
		}
		for i, want := range []string{"192.0.2.10", "192.0.2.20"} {
			asked := n.Journal().Of(critest.RunPodSandbox)[i].Request().(*runtimeapi.RunPodSandboxRequest).GetConfig()
			if got := asked.GetDnsConfig().GetServers(); len(got) != 1 || got[0] != want {
				t.Errorf("sandbox %d has the servers %q, want %q", i, got, want)
			}
		}
	})
}

// S4: once the address has arrived, the back-off is reset: a later failure waits as long as the first
// one.
func TestS4_AddressEndsTheBackOff(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		ip := n.status().IPs()[0]
		n.address("")
		n.sync(testPod())
		n.address(ip)
		n.sync(testPod())
		must(t, n.EditSandbox(n.status().Sandboxes[0].ID, func(s *runtimeapi.PodSandboxStatus) { s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY }))
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, Err: errBroken})
		if r, err := n.SyncPod(t.Context(), testPod(), nil); err == nil || time.Until(r.NextTry) != 10*time.Second {
			t.Errorf("error %v, next try in %v, want 10s", err, time.Until(r.NextTry))
		}
	})
}

// reader reports new sandboxes.
type reader struct {
	syncpod.StatusReader
	edit func(*runtime.SandboxStatus) error
}

func (r reader) SandboxStatus(ctx context.Context, id string) (runtime.SandboxStatus, error) {
	s, err := r.StatusReader.SandboxStatus(ctx, id)
	err = errors.Join(err, r.edit(&s))
	return s, err
}

// S4: if a runtime reports no network, the agent does not wait for an address. No container
// starts in a sandbox that cannot be inspected.
func TestS4_EventsOfANewSandbox(t *testing.T) {
	cause := errors.New("no answer")
	for want, edit := range map[error]func(*runtime.SandboxStatus) error{
		nil:   func(s *runtime.SandboxStatus) error { s.Network = nil; return nil },
		cause: func(*runtime.SandboxStatus) error { return cause },
	} {
		t.Run(fmt.Sprint(want), func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.restart(func(c *syncpod.Config) { c.Parts.Statuses = reader{c.Parts.Statuses, edit} })
				_, err := n.SyncPod(t.Context(), testPod(), nil)
				if !errors.Is(err, want) || (n.Journal().Count(critest.StartContainer) == 0) != (want != nil) {
					t.Errorf("error %v, want error %v, and a start only without one\n%v", err, want, n.Journal())
				}
			})
		})
	}
}

// A pod has its address in its status while its images are pulled.
func TestAddressIsReportedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.PullImage}, Hang: &faults.Gate{}})
		time.AfterFunc(5*time.Second, func() {
			if s := n.report.last(); s.PodIP == "" {
				t.Errorf("reported %+v, want an address", s)
			}
		})
		n.SyncPod(giveUp(t, 10*time.Second), testPod(), nil)
	})
}
