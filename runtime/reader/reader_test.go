package reader

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

func newTestReader(t *testing.T, n Runtime, o cri.Owner) *Reader {
	t.Helper()
	return must.Get(New(Config{Runtime: n, RuntimeName: "fake", Owner: o}))(t)
}

// read reads a pod and compares the calls this took.
func read(t *testing.T, r *Reader, n *fakeRuntime, prev *runtime.PodStatus, want ...string) *runtime.PodStatus {
	t.Helper()
	n.took()
	got := must.Get(r.PodStatus(t.Context(), "u", prev))(t)
	want = append([]string{"ListPodSandbox", "ListContainers"}, want...)
	if calls := n.took(); !slices.Equal(calls, want) {
		t.Errorf("calls %v, want %v", calls, want)
	}
	return got
}

// stutter lists everything twice.
type stutter struct{ *fakeRuntime }

func (s stutter) ListPodSandbox(ctx context.Context, r *runtimeapi.ListPodSandboxRequest, o ...grpc.CallOption) (*runtimeapi.ListPodSandboxResponse, error) {
	l, err := s.fakeRuntime.ListPodSandbox(ctx, r, o...)
	l.Items = slices.Concat(l.GetItems(), l.GetItems())
	return l, err
}

func (s stutter) ListContainers(ctx context.Context, r *runtimeapi.ListContainersRequest, o ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error) {
	l, err := s.fakeRuntime.ListContainers(ctx, r, o...)
	l.Containers = slices.Concat(l.GetContainers(), l.GetContainers())
	return l, err
}

func TestPodThatIsListedTwiceIsReadOnce(t *testing.T) {
	n := &fakeRuntime{}
	n.container(n.sandbox(cri.DefaultOwner, "u", 0), "a", 0)
	got := read(t, newTestReader(t, stutter{n}, cri.Owner{}), n, nil, "PodSandboxStatus s-u-0", "ContainerStatus c-u-a-0")
	if len(got.Sandboxes) != 1 || len(got.Containers) != 1 {
		t.Errorf("%+v, want one sandbox and one container", got)
	}
}

func TestCallsOfOnePod(t *testing.T) {
	n := &fakeRuntime{}
	s := n.sandbox(cri.DefaultOwner, "u", 0)
	a, _ := n.container(s, "a", 0), n.container(s, "b", 0)
	r := newTestReader(t, n, cri.Owner{})

	first := read(t, r, n, nil, "PodSandboxStatus s-u-0", "ContainerStatus c-u-a-0", "ContainerStatus c-u-b-0")
	settled := read(t, r, n, first)
	a.State, a.ExitCode, a.Reason = runtimeapi.ContainerState_CONTAINER_EXITED, 3, "Error"
	exited := read(t, r, n, settled, "ContainerStatus c-u-a-0")
	if c := exited.Latest("a"); c.State != runtime.ContainerExited || c.ExitCode != 3 || c.Reason != "Error" {
		t.Errorf("exited container: %+v", c)
	}
	if c := settled.Latest("a"); c.State != runtime.ContainerRunning {
		t.Errorf("an earlier status was written to: %+v", c)
	}
	n.container(s, "a", 1)
	restarted := read(t, r, n, exited, "ContainerStatus c-u-a-1")
	if c := restarted.Latest("a"); c.Attempt != 1 || c.State != runtime.ContainerRunning {
		t.Errorf("restarted container: %+v", c)
	}
	read(t, r, n, restarted)
}

