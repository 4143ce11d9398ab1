package run_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/internal/rig/testnode"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/sandbox/run"
)

// node is a node with a Runner on it.
type node struct {
	*testnode.Node
	runner *run.Runner
}

func newNode(t *testing.T, model critest.Model) *node {
	t.Helper()
	n := &node{Node: testnode.New(t, critest.Config{Like: model, Handlers: []string{"kata"}})}
	n.runner = n.newRunner(cri.Owner{})
	return n
}

func (n *node) newRunner(o cri.Owner) *run.Runner {
	n.Helper()
	return must.Get(run.New(run.Config{Runtime: n.Client, Owner: o}))(n)
}

// ready returns the attempts of the ready sandboxes.
func (n *node) ready() (attempts []uint32) {
	n.Helper()
	for _, s := range n.Sandboxes() {
		if s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY {
			attempts = append(attempts, s.GetMetadata().GetAttempt())
		}
	}
	return attempts
}

// create creates until it succeeds, with pauses of 10 s.
func (n *node) create(tries int) run.Created {
	n.Helper()
	var err error
	for range tries {
		var c run.Created
		if c, err = n.runner.Create(n.Context(), podConfig(), ""); err == nil {
			return c
		}
		time.Sleep(10 * time.Second)
	}
	n.Fatalf("no sandbox after %d tries: %v\n%v", tries, err, n.Journal())
	return run.Created{}
}

// onlyReady checks that the created sandbox is the only ready one, after all late sandboxes have
// appeared and the pod has been inspected again.
func (n *node) onlyReady(c run.Created) {
	n.Helper()
	time.Sleep(time.Hour)
	n.resolve(c.ID)
	if got := n.ready(); len(got) != 1 || got[0] != c.Attempt {
		n.Errorf("ready are attempts %v, want %d alone\n%v", got, c.Attempt, n.Journal())
	}
}

func (n *node) resolve(keep string) {
	n.Helper()
	must.Do(n, n.runner.Resolve(n.Context(), "u", keep))
}

// looksFirst checks S1 (b): between a failed RunPodSandbox and the next one,
// the sandboxes are listed.
func (n *node) looksFirst() {
	n.Helper()
	blind := false
	for _, c := range n.Journal() {
		switch c.Method {
		case critest.RunPodSandbox:
			if blind {
				n.Errorf("asked again without looking: %v\n%v", c, n.Journal())
			}
			blind = true
		case critest.ListPodSandbox:
			blind = false
		}
	}
}

func podConfig() *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "p", Namespace: "ns", Uid: "u"},
		Labels:   map[string]string{runtime.LabelPodName: "p", runtime.LabelPodNamespace: "ns", runtime.LabelPodUID: "u"},
	}
}

// bothStyles runs a test in virtual time for each way in which runtimes treat a taken name.
func bothStyles(t *testing.T, f func(t *testing.T, n *node)) {
	for name, model := range map[string]critest.Model{"reserved": critest.Containerd2, "returned": critest.CRIO} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, newNode(t, model)) })
		})
	}
}

func TestCreate(t *testing.T) {
	bothStyles(t, func(t *testing.T, n *node) {
		config := podConfig()
		before := proto.CloneOf(config)
		c, err := n.runner.Create(t.Context(), config, "")
		if err != nil || c.Attempt != 0 || c.Adopted {
			t.Fatalf("%+v, %v, want attempt 0, not adopted", c, err)
		}
		if !proto.Equal(config, before) {
			t.Error("the config was written to")
		}
		if calls := n.Journal().Count(); calls != 1 {
			t.Errorf("%d calls, want one\n%v", calls, n.Journal())
		}
		resp, err := n.Client.PodSandboxStatus(t.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: c.ID})
		if err != nil || !(cri.Owner{}).Owns(resp.GetStatus().GetLabels()) {
			t.Errorf("the sandbox does not carry the owner's mark: %v, %v", resp.GetStatus().GetLabels(), err)
		}
		// By now, the same attempt belongs to another sandbox, if it is requested again (C2).
		must.Do(t, n.runner.Remove(t.Context(), c.ID))
		if c = n.create(1); c.Attempt != 1 {
			t.Errorf("the second sandbox is attempt %d", c.Attempt)
		}
		n.runner.Forget("u")
		must.Do(t, n.runner.Remove(t.Context(), c.ID))
		if c = n.create(1); c.Attempt != 0 {
			t.Errorf("attempt %d after Forget", c.Attempt)
		}
	})
}

