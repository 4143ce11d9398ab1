package resize_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/resize"
)

// agent is a new Allocator with the files in dir.
func agent(t *testing.T, dir string, adjust ...func(*resize.Config)) *resize.Allocator {
	t.Helper()
	c := resize.Config{State: dir, Allocatable: amounts("4", "8Gi")}
	for _, a := range adjust {
		a(&c)
	}
	a := must.Get(resize.New(c))(t)
	return a
}

// allocate returns the allocated CPU of a pod, and the reason why its request is not allocated.
func allocate(t *testing.T, a *resize.Allocator, p *v1.Pod) (cpu string, waits resize.Outcome) {
	t.Helper()
	answer := must.Get(a.Allocate(t.Context(), p))(t)
	if answer.Waits != nil {
		waits = answer.Waits.Outcome
	}
	return answer.Pod.Spec.Containers[0].Resources.Requests.Cpu().String(), waits
}

func wantAllocate(t *testing.T, a *resize.Allocator, p *v1.Pod, cpu string, waits resize.Outcome) {
	t.Helper()
	if got, why := allocate(t, a, p); got != cpu || why != waits {
		t.Errorf("pod %s is allocated %s, %q; want %s, %q", p.Name, got, why, cpu, waits)
	}
}

func TestAllocator(t *testing.T) {
	a := agent(t, t.TempDir())
	var told []types.UID
	a.Notify(func(uid types.UID) { told = append(told, uid) })
	wantAllocate(t, a, pod("a", "1", "1Gi"), "1", "")
	wantAllocate(t, a, pod("b", "2", "1Gi"), "2", "")
	wantAllocate(t, a, pod("a", "2", "1Gi"), "2", "")
	wantAllocate(t, a, pod("a", "3", "1Gi"), "2", resize.Deferred)
	wantAllocate(t, a, pod("b", "5", "1Gi"), "2", resize.Infeasible)
	if got := a.Allocated(pod("a", "3", "1Gi")).Spec.Containers[0].Resources.Limits.Cpu().String(); got != "2" {
		t.Errorf("allocated %s, want %q", got, "2")
	}
	if got := a.Allocated(pod("never", "3", "1Gi")).Spec.Containers[0].Resources.Limits.Cpu().String(); got != "3" {
		t.Errorf("a pod that is not known is allocated %s", got)
	}
	wantAllocate(t, a, pod("b", "1", "1Gi"), "1", "") // which makes room
	if !slices.Equal(told, []types.UID{"a"}) {
		t.Errorf("reported %v, want %v", told, []types.UID{"a"})
	}
	wantAllocate(t, a, pod("a", "3", "1Gi"), "3", "")
	wantAllocate(t, a, pod("b", "4", "1Gi"), "1", resize.Deferred)
	must.Do(t, a.RemovePod(t.Context(), pod("a", "3", "1Gi").UID))
	if !slices.Equal(told, []types.UID{"a", "b"}) {
		t.Errorf("reported %v, want %v", told, []types.UID{"a", "b"})
	}
	wantAllocate(t, a, pod("b", "4", "1Gi"), "4", "")
	wantAllocate(t, a, pod("a", "3", "1Gi"), "3", "") // a new one: admission has let it in
}