func TestCallsOfAnEventedRuntime(t *testing.T) {
	n := &fakeRuntime{evented: true}
	s := n.sandbox(cri.DefaultOwner, "u", 0)
	a, b, c := n.container(s, "a", 0), n.container(s, "b", 0), n.container(s, "c", 0)
	r := newTestReader(t, n, cri.Owner{})
	first := read(t, r, n, nil, "PodSandboxStatus s-u-0")
	a.State = runtimeapi.ContainerState_CONTAINER_EXITED
	one := read(t, r, n, first, "ContainerStatus c-u-a-0")
	b.State, c.State = runtimeapi.ContainerState_CONTAINER_EXITED, runtimeapi.ContainerState_CONTAINER_EXITED
	all := read(t, r, n, one, "PodSandboxStatus s-u-0")
	for _, name := range []string{"a", "b", "c"} {
		if c := all.Latest(name); c == nil || c.State != runtime.ContainerExited || c.SandboxID != "s-u-0" {
			t.Errorf("container %s: %+v, want state %v in sandbox %q", name, c, runtime.ContainerExited, "s-u-0")
		}
	}
}

func TestCallsOfSandboxes(t *testing.T) {
	n := &fakeRuntime{}
	old, latest := n.sandbox(cri.DefaultOwner, "u", 0), n.sandbox(cri.DefaultOwner, "u", 1)
	old.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	latest.Network = &runtimeapi.PodSandboxNetworkStatus{}
	r := newTestReader(t, n, cri.Owner{})

	status := read(t, r, n, nil, "PodSandboxStatus s-u-1")
	if got := []uint32{status.Sandboxes[0].Attempt, status.Sandboxes[1].Attempt}; !slices.Equal(got, []uint32{1, 0}) {
		t.Errorf("attempts %v, want the newest first", got)
	}
	latest.Network = &runtimeapi.PodSandboxNetworkStatus{Ip: "10.0.0.7"}
	status = read(t, r, n, status, "PodSandboxStatus s-u-1") // the address was still missing
	if ips := status.IPs(); !slices.Equal(ips, []string{"10.0.0.7"}) {
		t.Errorf("addresses %v, want %q", ips, []string{"10.0.0.7"})
	}
	status = read(t, r, n, status)
	latest.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	status = read(t, r, n, status, "PodSandboxStatus s-u-1")
	read(t, r, n, status)
}

func TestASandboxOnTheNodesNetworkAwaitsNoAddress(t *testing.T) {
	n := &fakeRuntime{}
	s := n.sandbox(cri.DefaultOwner, "u", 0)
	s.Linux = &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE}}}
	r := newTestReader(t, n, cri.Owner{})
	status := read(t, r, n, nil, "PodSandboxStatus s-u-0")
	if len(status.IPs()) != 0 || status.Sandboxes[0].NetworkMode != runtime.NamespaceNode {
		t.Errorf("sandbox %+v, want no addresses of its own", status.Sandboxes[0])
	}
	read(t, r, n, status)
}

// K2, F6: an object that is listed but not found is left out; any other error fails the whole pod.
func TestK2_ListedButGone(t *testing.T) {
	for text, gone := range map[string]error{
		"by code": status.Error(codes.NotFound, "x"),
		"by text": status.Error(codes.Unknown, "No such container: x"),
	} {
		n := &fakeRuntime{}
		s := n.sandbox(cri.DefaultOwner, "u", 0)
		n.container(s, "a", 0)
		n.container(s, "b", 0)
		n.gone = map[string]error{"c-u-a-0": gone, "s-u-0": gone}
		got, err := newTestReader(t, n, cri.Owner{}).PodStatus(t.Context(), "u", nil)
		if err != nil || len(got.Sandboxes) != 0 || len(got.Containers) != 1 || got.Latest("b") == nil {
			t.Errorf("%s: %+v, %v; want container b alone", text, got, err)
		}
	}
}

