package run_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/sandbox/run"
)

// whereTheLateAreListed runs a test in virtual time on a runtime that lists sandboxes that
// appear after the cancellation of the call. Other runtimes return them only for a repeated request.
func whereTheLateAreListed(t *testing.T, f func(t *testing.T, n *node)) {
	synctest.Test(t, func(t *testing.T) { f(t, newNode(t, critest.Containerd2)) })
}

// hang makes the next creation of an attempt continue in the runtime until the gate opens.
func (n *node) hang(attempt uint32) *faults.Gate {
	n.Helper()
	late := &faults.Gate{}
	ofAttempt := func(c critest.Call) bool { return c.Attempt == attempt }
	n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox, If: ofAttempt}, When: faults.Midway, Hang: late, IgnoreCancel: true})
	return late
}

// comesUpUnnoticed creates a sandbox with attempt 0 that is unresolved for the
// Runner.
func (n *node) comesUpUnnoticed() (id string) {
	n.Helper()
	lost := status.Error(codes.Unavailable, "lost")
	n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, When: faults.After, Err: lost})
	n.Fault(faults.Fault{Match: faults.Match{Method: critest.ListPodSandbox}, Err: lost})
	if _, err := n.createFrom(0); !errors.Is(err, cri.ErrUnavailable) {
		n.Fatal(err)
	}
	all := n.Sandboxes()
	if len(all) != 1 {
		n.Fatalf("there are %v", all)
	}
	return all[0].GetId()
}

// givesUpEarly makes the Runner give up an attempt after one failed retry.
func (n *node) givesUpEarly(change ...func(*run.Config)) {
	n.Helper()
	c := run.Config{Runtime: n.Client, NameReservedRetries: 1}
	for _, f := range change {
		f(&c)
	}
	n.runner = must.Get(run.New(c))(n)
}

// dies makes a sandbox not ready, as if its process had died.
func (n *node) dies(id string) {
	n.EditSandbox(id, func(s *runtimeapi.PodSandboxStatus) { s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY })
}

// createFrom creates with a lowest attempt.
func (n *node) createFrom(attempt uint32) (run.Created, error) {
	config := podConfig()
	config.Metadata.Attempt = attempt
	return n.runner.Create(n.Context(), config, "")
}

func (n *node) wantUnresolved(want bool) {
	n.Helper()
	if got := n.runner.Unresolved("u"); got != want {
		n.Errorf("unresolved: %v, want %v\n%v", got, want, n.Journal())
	}
}

// Create does not remove sandboxes that it did not
// request.
func TestCreateRemovesNothingItDidNotBegin(t *testing.T) {
	for _, code := range []codes.Code{codes.InvalidArgument, codes.Internal, codes.Unavailable} {
		bothStyles(t, func(t *testing.T, n *node) {
			used := must.Get(n.createFrom(2))(t)
			n.runner = n.newRunner(cri.Owner{}) // the agent has restarted
			n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, Err: status.Error(code, "x")})
			if _, err := n.createFrom(0); err == nil {
				t.Fatal("no error")
			}
			n.onlyReady(used)
		})
	}
}

// A used and exited sandbox of an unresolved attempt belongs to the history when a
// later attempt is requested.
func TestCreateLeavesHistoryOfADoubtAlone(t *testing.T) {
	bothStyles(t, func(t *testing.T, n *node) {
		must.Do(t, n.runner.Stop(t.Context(), n.comesUpUnnoticed()))
		c, err := n.createFrom(1)
		if err != nil || c.Attempt != 1 || c.Adopted {
			t.Fatalf("%+v, %v, want attempt 1, not adopted", c, err)
		}
		n.onlyReady(c)
		if all := n.Sandboxes(); len(all) != 2 {
			t.Errorf("%d sandboxes, want the stopped one too\n%v", len(all), n.Journal())
		}
		n.wantUnresolved(false)
	})
}

// S1 (c): a sandbox that is no longer wanted is not adopted either.
func TestS1_LowerAttemptIsNotAdopted(t *testing.T) {
	bothStyles(t, func(t *testing.T, n *node) {
		n.comesUpUnnoticed()
		c, err := n.createFrom(1)
		if err != nil || c.Attempt != 1 || c.Adopted {
			t.Errorf("%+v, %v; the lowest allowed is 1", c, err)
		}
		n.onlyReady(c)
	})
}