// C10: a resize does not use the resources of an admitted pod that has not been synced yet.
func TestC10_ReservedRoomIsTaken(t *testing.T) {
	dir := t.TempDir()
	a := agent(t, dir)
	wantAllocate(t, a, pod("a", "1", "1Gi"), "1", "")
	fits := func(asked string) func(func(*v1.Pod) *v1.Pod) bool {
		return func(allocated func(*v1.Pod) *v1.Pod) bool {
			if got := allocated(pod("a", asked, "1Gi")).Spec.Containers[0].Resources.Requests.Cpu().String(); got != "1" {
				t.Errorf("the other pod is allocated %s, want 1", got)
			}
			return true
		}
	}
	if a.Reserve(pod("refused", "3", "1Gi"), func(func(*v1.Pod) *v1.Pod) bool { return false }) {
		t.Error("a pod that does not fit is counted")
	}
	if !a.Reserve(pod("b", "3", "1Gi"), fits("2")) {
		t.Error("a pod that fits is not counted")
	}
	wantAllocate(t, a, pod("a", "2", "1Gi"), "1", resize.Deferred)
	wantAllocate(t, a, pod("b", "3", "1Gi"), "3", "")
	must.Do(t, a.RemovePod(t.Context(), "b"))
	wantAllocate(t, a, pod("a", "2", "1Gi"), "2", "")

	if !a.Reserve(pod("never", "2", "1Gi"), func(func(*v1.Pod) *v1.Pod) bool { return true }) {
		t.Error("a pod that fits is not counted")
	}
	next := agent(t, dir) // which admits all pods again
	if !next.Reserve(pod("a", "4", "1Gi"), func(func(*v1.Pod) *v1.Pod) bool { return false }) {
		t.Error("a pod that was counted by an earlier agent is refused")
	}
	wantAllocate(t, next, pod("a", "2", "1Gi"), "2", "")
}

// A pod whose resize request is withdrawn is no longer pending, and a new request is decided again.
func TestWishChanges(t *testing.T) {
	a := agent(t, t.TempDir())
	wantAllocate(t, a, pod("a", "1", "1Gi"), "1", "")
	wantAllocate(t, a, pod("a", "9", "1Gi"), "1", resize.Infeasible)
	wantAllocate(t, a, pod("a", "1", "1Gi"), "1", "")
	wantAllocate(t, a, pod("a", "9", "1Gi"), "1", resize.Infeasible)
	wantAllocate(t, a, pod("a", "4", "1Gi"), "4", "")
}

// Freed resources go to the oldest pending resizes, and a resize that does not fit does not
// block later ones.
func TestRoomIsGivenInOrder(t *testing.T) {
	a := agent(t, t.TempDir())
	var told []types.UID
	a.Notify(func(uid types.UID) { told = append(told, uid) })
	first := func(p *v1.Pod) { p.Spec.Priority = new(int32(100)) }
	second := func(p *v1.Pod) { p.Spec.Priority = new(int32(50)) }
	for _, p := range []*v1.Pod{pod("low", "500m", "1Gi"), pod("high", "500m", "1Gi", first), pod("big", "500m", "1Gi", second), pod("gone", "2500m", "1Gi")} {
		allocate(t, a, p)
	}
	wantAllocate(t, a, pod("low", "2", "1Gi"), "500m", resize.Deferred)
	wantAllocate(t, a, pod("big", "4", "1Gi", second), "500m", resize.Deferred)
	wantAllocate(t, a, pod("high", "1500m", "1Gi", first), "500m", resize.Deferred)
	must.Do(t, a.RemovePod(t.Context(), "gone"))
	if !slices.Equal(told, []types.UID{"high", "low"}) {
		t.Errorf("reported %v, want %v", told, []types.UID{"high", "low"})
	}
	wantAllocate(t, a, pod("big", "4", "1Gi", second), "500m", resize.Deferred)
}

// Allocations outlive the agent, and the allocations of other pods count before these pods
// have been synced again.
func TestAllocationsOutliveTheAgent(t *testing.T) {
	dir := t.TempDir()
	a := agent(t, dir)
	allocate(t, a, pod("a", "1", "1Gi"))
	allocate(t, a, pod("b", "2", "1Gi", overhead("500m")))
	wantAllocate(t, a, pod("a", "2", "1Gi"), "1", resize.Deferred)
	a = agent(t, dir)
	wantAllocate(t, a, pod("a", "2", "1Gi"), "1", resize.Deferred)
	must.Do(t, a.RemovePod(t.Context(), "b"))
	wantAllocate(t, a, pod("a", "2", "1Gi"), "2", "")
	a = agent(t, dir)
	wantAllocate(t, a, pod("a", "5", "1Gi"), "2", resize.Infeasible)
	must.Do(t, a.RemovePod(t.Context(), "a"))
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, error %v", left, err)
	}
}