func TestCreateValidates(t *testing.T) {
	bothStyles(t, func(t *testing.T, n *node) {
		other, unnamed := podConfig(), podConfig()
		other.Labels[runtime.LabelPodUID], unnamed.Metadata.Uid = "v", ""
		for want, config := range map[string]*runtimeapi.PodSandboxConfig{
			"metadata.uid is empty": nil, "config.metadata.uid": unnamed, runtime.LabelPodUID: other,
		} {
			if _, err := n.runner.Create(t.Context(), config, ""); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v; want an error that says %s", err, want)
			}
		}
		r := must.Get(run.New(run.Config{Runtime: n.Client, MakeLogDirectory: func(path string) error { return errors.New("read-only " + path) }}))(t)
		config := podConfig()
		config.LogDirectory = "/logs"
		if _, err := r.Create(t.Context(), config, ""); err == nil || !strings.Contains(err.Error(), "read-only /logs") || n.Journal().Count() != 0 {
			t.Errorf("without a log directory: %v\n%v", err, n.Journal())
		}
	})
}

// S1 (a)-(d): the runtime continues after the client's timeout. Retries find the
// name taken until the sandbox exists, and then adopt it. CRI-O blocks each retry until
// its deadline, here half a minute.
func TestS1_LateSuccess(t *testing.T) {
	bothStyles(t, func(t *testing.T, n *node) {
		late := &faults.Gate{}
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, When: faults.Midway, Hang: late, IgnoreCancel: true})
		time.AfterFunc(4*time.Minute+15*time.Second, late.Open)
		began := time.Now()
		c := n.create(5)
		if c.Attempt != 0 {
			t.Errorf("attempt %d, want the one that came late", c.Attempt)
		}
		if took := time.Since(began); took > 4*time.Minute+55*time.Second {
			t.Errorf("took %v, want at most a pause more than the runtime", took)
		}
		n.onlyReady(c)
		n.looksFirst()
	})
}

// S1 (c): the sandbox was created, and only the answer was lost.
func TestS1_LostAnswer(t *testing.T) {
	for _, code := range []codes.Code{codes.DeadlineExceeded, codes.Unavailable} {
		bothStyles(t, func(t *testing.T, n *node) {
			n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, When: faults.After, Err: status.Error(code, "lost")})
			c, err := n.runner.Create(t.Context(), podConfig(), "")
			if err != nil || !c.Adopted || c.Attempt != 0 {
				t.Errorf("%+v, %v; want the sandbox that is there", c, err)
			}
			n.onlyReady(c)
		})
	}
}

// S1 (c): a sandbox that is not ready is stopped and removed.
func TestS1_LostAnswerOfADeadSandbox(t *testing.T) {
	bothStyles(t, func(t *testing.T, n *node) {
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, When: faults.After, Err: status.Error(codes.Unavailable, "restarting")})
		stop := n.OnCall(func(_ int, c critest.Call) {
			if c.Method == critest.RunPodSandbox {
				n.EditSandbox(n.Sandboxes()[0].Id, func(s *runtimeapi.PodSandboxStatus) { s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY })
			}
		})
		_, err := n.runner.Create(t.Context(), podConfig(), "")
		stop()
		if !errors.Is(err, cri.ErrUnavailable) {
			t.Errorf("%v, want the runtime's error", err)
		}
		if j := n.Journal(); j.Count(critest.StopPodSandbox) != 1 || j.Count(critest.RemovePodSandbox) != 1 {
			t.Errorf("the dead sandbox was not removed\n%v", j)
		}
		n.onlyReady(n.create(1))
	})
}