// S1 (a): the sandbox of a given-up attempt appears next to its replacement.
func TestS1_AbandonedSandboxAppearsLater(t *testing.T) {
	whereTheLateAreListed(t, func(t *testing.T, n *node) {
		late := n.hang(0)
		c := n.create(10)
		if c.Attempt != 1 {
			t.Fatalf("%+v, want attempt 0 given up", c)
		}
		n.resolve(c.ID)
		n.wantUnresolved(true)
		late.Open()
		n.onlyReady(c)
		n.wantUnresolved(false)
		calls := n.Journal().Count()
		n.resolve(c.ID)
		if more := n.Journal().Count() - calls; more != 0 {
			t.Errorf("%d calls with nothing unresolved", more)
		}
	})
}

// S1 (a): of two unresolved attempts, the sandbox of the lower appears first, and is adopted.
func TestS1_HigherAttemptAppearsAfterTheLowerWasAdopted(t *testing.T) {
	for name, dead := range map[string]bool{"ready": false, "dead": true} {
		t.Run(name, func(t *testing.T) {
			whereTheLateAreListed(t, func(t *testing.T, n *node) {
				late0, late1 := n.hang(0), n.hang(1)
				defer n.OnCall(func(_ int, c critest.Call) {
					if c.Method == critest.RunPodSandbox && c.Attempt == 1 {
						late0.Open()
					}
				})()
				c := n.create(10)
				if c.Attempt != 0 || !c.Adopted {
					t.Fatalf("%+v, want attempt 0", c)
				}
				late1.Open()
				time.Sleep(time.Hour)
				for _, s := range n.Sandboxes() {
					if dead && s.GetId() != c.ID {
						n.dies(s.GetId())
					}
				}
				n.onlyReady(c)
				// One that died would pass for the pod's latest.
				if all := n.Sandboxes(); len(all) != 1 {
					t.Errorf("there are %v", all)
				}
				n.wantUnresolved(false)
			})
		})
	}
}

// S1 (a): the higher of two late sandboxes is adopted, regardless of the order of the
// list.
func TestS1_OfTwoLateTheHigherIsAdopted(t *testing.T) {
	for name, turn := range map[string]func([]*runtimeapi.PodSandbox){"oldest first": func([]*runtimeapi.PodSandbox) {}, "newest first": slices.Reverse[[]*runtimeapi.PodSandbox]} {
		t.Run(name, func(t *testing.T) {
			whereTheLateAreListed(t, func(t *testing.T, n *node) {
				n.runner = must.Get(run.New(run.Config{Runtime: listOrder{n.Client, turn}, NameReservedRetries: 1}))(t)
				late0, late1 := n.hang(0), n.hang(1)
				for range 3 {
					if c, err := n.createFrom(0); err == nil {
						t.Fatalf("%+v\n%v", c, n.Journal())
					}
				}
				late0.Open()
				late1.Open()
				time.Sleep(time.Hour)
				c := n.create(1)
				if c.Attempt != 1 || !c.Adopted {
					t.Errorf("%+v, want attempt 1 adopted\n%v", c, n.Journal())
				}
				n.onlyReady(c)
			})
		})
	}
}

// listOrder is a runtime that lists sandboxes in a given order.
type listOrder struct {
	run.Runtime
	turn func([]*runtimeapi.PodSandbox)
}

func (l listOrder) ListPodSandbox(ctx context.Context, req *runtimeapi.ListPodSandboxRequest, opts ...grpc.CallOption) (*runtimeapi.ListPodSandboxResponse, error) {
	resp, err := l.Runtime.ListPodSandbox(ctx, req, opts...)
	l.turn(resp.GetItems())
	return resp, err
}