// A truncated file is set aside: its pod is allocated the resources in its status,
// or else those in its spec.
func TestFileThatWasCut(t *testing.T) {
	for name, tt := range map[string]struct {
		requests, limits v1.ResourceList
		adjust           func(*v1.Pod)
		want, wantLimit  string
		waits            resize.Outcome
	}{
		"without a status":    {want: "2", wantLimit: "2"},
		"as it asks":          {requests: amounts("2", "1Gi"), limits: amounts("1", "1Gi"), want: "2", wantLimit: "2"},
		"limits are requests": {requests: amounts("1500m", "1Gi"), limits: amounts("1", "1Gi"), want: "1500m", wantLimit: "1500m", waits: resize.Deferred},
		"limits are more than so": {requests: amounts("500m", "1Gi"), limits: amounts("700m", "1Gi"), want: "500m", wantLimit: "700m", waits: resize.Deferred,
			adjust: func(p *v1.Pod) { p.Spec.Containers[0].Resources.Limits = amounts("3", "1Gi") }},
	} {
		dir := t.TempDir()
		cut := []byte(`{"containers":{"app"`)
		must.Do(t, os.WriteFile(filepath.Join(dir, "a.json"), cut, 0o600))
		p := pod("a", "2", "1Gi")
		if tt.adjust != nil {
			tt.adjust(p)
		}
		if tt.requests != nil {
			p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "app", AllocatedResources: tt.requests, Resources: &v1.ResourceRequirements{Limits: tt.limits}}, {Name: "unknown"}}
		}
		a := agent(t, dir)
		allocate(t, a, pod("full", "2500m", "1Gi"))
		wantAllocate(t, a, p, tt.want, tt.waits)
		if got := a.Allocated(p).Spec.Containers[0].Resources.Limits.Cpu().String(); got != tt.wantLimit {
			t.Errorf("%s: limit %s, want %s", name, got, tt.wantLimit)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "a.json.damaged")); err != nil || !bytes.Equal(text, cut) {
			t.Errorf("%s: set aside %q, error %v", name, text, err)
		}
		wantAllocate(t, agent(t, dir), pod("a", "9", "1Gi"), tt.want, map[bool]resize.Outcome{true: resize.Infeasible, false: ""}[tt.want != "9"])
		must.Do(t, a.RemovePod(t.Context(), "a"))
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Errorf("%s: left %v, error %v", name, left, err)
		}
	}
}

// The known fields of a file of a future version are read. A file without a version is damaged.
func TestFilesOfOtherVersions(t *testing.T) {
	for name, text := range map[string]string{
		"to come": `{"version":7,"news":[1],"containers":{"app":{"more":{},"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"1","memory":"1Gi"}}},"requests":{"cpu":"1","memory":"1Gi"}}`,
	} {
		dir := t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(dir, "a.json"), []byte(text), 0o600))
		a := agent(t, dir)
		if got := a.Allocated(pod("a", "9", "1Gi")).Spec.Containers[0].Resources.Requests.Cpu().String(); got != "1" {
			t.Errorf("%s: allocated %s before anything was asked", name, got)
		}
		wantAllocate(t, a, pod("a", "9", "1Gi"), "1", resize.Infeasible)
	}
	for _, text := range []string{`{"version":7,"containers":[]}`, `{"containers":{"app":{"requests":{"cpu":"1","memory":"1Gi"}}}}`} {
		dir := t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(dir, "a.json"), []byte(text), 0o600))
		wantAllocate(t, agent(t, dir), pod("a", "2", "1Gi"), "2", "")
		if _, err := os.Stat(filepath.Join(dir, "a.json.damaged")); err != nil {
			t.Error(err)
		}
	}
}

// While files cannot be read nothing is decided, and nothing is forgotten.
func TestFilesThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	wantAllocate(t, agent(t, dir), pod("a", "1", "1Gi"), "1", "")
	a := agent(t, dir)
	must.Do(t, os.Rename(dir, dir+"-away"))
	must.Do(t, os.WriteFile(dir, nil, 0o600))
	a.Allocated(pod("a", "2", "1Gi"))
	if _, err := a.Allocate(t.Context(), pod("a", "2", "1Gi")); err == nil {
		t.Error("decided, and nothing was read")
	}
	must.Do(t, errors.Join(os.Remove(dir), os.Rename(dir+"-away", dir)))
	if got := a.Allocated(pod("a", "9", "1Gi")).Spec.Containers[0].Resources.Requests.Cpu().String(); got != "1" {
		t.Errorf("allocated %s, want %q", got, "1")
	}
	wantAllocate(t, a, pod("a", "9", "1Gi"), "1", resize.Infeasible)
}