// S1 (e): a name that stays reserved without a sandbox does not block the pod.
func TestS1_ReservedForEver(t *testing.T) {
	bothStyles(t, func(t *testing.T, n *node) {
		never := &faults.Gate{}
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, When: faults.Midway, Hang: never, IgnoreCancel: true})
		c := n.create(10)
		if c.Attempt != 1 {
			t.Errorf("attempt %d, want the next", c.Attempt)
		}
		if refused := n.Journal().Of(critest.RunPodSandbox).Where(func(c critest.Call) bool { return c.Attempt == 0 && c.Done() }).Count(); refused < 3 {
			t.Errorf("given up after %d refusals, want three", refused)
		}
		n.onlyReady(c)
		n.looksFirst()
	})
}

// S1 (e): the same holds for a name that was reserved before the agent started, after three
// rejections.
func TestS1_ReservedFromTheStart(t *testing.T) {
	for name, refused := range map[string]error{
		"by text": status.Error(codes.Unknown, `failed to reserve sandbox name "p": name "p" is reserved for "x"`),
		"by code": status.Error(codes.AlreadyExists, "exists"),
	} {
		t.Run(name, func(t *testing.T) {
			bothStyles(t, func(t *testing.T, n *node) {
				n.Fault(faults.Fault{
					Match: faults.Match{Method: critest.RunPodSandbox, If: func(c critest.Call) bool { return c.Attempt == 0 }},
					Times: faults.Always, Err: refused,
				})
				if c := n.create(4); c.Attempt != 1 {
					t.Errorf("attempt %d, want the next after three refusals\n%v", c.Attempt, n.Journal())
				}
			})
		})
	}
}

// The directory of the logs is created at its default path.
func TestCreateMakesTheLogDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pods", "ns_p_u")
	bothStyles(t, func(t *testing.T, n *node) {
		config := podConfig()
		config.LogDirectory = dir
		must.Get(n.runner.Create(t.Context(), config, ""))(t)
		must.Get(os.Stat(dir))(t)
	})
}

// S1 (a): the lost attempt appears during the creation of the next one.
func TestS1_BothComeUp(t *testing.T) {
	bothStyles(t, func(t *testing.T, n *node) {
		late := &faults.Gate{}
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, When: faults.Midway, Hang: late, IgnoreCancel: true})
		n.Fault(faults.Fault{
			Match: faults.Match{Method: critest.RunPodSandbox, If: func(c critest.Call) bool {
				if c.Attempt == 1 {
					time.AfterFunc(time.Second, late.Open)
				}
				return c.Attempt == 1
			}},
			Delay: time.Minute,
		})
		c := n.create(10)
		if got := n.ready(); len(got) != 1 {
			t.Errorf("ready are attempts %v before another look at the pod", got)
		}
		n.onlyReady(c)
	})
}

// nothingLeft checks that nothing is left of a cancelled creation. The runtime may have
// noticed the cancellation only after Create has listed: then the attempt is unresolved, and the next
// inspection of the pod removes the sandbox.
func (n *node) nothingLeft() {
	n.Helper()
	synctest.Wait()
	if len(n.Sandboxes()) != 0 && n.runner.Unresolved("u") {
		n.resolve("")
	}
	if left := n.Sandboxes(); len(left) != 0 {
		n.Errorf("left behind: %v\n%v", left, n.Journal())
	}
}

// A cancelled creation leaves nothing, although its own context
// has ended.
func TestCreateUndoesWhenItsContextEnds(t *testing.T) {
	bothStyles(t, func(t *testing.T, n *node) {
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, When: faults.After, Delay: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := n.runner.Create(ctx, podConfig(), "")
		if !errors.Is(err, cri.ErrDeadline) {
			t.Errorf("%v, want the context's error", err)
		}
		n.nothingLeft()
		if j := n.Journal(); j.Count(critest.StopPodSandbox) != 1 || j.Count(critest.RemovePodSandbox) != 1 {
			t.Errorf("not stopped and removed\n%v", j)
		}
	})
}

