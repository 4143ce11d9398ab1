package cri_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/internal/rig/testnode"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

var errNoNetwork = status.Error(codes.Unknown, "no network")

// maker creates the sandbox of a pod, or the container in it, and counts the existing objects.
type maker struct {
	method critest.Method
	make   func(ctx context.Context) (id string, err error)
	count  func() int
}

var names = map[critest.Model]string{critest.CRIO: "cri-o", critest.Containerd2: "containerd"}

// onMakers runs a test for sandboxes, and again for containers.
func onMakers(t *testing.T, model critest.Model, f func(t *testing.T, n *testnode.Node, m maker)) {
	config := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "p", Namespace: "ns", Uid: "u"}}
	t.Run("sandbox", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := testnode.New(t, critest.Config{Like: model, Name: names[model]}).Dial(cri.Config{})
			f(t, n, maker{
				critest.RunPodSandbox,
				func(ctx context.Context) (string, error) {
					r, err := n.Client.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
					return r.GetPodSandboxId(), err
				},
				func() int {
					r, err := n.Client.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
					if err != nil {
						t.Error(err)
					}
					return len(r.GetItems())
				},
			})
		})
	})
	t.Run("container", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := testnode.New(t, critest.Config{Like: model, Name: names[model]}).Dial(cri.Config{})
			n.RunPod("other", "app") // pulls the image
			sb := must.Get(n.Client.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: config}))(t)
			f(t, n, maker{
				critest.CreateContainer,
				func(ctx context.Context) (string, error) {
					r, err := n.Client.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
						PodSandboxId: sb.PodSandboxId, SandboxConfig: config,
						Config: &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: testnode.Image}},
					})
					return r.GetContainerId(), err
				},
				func() int {
					r, err := n.Client.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
					if err != nil {
						t.Error(err)
					}
					return len(r.GetContainers())
				},
			})
		})
	})
}

// S1: a creation in CRI-O whose agent was killed does not block the next agent until the end of its
// call. The next agent gets the created object, or a new one if the creation failed.
func TestS1_AfterAnAgentThatWasKilled(t *testing.T) {
	for outcome, fault := range map[string]error{"made": nil, "failed": errNoNetwork} {
		t.Run(outcome, func(t *testing.T) {
			onMakers(t, critest.CRIO, func(t *testing.T, n *testnode.Node, m maker) {
				n.Fault(faults.Fault{Match: faults.Match{Method: m.method}, When: faults.Midway, Delay: 8 * time.Second, IgnoreCancel: true, Err: fault})
				before := m.count()
				killed, kill := context.WithTimeout(t.Context(), time.Second)
				defer kill()
				if _, err := m.make(killed); status.Code(err) != codes.DeadlineExceeded {
					t.Fatalf("%v, want %v", err, codes.DeadlineExceeded)
				}
				began := time.Now()
				id, err := m.make(t.Context())
				if took := time.Since(began); err != nil || id == "" || took > 12*time.Second {
					t.Errorf("%q, %v after %v, want an ID after %v at most", id, err, took, 12*time.Second)
				}
				if made := m.count() - before; made != 1 {
					t.Errorf("%d were made", made)
				}
			})
		})
	}
}

// A creation that takes long for a good reason is neither cancelled nor doubled by the repeated
// requests.
func TestSlowCreationIsLeftToItsRequest(t *testing.T) {
	const slow = 100 * time.Second
	for _, model := range []critest.Model{critest.CRIO, critest.Containerd2} {
		onMakers(t, model, func(t *testing.T, n *testnode.Node, m maker) {
			before := m.count()
			for _, fault := range []error{errNoNetwork, nil} {
				n.Fault(faults.Fault{Match: faults.Match{Method: m.method}, When: faults.Midway, Delay: slow, Err: fault})
				began, calls := time.Now(), n.Journal().Count(m.method)
				id, err := m.make(t.Context())
				if took := time.Since(began); (err == nil) != (fault == nil) || (id == "") != (fault != nil) || took != slow {
					t.Errorf("%q, %v after %v, want an error with a fault, and an ID without one, after %v", id, err, took, slow)
				}
				if calls = n.Journal().Count(m.method) - calls; (calls > 1) != (model == critest.CRIO) {
					t.Errorf("%d calls, want more than one only of CRI-O", calls)
				}
			}
			if made := m.count() - before; made != 1 {
				t.Errorf("%d were made", made)
			}
		})
	}
}

func TestInsistingEndsWithItsCaller(t *testing.T) {
	onMakers(t, critest.CRIO, func(t *testing.T, n *testnode.Node, m maker) {
		gate := new(faults.Gate)
		defer gate.Open()
		n.Fault(faults.Fault{Match: faults.Match{Method: m.method}, When: faults.Midway, Hang: gate})
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		began := time.Now()
		if _, err := m.make(ctx); status.Code(err) != codes.DeadlineExceeded || time.Since(began) != 15*time.Second {
			t.Errorf("%v after %v, want %v and %v", err, time.Since(began), codes.DeadlineExceeded, 15*time.Second)
		}
	})
}