// What cannot be written down is not allocated.
func TestDiskThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	a := agent(t, dir)
	allocate(t, a, pod("a", "1", "1Gi"))
	must.Do(t, os.RemoveAll(dir))
	must.Do(t, os.WriteFile(dir, nil, 0o600))
	for _, p := range []*v1.Pod{pod("a", "2", "1Gi"), pod("new", "1", "1Gi")} {
		if _, err := a.Allocate(t.Context(), p); err == nil || !strings.Contains(err.Error(), p.Name) {
			t.Errorf("error %v, want one about pod %s", err, p.Name)
		}
	}
	if got := a.Allocated(pod("a", "2", "1Gi")).Spec.Containers[0].Resources.Requests.Cpu().String(); got != "1" {
		t.Errorf("allocated %s, want %q", got, "1")
	}
	must.Do(t, os.Remove(dir))
	wantAllocate(t, a, pod("a", "2", "1Gi"), "2", "")
}

func TestPendingResizeIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		a := agent(t, t.TempDir())
		a.DecideWith(func(r resize.Request) resize.Verdict {
			asked++
			if len(r.ActivePods) != 1 || r.ActivePods[0].UID != "b" || r.Allocated.Spec.Containers[0].Resources.Requests.Cpu().Value() != 1 {
				t.Errorf("request %+v, want one allocated CPU, and only the active pod %q", r, "b")
			}
			return resize.Verdict{Outcome: resize.Deferred, Message: "not now"}
		})
		allocate(t, a, pod("b", "1", "1Gi"))
		allocate(t, a, pod("a", "1", "1Gi"))
		answer, err := a.Allocate(t.Context(), pod("a", "99", "1Gi"))
		if err != nil || answer.Waits == nil || answer.Waits.Message != "not now" || time.Until(answer.NextTry) != time.Minute || asked != 1 {
			t.Errorf("%+v, error %v, asked %d times, want a verdict that waits a minute", answer, err, asked)
		}
	})
}

func TestBadConfig(t *testing.T) {
	for want, c := range map[string]resize.Config{
		`Config.State is ""`: {},
		"memory is -1":       {State: "/x", Allocatable: v1.ResourceList{"memory": resource.MustParse("-1")}},
	} {
		if _, err := resize.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	_, err := agent(t, t.TempDir()).Allocate(t.Context(), pod("../up", "1", "1Gi"))
	if err == nil || !strings.Contains(err.Error(), "metadata.uid") {
		t.Errorf("error %v, want an error and %q in it", err, "metadata.uid")
	}
}

// For any sequence of requests, withdrawals and restarts, the sum of the allocations never exceeds the node's
// resources, and a request that fits is not pending.
func TestResizesThatAPartRefuses(t *testing.T) {
	a := agent(t, t.TempDir(), func(c *resize.Config) {
		c.Check = func(allocated, desired *v1.Pod) error {
			if allocated.Name == "a" {
				return errors.New("its CPUs are exclusive")
			}
			return nil
		}
	})
	for _, name := range []string{"a", "b"} {
		allocate(t, a, pod(name, "1", "1Gi"))
	}
	wantAllocate(t, a, pod("a", "2", "1Gi"), "1", resize.Infeasible)
	wantAllocate(t, a, pod("b", "2", "1Gi"), "2", "")
}

func TestAllocatorRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	dir := t.TempDir()
	a := agent(t, dir)
	asks := map[string]string{}
	for step := range 600 {
		name := fmt.Sprint("p", r.IntN(4))
		switch r.IntN(8) {
		case 0:
			must.Do(t, a.RemovePod(t.Context(), types.UID(name)))
			delete(asks, name)
		case 1:
			a = agent(t, dir)
			for name, cpu := range asks {
				allocate(t, a, pod(name, cpu, "1Mi"))
			}
		default:
			if asks[name] == "" {
				asks[name] = "1" // admission lets it in: four of these fit
				allocate(t, a, pod(name, "1", "1Mi"))
			}
			if free(t, a, asks) >= 0 {
				asks[name] = fmt.Sprintf("%dm", 100*(1+r.IntN(50)))
				allocate(t, a, pod(name, asks[name], "1Mi"))
				if left := free(t, a, asks); left < 0 {
					t.Fatalf("step %d: %dm more is allocated than there is", step, -left)
				}
			}
		}
		left := free(t, a, asks)
		for name, cpu := range asks {
			p := pod(name, cpu, "1Mi")
			has, asked := a.Allocated(p).Spec.Containers[0].Resources.Requests.Cpu().MilliValue(), p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
			if asked != has && asked-has <= left && left >= 0 {
				t.Fatalf("step %d: %s has %d, asks for %d and %d are free", step, name, has, asked, left)
			}
		}
	}
}

