package userns

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A handlers is a runtime with handlers that support user namespaces, or not.
type handlers map[string]bool

func (h handlers) Status(context.Context, *runtimeapi.StatusRequest, ...grpc.CallOption) (*runtimeapi.StatusResponse, error) {
	resp := &runtimeapi.StatusResponse{}
	for name, supports := range h {
		resp.RuntimeHandlers = append(resp.RuntimeHandlers, &runtimeapi.RuntimeHandler{Name: name, Features: &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: supports}})
	}
	if h == nil {
		return nil, errors.New("unavailable")
	}
	return resp, nil
}

func podWith(uid string) *v1.Pod {
	pod := &v1.Pod{Spec: v1.PodSpec{HostUsers: new(false)}}
	pod.UID = types.UID(uid)
	return pod
}

func allocator(t *testing.T, dir string, ids IDs) *Allocator {
	t.Helper()
	a := must.Get(New(Config{Dir: dir, IDs: ids, Runtime: handlers{"": true, "old": false}}))(t)
	return a
}

// first returns the first ID of the node that a pod has.
func (a *Allocator) first(t *testing.T, uid string) uint32 {
	t.Helper()
	ns := must.Get(a.UserNamespace(t.Context(), podWith(uid), ""))(t)
	if ns.Mode != runtimeapi.NamespaceMode_POD || len(ns.Uids) != 1 || len(ns.Gids) != 1 || ns.Uids[0].ContainerId != 0 || ns.Uids[0].HostId != ns.Gids[0].HostId {
		t.Fatalf("the mapping of %s is %v", uid, ns)
	}
	return ns.Uids[0].HostId
}

// A pod keeps its range over an agent restart, no other pod gets it meanwhile, and after the pod it is free.
func TestRangeOfAPod(t *testing.T) {
	dir := t.TempDir()
	a := allocator(t, dir, IDs{})
	if one, two := a.first(t, "one"), a.first(t, "two"); one != 65536 || two != 131072 {
		t.Errorf("%d and %d, want 65536 and 131072", one, two)
	}
	a = allocator(t, dir, IDs{})
	if three, two := a.first(t, "three"), a.first(t, "two"); three != 196608 || two != 131072 {
		t.Errorf("after a restart %d and %d, want 196608 and 131072", three, two)
	}
	must.Do(t, a.RemovePod(t.Context(), podWith("one").UID))
	if four := a.first(t, "four"); four != 65536 {
		t.Errorf("%d, want the range that has become free", four)
	}
	must.Do(t, allocator(t, dir, IDs{}).RemovePod(t.Context(), "unknown"))
}

func TestPodWithTheUsersOfTheNode(t *testing.T) {
	for _, hostUsers := range []*bool{nil, new(true)} {
		pod := podWith("p")
		pod.Spec.HostUsers = hostUsers
		if ns, err := allocator(t, t.TempDir(), IDs{}).UserNamespace(t.Context(), pod, "old"); ns != nil || err != nil {
			t.Errorf("%v, %v; want neither", ns, err)
		}
	}
}

// A runtime that does not support user namespaces would run the pod as root of the node.
func TestRuntimeWithoutUserNamespaces(t *testing.T) {
	a := allocator(t, t.TempDir(), IDs{})
	for handler, want := range map[string]string{"old": `the runtime handler "old" does not support`, "other": `"other" does not support`} {
		if _, err := a.UserNamespace(t.Context(), podWith("p"), handler); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", handler, err, want)
		}
	}
	a.runtime = handlers(nil)
	if _, err := a.UserNamespace(t.Context(), podWith("p"), ""); err == nil {
		t.Error("the pod gets a range while the runtime is unavailable")
	}
}