// Adopting a lower attempt does not lead back to a name that stays taken.
func TestAbandonedAttemptIsNotRequestedAgain(t *testing.T) {
	whereTheLateAreListed(t, func(t *testing.T, n *node) {
		n.givesUpEarly()
		late := n.hang(0)
		n.hang(1)
		for range 4 {
			if c, err := n.createFrom(0); err == nil {
				t.Fatalf("%+v\n%v", c, n.Journal())
			}
		}
		late.Open()
		time.Sleep(time.Hour)
		c := n.create(1)
		if c.Attempt != 0 {
			t.Fatalf("%+v, want attempt 0 adopted\n%v", c, n.Journal())
		}
		must.Do(t, n.runner.Remove(t.Context(), c.ID))
		if c = n.create(1); c.Attempt != 2 {
			t.Errorf("%+v, want attempt 2", c)
		}
		n.onlyReady(c)
	})
}

// A sandbox that an embedder has found and uses is not an orphan, not even after its death.
func TestResolveKeepsUsedObjects(t *testing.T) {
	bothStyles(t, func(t *testing.T, n *node) {
		id := n.comesUpUnnoticed()
		n.wantUnresolved(true)
		n.onlyReady(run.Created{ID: id})
		n.wantUnresolved(false)
		if c := n.create(1); c.Attempt != 1 {
			t.Errorf("%+v: attempt 0 is taken", c)
		}
	})
	bothStyles(t, func(t *testing.T, n *node) {
		n.dies(n.comesUpUnnoticed())
		n.resolve("")
		if all := n.Sandboxes(); len(all) != 1 {
			t.Errorf("history removed\n%v", n.Journal())
		}
		n.wantUnresolved(false)
	})
}

// A pod that uses no sandbox needs no ready one.
func TestResolveWithoutASandboxInUse(t *testing.T) {
	bothStyles(t, func(t *testing.T, n *node) {
		n.comesUpUnnoticed()
		n.resolve("")
		if all := n.Sandboxes(); len(all) != 0 {
			t.Errorf("there are %v", all)
		}
	})
}

// A removal that fails is unresolved still, and made up for.
func TestResolveTriesAgain(t *testing.T) {
	whereTheLateAreListed(t, func(t *testing.T, n *node) {
		late := n.hang(0)
		c := n.create(10)
		late.Open()
		time.Sleep(time.Hour)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopPodSandbox}, Times: 7, Err: status.Error(codes.Unknown, "CNI DEL failed")})
		began := time.Now()
		err := n.runner.Resolve(t.Context(), "u", c.ID)
		if took := time.Since(began); err == nil || took != time.Minute {
			t.Errorf("after %v: %v; want an error after a minute", took, err)
		}
		n.wantUnresolved(true)
		n.onlyReady(c)
		n.wantUnresolved(false)
	})
}

// A sandbox that cannot be removed prevents neither the removal of the others nor the adoption of the ready
// one. The log does not have the runtime's text, which may repeat values of Secrets.
func TestResolveContinuesAfterAFailure(t *testing.T) {
	whereTheLateAreListed(t, func(t *testing.T, n *node) {
		var log strings.Builder
		n.givesUpEarly(func(c *run.Config) {
			c.Log = funcr.New(func(_, line string) { log.WriteString(line) }, funcr.Options{})
		})
		gates := []*faults.Gate{n.hang(0), n.hang(1), n.hang(2)}
		for range 2 * len(gates) {
			if c, err := n.createFrom(0); err == nil {
				t.Fatalf("%+v\n%v", c, n.Journal())
			}
		}
		for _, g := range gates {
			g.Open()
		}
		time.Sleep(time.Hour)
		for _, s := range n.Sandboxes() {
			if s.GetMetadata().GetAttempt() < 2 {
				n.dies(s.GetId())
			}
		}
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopPodSandbox}, Times: faults.Always, Err: status.Error(codes.Unknown, "CNI DEL failed")})
		c, err := n.createFrom(0)
		if err != nil || c.Attempt != 2 || !c.Adopted {
			t.Errorf("%+v, %v; want the one that is ready\n%v", c, err, n.Journal())
		}
		tried := map[string]bool{}
		for _, c := range n.Journal().Of(critest.StopPodSandbox) {
			tried[c.SandboxID] = true
		}
		if len(tried) != 2 {
			t.Errorf("%d of 2 dead sandboxes were tried\n%v", len(tried), n.Journal())
		}
		if text := log.String(); !strings.Contains(text, "remain") || strings.Contains(text, "CNI DEL") {
			t.Errorf("%s, want a line without the text of the runtime", text)
		}
		n.onlyReady(c)
	})
}