// If an agent is killed before or after a decision is stored, each pod has its old or its new
// allocation, and the sum never exceeds the node's resources.
func TestAllocatorIsKilledAtEachWrite(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	killed := 0
	for range 30 {
		dir := t.TempDir()
		decisions := 0 // that are left before it is killed, -1 for ever
		start := func() *resize.Allocator {
			a := agent(t, dir)
			a.DecideWith(func(req resize.Request) resize.Verdict {
				if decisions == 0 {
					panic(errKilled)
				}
				decisions--
				return resize.Decide(req)
			})
			return a
		}
		decisions = -1
		a, asks, had := start(), map[string]string{}, map[string]string{}
		for _, name := range []string{"a", "b", "c", "d"} {
			asks[name], had[name] = "1", "1"
			allocate(t, a, pod(name, "1", "1Mi"))
		}
		for range 10 {
			decisions = r.IntN(6) - 1
			name := []string{"a", "b", "c", "d"}[r.IntN(4)]
			asks[name] = fmt.Sprintf("%dm", 100*(1+r.IntN(30)))
			if dies(t, a, pod(name, asks[name], "1Mi")) {
				killed++
				decisions = -1
				a = start()
				checkAllocated(t, a, asks, had)
				for name, cpu := range asks {
					allocate(t, a, pod(name, cpu, "1Mi"))
				}
			}
			decisions = -1
			checkAllocated(t, a, asks, had)
			for name, cpu := range asks {
				had[name] = a.Allocated(pod(name, cpu, "1Mi")).Spec.Containers[0].Resources.Requests.Cpu().String()
			}
		}
	}
	if killed < 10 {
		t.Errorf("killed %d times", killed)
	}
}

var errKilled = errors.New("killed")

// dies asks, and reports whether the agent was killed.
func dies(t *testing.T, a *resize.Allocator, p *v1.Pod) (killed bool) {
	defer func() {
		if r := recover(); r != nil {
			killed = r == errKilled
		}
	}()
	allocate(t, a, p)
	return false
}

// checkAllocated compares the allocations of pods with their old allocations and requests.
func checkAllocated(t *testing.T, a *resize.Allocator, asks, had map[string]string) {
	t.Helper()
	for name, cpu := range asks {
		got := a.Allocated(pod(name, cpu, "1Mi")).Spec.Containers[0].Resources.Requests.Cpu()
		if asked := resource.MustParse(cpu); got.String() != had[name] && got.Cmp(asked) != 0 {
			t.Fatalf("%s had %s, asks for %s and is allocated %s", name, had[name], cpu, got)
		}
	}
	if left := free(t, a, asks); left < 0 {
		t.Fatalf("%dm more is allocated than there is", -left)
	}
}

// free is the unallocated CPU. New pods may have been admitted next to the accepted resizes.
func free(t *testing.T, a *resize.Allocator, asks map[string]string) int64 {
	t.Helper()
	left := int64(4000)
	for name, cpu := range asks {
		left -= a.Allocated(pod(name, cpu, "1Mi")).Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
	}
	return left
}