func TestReadErrors(t *testing.T) {
	for _, fails := range []string{"ListPodSandbox", "ListContainers", "s-u-0", "c-u-a-0"} {
		n := &fakeRuntime{}
		n.container(n.sandbox(cri.DefaultOwner, "u", 0), "a", 0)
		n.gone = map[string]error{fails: status.Error(codes.Unavailable, "unavailable")}
		got, err := newTestReader(t, n, cri.Owner{}).PodStatus(t.Context(), "u", nil)
		if !errors.Is(err, cri.ErrUnavailable) || got != nil {
			t.Errorf("%s fails: %v, %v; want no status and class %q", fails, got, err, cri.ErrUnavailable)
		}
	}
	n := &fakeRuntime{}
	n.sandbox(cri.DefaultOwner, "u", 0).Id = "unknown"
	if _, err := newTestReader(t, &lost{n}, cri.Owner{}).PodStatus(t.Context(), "u", nil); !errors.Is(err, cri.ErrUnknown) {
		t.Errorf("an answer without a status: %v", err)
	}
	if _, err := newTestReader(t, &fakeRuntime{}, cri.Owner{}).PodStatus(t.Context(), "", nil); err == nil || !strings.Contains(err.Error(), "UID is empty") {
		t.Errorf("an empty UID: %v", err)
	}
}

// P4: a snapshot is as old as the beginning of the read.
func TestP4_ObservedAtIsWhenTheReadBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeRuntime{}
		n.sandbox(cri.DefaultOwner, "u", 0)
		slow := &slowReader{fakeRuntime: n}
		r := must.Get(New(Config{Runtime: slow, RuntimeName: "fake"}))(t)
		began := time.Now()
		for _, uid := range []types.UID{"u", "unknown"} {
			got, err := r.PodStatus(t.Context(), uid, nil)
			if err != nil || !got.ObservedAt.Equal(began) {
				t.Errorf("observed at %v, want %v, when the read began (%v)", got.ObservedAt, began, err)
			}
			began = time.Now()
		}
	})
}

func TestListAllPods(t *testing.T) {
	n := &fakeRuntime{}
	b := n.sandbox(cri.DefaultOwner, "b", 0)
	n.container(b, "c", 0)
	n.sandbox(cri.DefaultOwner, "a", 0).State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	r := newTestReader(t, n, cri.Owner{})
	pods, err := r.List(t.Context())
	if err != nil || len(pods) != 2 || pods[0].UID != "a" || pods[1].UID != "b" {
		t.Fatalf("pods %v, %v, want %q and %q", pods, err, "a", "b")
	}
	if calls := n.took(); len(calls) != 2 {
		t.Errorf("calls %v, want two", calls)
	}
	if pods[0].Running() || !pods[1].Running() || pods[1].Name != "pb" || pods[1].Namespace != "ns" {
		t.Errorf("pods %+v %+v, want only the second to run, with name %q in namespace %q", pods[0], pods[1], "pb", "ns")
	}
	if !pods[1].Changed(nil) {
		t.Error("a pod never seen has not changed")
	}
	status, err := r.Inspect(t.Context(), pods[1], nil)
	if err != nil || pods[1].Changed(status) {
		t.Errorf("changed since it was inspected (%v)", err)
	}
	more := *status
	more.Containers = append(slices.Clone(status.Containers), runtime.ContainerStatus{Name: "gone"})
	if !pods[1].Changed(&more) {
		t.Error("a container that went is no change")
	}
	n.containers[0].State = runtimeapi.ContainerState_CONTAINER_EXITED
	if pods, _ = r.List(t.Context()); !pods[1].Changed(status) {
		t.Error("an exit is no change")
	}
}

// Newest first, by attempt and not by the clock (C2), and in one order always.
func TestOrder(t *testing.T) {
	n := &fakeRuntime{}
	s := n.sandbox(cri.DefaultOwner, "u", 0)
	for _, c := range []struct {
		name    string
		attempt uint32
	}{{"a", 1}, {"b", 0}, {"a", 10}, {"a", 9}, {"c", 0}} {
		n.container(s, c.name, c.attempt).CreatedAt = -int64(c.attempt)
	}
	slices.Reverse(n.containers)
	status := must.Get(newTestReader(t, n, cri.Owner{}).PodStatus(t.Context(), "u", nil))(t)
	var got []string
	for _, c := range status.Containers {
		got = append(got, c.ID.ID)
	}
	if want := []string{"c-u-a-10", "c-u-a-9", "c-u-a-1", "c-u-b-0", "c-u-c-0"}; !slices.Equal(got, want) {
		t.Errorf("containers %v, want %v", got, want)
	}
}

