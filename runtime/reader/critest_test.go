package reader_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/internal/rig/testnode"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/reader"
)

// The numbers in the package documentation.
func TestNumberOfCalls(t *testing.T) {
	for _, evented := range []bool{false, true} {
		for _, containers := range [][]string{{"a"}, {"a", "b", "c"}} {
			t.Run(fmt.Sprintf("%d containers, statuses in the sandbox's %v", len(containers), evented), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					model := critest.Containerd2
					if evented {
						model = critest.CRIO
					}
					n := testnode.New(t, critest.Config{Like: model}).Dial(cri.Config{})
					ids := n.RunPod("u", containers...)
					numberOfCalls(n, n.Reader(), evented, ids)
				})
			})
		}
	}
}

func numberOfCalls(n *testnode.Node, r *reader.Reader, evented bool, ids []string) {
	var last *runtime.PodStatus
	look := func() {
		s := must.Get(r.PodStatus(n.Context(), "u", last))(n)
		last = s
	}
	expect := func(what string, got map[critest.Method]int, sandboxes, containers int) {
		n.Helper()
		want := map[critest.Method]int{critest.ListPodSandbox: 1, critest.ListContainers: 1}
		if sandboxes > 0 {
			want[critest.PodSandboxStatus] = sandboxes
		}
		if containers > 0 {
			want[critest.ContainerStatus] = containers
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			n.Errorf("%s: calls %v, want %v", what, got, want)
		}
	}
	if evented {
		expect("a new pod", n.Calls(look).Counts(), 1, 0)
	} else {
		expect("a new pod", n.Calls(look).Counts(), 1, len(ids))
	}
	expect("a settled pod", n.Calls(look).Counts(), 0, 0)
	must.Do(n, n.ExitContainer(ids[0], critest.Exit{Code: 3}))
	synctest.Wait()
	expect("one container exited", n.Calls(look).Counts(), 0, 1)
	if c := last.Latest("a"); c.State != runtime.ContainerExited || c.ExitCode != 3 {
		n.Errorf("exited container: %+v", c)
	}
	expect("settled again", n.Calls(look).Counts(), 0, 0)
}

func TestNumberOfCallsOfARelist(t *testing.T) {
	for model, fresh := range map[critest.Model]int{critest.Containerd2: 2 + 10*(1+3), critest.CRIO: 2 + 10} {
		synctest.Test(t, func(t *testing.T) { numberOfCallsOfARelist(t, model, fresh) })
	}
}

// numberOfCallsOfARelist checks the number of calls of a list: fresh for ten new pods, two for unchanged ones, three if one has changed.
func numberOfCallsOfARelist(t *testing.T, model critest.Model, fresh int) {
	n := testnode.New(t, critest.Config{Like: model}).Dial(cri.Config{})
	for i := range 10 {
		n.RunPod(fmt.Sprint("u", i), "a", "b", "c")
	}
	r := n.Reader()
	known := map[types.UID]*runtime.PodStatus{}
	relist := func() {
		pods := must.Get(r.List(t.Context()))(t)
		for _, p := range pods {
			if p.Changed(known[p.UID]) {
				known[p.UID] = must.Get(r.Inspect(t.Context(), p, known[p.UID]))(t)
			}
		}
	}
	if got := n.Calls(relist).Counts(); sum(got) != fresh {
		t.Errorf("10 new pods of 3 containers: calls %v, want %d", got, fresh)
	}
	if got := n.Calls(relist).Counts(); sum(got) != 2 {
		t.Errorf("10 settled pods: calls %v, want 2", got)
	}
	must.Do(t, n.ExitContainer(known["u3"].Latest("b").ID.ID, critest.Exit{}))
	synctest.Wait()
	if got := n.Calls(relist).Counts(); sum(got) != 3 {
		t.Errorf("one container of one pod exited: calls %v, want 3", got)
	}
}

func sum(counts map[critest.Method]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// Two agents and a kubelet on one runtime.
func TestAgentsLeaveEachOtherAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := testnode.New(t, critest.Config{}).Dial(cri.Config{})
		a, b := cri.Owner{Name: "a"}, cri.Owner{Name: "b"}
		n.As(a).RunPod("of-a", "c")
		n.As(b).RunPod("of-b", "c")
		runKubeletPod(n)
		for name, tc := range map[string]struct {
			owner cri.Owner
			want  []types.UID
		}{
			"a":          {a, []types.UID{"of-a"}},
			"b":          {b, []types.UID{"of-b"}},
			"a adopting": {cri.Owner{Name: "a", AdoptUnmarked: true}, []types.UID{"of-a", "of-kubelet"}},
		} {
			pods := must.Get(n.As(tc.owner).Reader().List(t.Context()))(t)
			var got []types.UID
			for _, p := range pods {
				got = append(got, p.UID)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%s sees %v, want %v", name, got, tc.want)
			}
		}
	})
}

func runKubeletPod(n *testnode.Node) {
	n.Helper()
	must.Get(n.Client.RunPodSandbox(n.Context(), &runtimeapi.RunPodSandboxRequest{Config: &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "p", Namespace: "ns", Uid: "of-kubelet"},
		Labels:   map[string]string{runtime.LabelPodName: "p", runtime.LabelPodNamespace: "ns", runtime.LabelPodUID: "of-kubelet"},
	}}))(n)
}

// F6, K2: objects that disappear between the list and the inspection are left out.
func TestF6_ListAndStatusDisagree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := testnode.New(t, critest.Config{}).Dial(cri.Config{})
		ids := n.RunPod("u", "a", "b")
		defer n.Hide(ids[0], faults.InStatus)()
		s, err := n.Reader().PodStatus(t.Context(), "u", nil)
		if err != nil || s.Latest("a") != nil || s.Latest("b") == nil {
			t.Errorf("%+v, %v; want b alone", s, err)
		}
		must.Get(n.Inject(faults.Fault{Match: faults.Match{Method: critest.ContainerStatus}, Err: status.Error(codes.Internal, "disk")}))(t)
		if s, err := n.Reader().PodStatus(t.Context(), "u", nil); err == nil || s != nil {
			t.Errorf("%+v, %v; want an error for the whole pod", s, err)
		}
	})
}

// F8: after a runtime restart the same client reads again, and observes the effects of the restart.
func TestF8_ReadsOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := testnode.New(t, critest.Config{}).Dial(cri.Config{})
		n.RunPod("u", "a")
		r := n.Reader()
		before := must.Get(r.PodStatus(t.Context(), "u", nil))(t)
		must.Do(t, n.Restart(faults.Restart{Down: time.Minute, Disconnect: true, Sandboxes: faults.EffectStopped, Containers: faults.EffectStopped}))
		time.Sleep(30 * time.Second)
		if s, err := r.PodStatus(t.Context(), "u", before); !cri.Ambiguous(err) || s != nil {
			t.Errorf("while the runtime is unavailable: %+v, %v", s, err)
		}
		time.Sleep(31500 * time.Millisecond)
		after, err := r.PodStatus(t.Context(), "u", before)
		if err != nil || after.ActiveSandbox() != nil || after.Latest("a").State != runtime.ContainerExited {
			t.Errorf("1.5s after it was back: %+v, %v", after, err)
		}
	})
}