// S1 (c): the created sandbox is removed although the context has ended before the answer.
func TestS1_CancelledCreateLeavesNothing(t *testing.T) {
	bothStyles(t, func(t *testing.T, n *node) {
		never := &faults.Gate{}
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, When: faults.After, Hang: never, IgnoreCancel: true})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if c, err := n.runner.Create(ctx, podConfig(), ""); err == nil {
			t.Errorf("%+v, want the context's error", c)
		}
		if left := n.Sandboxes(); len(left) != 0 {
			t.Errorf("left behind: %v\n%v", left, n.Journal())
		}
	})
}

// A lagging context does not end although its deadline passes.
type lagging struct {
	context.Context
	deadline time.Time
}

func (c lagging) Deadline() (time.Time, bool) { return c.deadline, true }

// S1 (c): the runtime has the deadline of a call, and may report its expiry before the context has ended.
func TestS1_RuntimeIsFirstToEndACreation(t *testing.T) {
	bothStyles(t, func(t *testing.T, n *node) {
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, When: faults.After, Hang: &faults.Gate{}, IgnoreCancel: true})
		if c, err := n.runner.Create(lagging{t.Context(), time.Now().Add(10 * time.Second)}, podConfig(), ""); !errors.Is(err, cri.ErrDeadline) {
			t.Errorf("%+v, %v, want %v", c, err, cri.ErrDeadline)
		}
		if left := n.Sandboxes(); len(left) != 0 {
			t.Errorf("left behind: %v\n%v", left, n.Journal())
		}
	})
}

// S1 (c): a rejected creation whose result could not be listed is unresolved.
func TestS1_RefusalThatCannotBeInspected(t *testing.T) {
	bothStyles(t, func(t *testing.T, n *node) {
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, When: faults.After, Err: status.Error(codes.Internal, "made, and then refused")})
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.ListPodSandbox}, Err: status.Error(codes.Unavailable, "lost")})
		if _, err := n.runner.Create(t.Context(), podConfig(), ""); err == nil {
			t.Fatal("no error")
		}
		n.wantUnresolved(true)
		n.resolve("")
		if left := n.Sandboxes(); len(left) != 0 {
			t.Errorf("left behind: %v\n%v", left, n.Journal())
		}
	})
}

// A sandbox with another runtime handler does not match the request.
func TestS1_LostAnswerOfAnotherHandler(t *testing.T) {
	bothStyles(t, func(t *testing.T, n *node) {
		lost := status.Error(codes.Unavailable, "lost")
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, When: faults.After, Err: lost})
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.ListPodSandbox}, Err: lost})
		if _, err := n.runner.Create(t.Context(), podConfig(), ""); !errors.Is(err, cri.ErrUnavailable) {
			t.Fatal(err)
		}
		c, err := n.runner.Create(t.Context(), podConfig(), "kata")
		if err != nil || c.Adopted {
			t.Errorf("%+v, %v; want one of its own", c, err)
		}
		if all := n.Sandboxes(); len(all) != 1 || all[0].GetRuntimeHandler() != "kata" {
			t.Errorf("there are %v", all)
		}
	})
}

// The sandboxes of earlier attempts are history; Create does not remove them.
func TestCreateLeavesHistoryAlone(t *testing.T) {
	for _, code := range []codes.Code{codes.Internal, codes.Unavailable} {
		bothStyles(t, func(t *testing.T, n *node) {
			first := n.create(1)
			must.Do(t, n.runner.Stop(t.Context(), first.ID))
			n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, When: faults.Midway, Err: status.Error(code, "x")})
			n.create(2)
			if all := n.Sandboxes(); len(all) != 2 {
				t.Errorf("after %v: %d sandboxes, want the stopped one and the new one\n%v", code, len(all), n.Journal())
			}
		})
	}
}