func TestOnlyOwnPodsAreSeen(t *testing.T) {
	n := &fakeRuntime{}
	for uid, owner := range map[string]string{"mine": "me", "theirs": "other", "kubelets": ""} {
		n.container(n.sandbox(owner, uid, 0), "c", 0)
	}
	n.sandboxes = append(n.sandboxes, &runtimeapi.PodSandboxStatus{Id: "crictl", Metadata: &runtimeapi.PodSandboxMetadata{Uid: "hand"}})
	for name, tc := range map[string]struct {
		owner cri.Owner
		want  []types.UID
	}{
		"mine alone":     {cri.Owner{Name: "me"}, []types.UID{"mine"}},
		"default name":   {cri.Owner{}, nil},
		"kubelet's, too": {cri.Owner{Name: "me", AdoptUnmarked: true}, []types.UID{"kubelets", "mine"}},
	} {
		r := newTestReader(t, n, tc.owner)
		pods := must.Get(r.List(t.Context()))(t)
		var got []types.UID
		for _, p := range pods {
			got = append(got, p.UID)
			if status, err := r.PodStatus(t.Context(), p.UID, nil); err != nil || len(status.Containers) != 1 {
				t.Errorf("%s: %s: %+v, %v, want one container", name, p.UID, status, err)
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: sees %v, want %v", name, got, tc.want)
		}
	}
	if status, err := newTestReader(t, n, cri.Owner{Name: "me"}).PodStatus(t.Context(), "theirs", nil); err != nil || len(status.Sandboxes)+len(status.Containers) != 0 {
		t.Errorf("another agent's pod: %+v, %v", status, err)
	}
}

func TestReadingWritesToNothing(t *testing.T) {
	n := &fakeRuntime{evented: true}
	s := n.sandbox(cri.DefaultOwner, "u", 0)
	a := n.container(s, "a", 0)
	r := newTestReader(t, n, cri.Owner{})
	prev := read(t, r, n, nil, "PodSandboxStatus s-u-0")
	before, s0, a0 := *prev, proto.CloneOf(s), proto.CloneOf(a)
	before.Containers, before.Sandboxes = slices.Clone(prev.Containers), slices.Clone(prev.Sandboxes)
	n.container(s, "b", 0)
	must.Get(r.PodStatus(t.Context(), "u", prev))(t)
	if !reflect.DeepEqual(*prev, before) || !proto.Equal(s, s0) || !proto.Equal(a, a0) {
		t.Error("an input was written to")
	}
}

func TestNewReaderValidates(t *testing.T) {
	for want, c := range map[string]Config{
		"Config.Runtime":     {RuntimeName: "x"},
		"Config.RuntimeName": {Runtime: &fakeRuntime{}},
		"Owner.Name":         {Runtime: &fakeRuntime{}, RuntimeName: "x", Owner: cri.Owner{Name: "not a label"}},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want an error that names %s", err, want)
		}
	}
}

func BenchmarkChanged(b *testing.B) {
	n := &fakeRuntime{}
	s := n.sandbox(cri.DefaultOwner, "u", 0)
	n.container(s, "a", 0)
	n.container(s, "b", 0)
	r := must.Get(New(Config{Runtime: n, RuntimeName: "fake"}))(b)
	pods := must.Get(r.List(b.Context()))(b)
	status := must.Get(r.Inspect(b.Context(), pods[0], nil))(b)
	b.ReportAllocs()
	for b.Loop() {
		if pods[0].Changed(status) {
			b.Fatal("changed")
		}
	}
}