// The file has a kubelet's format. If a file is damaged, contains IDs of the node's users, or has the range of another
// pod, no further pod gets a range until the pod of the file is removed.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(uid, text string) {
		t.Helper()
		must.Do(t, os.MkdirAll(filepath.Join(dir, uid), 0o750))
		must.Do(t, os.WriteFile(filepath.Join(dir, uid, "userns"), []byte(text), 0o600))
	}
	of := func(host, container, length string) string {
		m := `[{"hostId":` + host + `,"containerId":` + container + `,"length":` + length + `}]`
		return `{"uidMappings":` + m + `,"gidMappings":` + m + `}`
	}
	write("kubelet", of("131072", "0", "131072"))
	write("empty", "")
	a := allocator(t, dir, IDs{})
	if got := a.first(t, "kubelet"); got != 131072 {
		t.Errorf("the range of a kubelet's pod begins at %d, want 131072", got)
	}
	if one, two := a.first(t, "one"), a.first(t, "two"); one != 65536 || two != 262144 {
		t.Errorf("%d and %d, want 65536 and 262144", one, two)
	}
	text, err := os.ReadFile(filepath.Join(dir, "one", "userns"))
	if want := of("65536", "0", "65536"); err != nil || string(text) != want {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
	for name, bad := range map[string]string{
		"no JSON": "{", "no mapping": "{}", "root of the node": of("0", "0", "65536"), "no ID": of("65536", "0", "0"), "not root of the pod": of("655360", "1", "65536"),
		"beyond all IDs": of("4294901760", "0", "65537"), "taken": of("131072", "0", "1"), "large": strings.Repeat(" ", maxFile+1),
		"different": `{"uidMappings":[{"hostId":655360,"containerId":0,"length":65536}],"gidMappings":[{"hostId":720896,"containerId":0,"length":65536}]}`,
	} {
		write("bad", bad)
		a := allocator(t, dir, IDs{})
		if _, err := a.UserNamespace(t.Context(), podWith("new"), ""); err == nil || !strings.Contains(err.Error(), "bad") {
			t.Errorf("%s: %v, want an error that names the pod", name, err)
		}
		must.Do(t, a.RemovePod(t.Context(), "bad"))
		a.first(t, "new")
	}
}

func TestIDs(t *testing.T) {
	for _, tc := range []struct {
		ids  IDs
		want string
		pods int
	}{
		{IDs{}, "", 65535},
		{IDs{PerPod: 3 * Unit}, "", 21844},
		{IDs{First: 10 * Unit, Count: 2 * Unit}, "", 2},
		{IDs{PerPod: 1000}, "PerPod", 0},
		{IDs{PerPod: 2 * Unit, First: 3 * Unit}, "First", 0},
		{IDs{First: 2 * Unit, Count: 1}, "Count", 0},
		{IDs{First: 65535 * Unit, Count: 2 * Unit}, "Count", 0},
	} {
		pods, err := tc.ids.Pods()
		if tc.want == "" && (err != nil || pods != tc.pods) || tc.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tc.want)) {
			t.Errorf("%+v: %d, %v; want %d, %q", tc.ids, pods, err, tc.pods, tc.want)
		}
	}
}

// For any allocated ranges, a new range is within the node's IDs and overlaps none; there is none only if all are allocated.
func TestFree(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 20000 {
		ids := IDs{PerPod: uint32(1+random.IntN(2)) * Unit, Count: uint32(1+random.IntN(4)) * 2 * Unit}
		ids = must.Get(ids.complete())(t)
		var taken []span
		for range random.IntN(6) {
			taken = append(taken, span{uint32(random.IntN(12)) * Unit / 2, uint32(1+random.IntN(6)) * Unit / 2})
		}
		overlaps := func(s span) bool {
			for _, other := range taken {
				if s.overlaps(other) {
					return true
				}
			}
			return false
		}
		got, ok := ids.free(taken)
		var want span
		for at := ids.First; at < ids.First+ids.Count; at += ids.PerPod {
			if s := (span{at, ids.PerPod}); want.length == 0 && !overlaps(s) {
				want = s
			}
		}
		if ok != (want.length > 0) || ok && got != want {
			t.Fatalf("of %+v with %v taken: %v, %v; want %v", ids, taken, got, ok, want)
		}
	}
}

// All pods of a node may ask at once, and no more pods have a range than there are.
func TestAllAtOnce(t *testing.T) {
	a := allocator(t, t.TempDir(), IDs{Count: 8 * Unit})
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[uint32]bool{}
	for i := range 12 {
		wg.Go(func() {
			ns, err := a.UserNamespace(context.Background(), podWith(string(rune('a'+i))), "")
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				seen[ns.Uids[0].HostId] = true
			} else if !strings.Contains(err.Error(), "all IDs of the node are taken by 8 pods") {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(seen) != 8 {
		t.Errorf("%d ranges, want 8", len(seen))
	}
}

func TestConfig(t *testing.T) {
	for want, c := range map[string]Config{
		"Config.Dir": {Dir: "pods", Runtime: handlers{}}, "Config.Runtime": {Dir: "/pods"}, "Config.IDs.PerPod": {Dir: "/pods", Runtime: handlers{}, IDs: IDs{PerPod: 1}},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error about %s", err, want)
		}
	}
}