// Resolving is bounded, too: a pod's worker has more to do.
func TestResolveIsBounded(t *testing.T) {
	bothStyles(t, func(t *testing.T, n *node) {
		lost := status.Error(codes.Unavailable, "lost")
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, When: faults.After, Err: lost})
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopPodSandbox}, Times: faults.Always, Err: status.Error(codes.Unknown, "CNI DEL failed")})
		stop := n.OnCall(func(_ int, c critest.Call) {
			if c.Method == critest.RunPodSandbox {
				n.EditSandbox(n.Sandboxes()[0].Id, func(s *runtimeapi.PodSandboxStatus) { s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY })
			}
		})
		defer stop()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := n.runner.Create(ctx, podConfig(), "")
		if took := time.Since(began); err == nil || took != time.Minute {
			t.Errorf("after %v: %v; want an error after a minute", took, err)
		}
	})
}

// A clean-up that does not succeed ends by its own bound, and is made up for.
func TestCleanUpIsBounded(t *testing.T) {
	bothStyles(t, func(t *testing.T, n *node) {
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, When: faults.After, Err: status.Error(codes.Internal, "after all")})
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopPodSandbox}, Times: faults.Always, Err: status.Error(codes.Unknown, "CNI DEL failed")})
		began := time.Now()
		_, err := n.runner.Create(t.Context(), podConfig(), "")
		if took := time.Since(began); took != time.Minute || err == nil || !strings.Contains(err.Error(), "after all") || !strings.Contains(err.Error(), "CNI DEL") {
			t.Errorf("after %v: %v; want both errors after a minute", took, err)
		}
		if c := n.create(1); !c.Adopted {
			t.Errorf("%+v, want what could not be removed", c)
		}
	})
}

func TestCreateUndoesADefiniteFailure(t *testing.T) {
	bothStyles(t, func(t *testing.T, n *node) {
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, When: faults.After, Err: status.Error(codes.Internal, "no")})
		if _, err := n.runner.Create(t.Context(), podConfig(), ""); !errors.Is(err, cri.ErrUnknown) {
			t.Errorf("%v", err)
		}
		if got := n.Sandboxes(); len(got) != 0 {
			t.Errorf("left behind: %v", got)
		}
		n.onlyReady(n.create(1))
	})
}

// The objects of another agent under the same name are not changed.
func TestAnotherAgentsSandboxIsLeftAlone(t *testing.T) {
	bothStyles(t, func(t *testing.T, n *node) {
		n.runner = n.newRunner(cri.Owner{AdoptUnmarked: true})
		other := n.newRunner(cri.Owner{Name: "other"})
		theirs := must.Get(other.Create(t.Context(), podConfig(), ""))(t)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, Err: status.Error(codes.Unavailable, "x")})
		if _, err := n.runner.Create(t.Context(), podConfig(), ""); !errors.Is(err, cri.ErrUnavailable) {
			t.Errorf("%v", err)
		}
		if j := n.Journal(); j.Count(critest.StopPodSandbox, critest.RemovePodSandbox) != 0 {
			t.Errorf("%s was touched\n%v", theirs.ID, j)
		}
	})
}

// A kubelet's sandbox is adopted only if that is configured.
func TestAdoptingAKubeletsSandbox(t *testing.T) {
	for _, adopt := range []bool{true, false} {
		bothStyles(t, func(t *testing.T, n *node) {
			kubelets, err := n.Client.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: podConfig()})
			must.Do(t, err)
			n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, Err: status.Error(codes.Unavailable, "x")})
			c, err := n.newRunner(cri.Owner{AdoptUnmarked: adopt}).Create(t.Context(), podConfig(), "")
			if got := err == nil && c.ID == kubelets.GetPodSandboxId(); got != adopt {
				t.Errorf("AdoptUnmarked %v: %+v, %v, want %v", adopt, c, err, adopt)
			}
		})
	}
}

// After a crash nothing is remembered, and the attempt in flight is found again.
func TestF14_CrashDuringCreate(t *testing.T) {
	bothStyles(t, func(t *testing.T, n *node) {
		late := &faults.Gate{}
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, When: faults.Midway, Hang: late, IgnoreCancel: true})
		ctx, crash := context.WithTimeout(t.Context(), time.Second)
		defer crash()
		n.runner.Create(ctx, podConfig(), "")
		n.runner = n.newRunner(cri.Owner{})
		time.AfterFunc(15*time.Second, late.Open)
		c := n.create(5)
		n.onlyReady(c)
		if c.Attempt != 0 {
			t.Errorf("%+v, want the attempt in flight", c)
		}
	})
}

// After any failures, there is exactly one ready sandbox once the runtime works.
func TestS1_Converges(t *testing.T) {
	injected := []faults.Fault{
		{Err: status.Error(codes.Unavailable, "before")},
		{Err: status.Error(codes.Internal, "before")},
		{When: faults.Midway, Delay: 5 * time.Minute, IgnoreCancel: true},
		{When: faults.Midway, Delay: 20 * time.Minute, IgnoreCancel: true},
		{When: faults.Midway, Err: status.Error(codes.Unknown, "midway")},
		{When: faults.After, Err: status.Error(codes.DeadlineExceeded, "after")},
		{When: faults.After, Err: status.Error(codes.Unknown, "after")},
		{When: faults.After, Delay: 5 * time.Minute},
	}
	for seed := range uint64(25) {
		bothStyles(t, func(t *testing.T, n *node) {
			random := rand.New(rand.NewPCG(seed, 1))
			for range 1 + random.IntN(4) {
				f := injected[random.IntN(len(injected))]
				f.Match.Method, f.Skip = critest.RunPodSandbox, random.IntN(2)
				n.Fault(f)
				n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopPodSandbox}, Err: status.Error(codes.Unknown, "CNI DEL")})
			}
			c := n.create(20)
			n.looksFirst()
			n.onlyReady(c)
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		})
	}
}

// A sandbox with the highest attempt number is removed before a new one is created: both would have
// the same number.
func TestLastAttemptIsUsedAgain(t *testing.T) {
	for name, model := range map[string]critest.Model{"containerd": critest.Containerd2, "CRI-O": critest.CRIO} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, model)
				config := podConfig()
				config.Metadata.Attempt = math.MaxUint32
				old, err := n.runner.Create(t.Context(), config, "")
				n.Must(err)
				n.Must(n.runner.Stop(t.Context(), old.ID))
				created, err := n.runner.Create(t.Context(), config, "")
				n.Must(err)
				if all := n.Sandboxes(); len(all) != 1 || all[0].GetId() != created.ID || created.ID == old.ID || len(n.ready()) != 1 {
					t.Errorf("sandboxes %v, want only the new one %s", all, created.ID)
				}
			})
		})
	}
}

// A runtime may report a sandbox with the highest attempt number that it never stops: Create returns
// an error in the end, and a later Create succeeds once the runtime stops the sandbox.
func TestLastAttemptThatDoesNotStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, critest.Containerd2)
		config := podConfig()
		config.Metadata.Attempt = math.MaxUint32
		_, err := n.runner.Create(t.Context(), config, "")
		n.Must(err)
		fault := n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopPodSandbox}, Times: faults.Always, Err: status.Error(codes.Internal, "refused")})
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err = n.runner.Create(ctx, config, ""); err == nil || time.Since(began) > 2*time.Minute {
			t.Errorf("Create returned %v after %v, want an error within 2 min", err, time.Since(began))
		}
		fault.Remove()
		created, err := n.runner.Create(t.Context(), config, "")
		n.Must(err)
		if all := n.Sandboxes(); len(all) != 1 || all[0].GetId() != created.ID {
			t.Errorf("sandboxes %v, want only the new one %s", all, created.ID)
		}
	})
}
