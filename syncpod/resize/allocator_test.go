package resize_test

import (
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

	"github.com/podsync/podsync/syncpod/resize"
)

// agent is a new Allocator with the files in dir.
func agent(t *testing.T, dir string, adjust ...func(*resize.Config)) *resize.Allocator {
	t.Helper()
	c := resize.Config{State: dir, Allocatable: amounts("4", "8Gi")}
	for _, a := range adjust {
		a(&c)
	}
	a, err := resize.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// allot returns the CPU that a pod is allotted, and why not what it asks for.
func allot(t *testing.T, a *resize.Allocator, p *v1.Pod) (cpu string, waits resize.Outcome) {
	t.Helper()
	answer, err := a.Allot(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if answer.Waits != nil {
		waits = answer.Waits.Outcome
	}
	return answer.Pod.Spec.Containers[0].Resources.Requests.Cpu().String(), waits
}

func wantAllot(t *testing.T, a *resize.Allocator, p *v1.Pod, cpu string, waits resize.Outcome) {
	t.Helper()
	if got, why := allot(t, a, p); got != cpu || why != waits {
		t.Errorf("pod %s is allotted %s, %q; want %s, %q", p.Name, got, why, cpu, waits)
	}
}

func TestAllocator(t *testing.T) {
	a := agent(t, t.TempDir())
	var told []types.UID
	a.Notify(func(uid types.UID) { told = append(told, uid) })
	wantAllot(t, a, pod("a", "1", "1Gi"), "1", "")
	wantAllot(t, a, pod("b", "2", "1Gi"), "2", "")
	wantAllot(t, a, pod("a", "2", "1Gi"), "2", "")
	wantAllot(t, a, pod("a", "3", "1Gi"), "2", resize.Deferred)
	wantAllot(t, a, pod("b", "5", "1Gi"), "2", resize.Infeasible)
	if got := a.Allotted(pod("a", "3", "1Gi")).Spec.Containers[0].Resources.Limits.Cpu().String(); got != "2" {
		t.Errorf("allotted %s", got)
	}
	if got := a.Allotted(pod("never", "3", "1Gi")).Spec.Containers[0].Resources.Limits.Cpu().String(); got != "3" {
		t.Errorf("a pod that is not known is allotted %s", got)
	}
	wantAllot(t, a, pod("b", "1", "1Gi"), "1", "") // which makes room
	if !slices.Equal(told, []types.UID{"a"}) {
		t.Errorf("told of %v", told)
	}
	wantAllot(t, a, pod("a", "3", "1Gi"), "3", "")
	wantAllot(t, a, pod("b", "4", "1Gi"), "1", resize.Deferred)
	if err := a.CleanPod(t.Context(), pod("a", "3", "1Gi")); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(told, []types.UID{"a", "b"}) {
		t.Errorf("told of %v", told)
	}
	wantAllot(t, a, pod("b", "4", "1Gi"), "4", "")
	wantAllot(t, a, pod("a", "3", "1Gi"), "3", "") // a new one: admission has let it in
}

// A pod that takes its wish back does not wait any more, and a new wish is decided anew.
func TestWishChanges(t *testing.T) {
	a := agent(t, t.TempDir())
	wantAllot(t, a, pod("a", "1", "1Gi"), "1", "")
	wantAllot(t, a, pod("a", "9", "1Gi"), "1", resize.Infeasible)
	wantAllot(t, a, pod("a", "1", "1Gi"), "1", "")
	wantAllot(t, a, pod("a", "9", "1Gi"), "1", resize.Infeasible)
	wantAllot(t, a, pod("a", "4", "1Gi"), "4", "")
}

// When room is made, those that come first get it, and one that does not fit does not
// hold up those behind it.
func TestRoomGoesByOrder(t *testing.T) {
	a := agent(t, t.TempDir())
	var told []types.UID
	a.Notify(func(uid types.UID) { told = append(told, uid) })
	first := func(p *v1.Pod) { p.Spec.Priority = new(int32(100)) }
	second := func(p *v1.Pod) { p.Spec.Priority = new(int32(50)) }
	for _, p := range []*v1.Pod{pod("low", "500m", "1Gi"), pod("high", "500m", "1Gi", first), pod("big", "500m", "1Gi", second), pod("gone", "2500m", "1Gi")} {
		allot(t, a, p)
	}
	wantAllot(t, a, pod("low", "2", "1Gi"), "500m", resize.Deferred)
	wantAllot(t, a, pod("big", "4", "1Gi", second), "500m", resize.Deferred)
	wantAllot(t, a, pod("high", "1500m", "1Gi", first), "500m", resize.Deferred)
	if err := a.RemovePod(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(told, []types.UID{"high", "low"}) {
		t.Errorf("told of %v", told)
	}
	wantAllot(t, a, pod("big", "4", "1Gi", second), "500m", resize.Deferred)
}

// What was allotted outlives the agent, and what other pods are allotted counts before
// they have been seen again.
func TestAllotmentsOutliveTheAgent(t *testing.T) {
	dir := t.TempDir()
	a := agent(t, dir)
	allot(t, a, pod("a", "1", "1Gi"))
	allot(t, a, pod("b", "2", "1Gi", overhead("500m")))
	wantAllot(t, a, pod("a", "2", "1Gi"), "1", resize.Deferred)
	a = agent(t, dir)
	wantAllot(t, a, pod("a", "2", "1Gi"), "1", resize.Deferred)
	if err := a.RemovePod(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	wantAllot(t, a, pod("a", "2", "1Gi"), "2", "")
	a = agent(t, dir)
	wantAllot(t, a, pod("a", "5", "1Gi"), "2", resize.Infeasible)
	if err := a.RemovePod(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, error %v", left, err)
	}
}

// A file that was cut is as none, and its pod is allotted what it asks for.
func TestFileThatWasCut(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.json"), []byte(`{"containers":{"app"`), 0o600); err != nil {
		t.Fatal(err)
	}
	a := agent(t, dir)
	wantAllot(t, a, pod("a", "2", "1Gi"), "2", "")
	wantAllot(t, agent(t, dir), pod("a", "9", "1Gi"), "2", resize.Infeasible)
}

// What cannot be written down is not allotted.
func TestDiskThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	a := agent(t, dir)
	allot(t, a, pod("a", "1", "1Gi"))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*v1.Pod{pod("a", "2", "1Gi"), pod("new", "1", "1Gi")} {
		if _, err := a.Allot(t.Context(), p); err == nil || !strings.Contains(err.Error(), p.Name) {
			t.Errorf("error %v, want one about pod %s", err, p.Name)
		}
	}
	if got := a.Allotted(pod("a", "2", "1Gi")).Spec.Containers[0].Resources.Requests.Cpu().String(); got != "1" {
		t.Errorf("allotted %s", got)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	wantAllot(t, a, pod("a", "2", "1Gi"), "2", "")
}

func TestAccepterOfTheEmbedder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		allowed, asked := resize.Verdict{Outcome: "Never heard of", Message: "not now"}, 0
		a := agent(t, t.TempDir(), func(c *resize.Config) {
			c.Retry = 5 * time.Second
			c.Accept = resize.AccepterFunc(func(r resize.Request) resize.Verdict {
				asked++
				if len(r.Beside) != 1 || r.Beside[0].UID != "b" || r.Allotted.Spec.Containers[0].Resources.Requests.Cpu().Value() != 1 {
					t.Errorf("request %+v", r)
				}
				return allowed
			})
		})
		allot(t, a, pod("b", "1", "1Gi"))
		allot(t, a, pod("a", "1", "1Gi"))
		answer, err := a.Allot(t.Context(), pod("a", "99", "1Gi"))
		if err != nil || answer.Waits == nil || *answer.Waits != (resize.Verdict{Outcome: resize.Deferred, Message: "not now"}) || time.Until(answer.NextTry) != 5*time.Second {
			t.Errorf("%+v, error %v", answer, err)
		}
		allowed.Outcome = resize.Accepted
		wantAllot(t, a, pod("a", "99", "1Gi"), "99", "")
		if asked != 2 {
			t.Errorf("asked %d times", asked)
		}
	})
}

func TestBadConfig(t *testing.T) {
	for want, c := range map[string]resize.Config{
		`Config.State is ""`:   {},
		"memory is -1":         {State: "/x", Allocatable: v1.ResourceList{"memory": resource.MustParse("-1")}},
		"Config.Retry is -1ns": {State: "/x", Retry: -1},
	} {
		if _, err := resize.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	_, err := agent(t, t.TempDir()).Allot(t.Context(), pod("../up", "1", "1Gi"))
	if err == nil || !strings.Contains(err.Error(), "metadata.uid") {
		t.Errorf("error %v", err)
	}
}

// Whatever is asked for, taken back and restarted: what all pods are allotted never is
// more than there is, and what could be accepted does not wait.
func TestAllocatorRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	dir := t.TempDir()
	a := agent(t, dir)
	asks := map[string]string{}
	for step := range 600 {
		name := fmt.Sprint("p", r.IntN(4))
		switch r.IntN(8) {
		case 0:
			if err := a.RemovePod(t.Context(), types.UID(name)); err != nil {
				t.Fatal(err)
			}
			delete(asks, name)
		case 1:
			a = agent(t, dir)
			for name, cpu := range asks {
				allot(t, a, pod(name, cpu, "1Mi"))
			}
		default:
			if asks[name] == "" {
				asks[name] = "1" // admission lets it in: four of these fit
				allot(t, a, pod(name, "1", "1Mi"))
			}
			if free(t, a, asks) >= 0 {
				asks[name] = fmt.Sprintf("%dm", 100*(1+r.IntN(50)))
				allot(t, a, pod(name, asks[name], "1Mi"))
				if left := free(t, a, asks); left < 0 {
					t.Fatalf("step %d: %dm more is allotted than there is", step, -left)
				}
			}
		}
		left := free(t, a, asks)
		for name, cpu := range asks {
			p := pod(name, cpu, "1Mi")
			has, asked := a.Allotted(p).Spec.Containers[0].Resources.Requests.Cpu().MilliValue(), p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
			if asked != has && asked-has <= left && left >= 0 {
				t.Fatalf("step %d: %s has %d, asks for %d and %d are free", step, name, has, asked, left)
			}
		}
	}
}

// free is the CPU that no pod is allotted. New pods may have been let in beside what was
// accepted before.
func free(t *testing.T, a *resize.Allocator, asks map[string]string) int64 {
	t.Helper()
	left := int64(4000)
	for name, cpu := range asks {
		left -= a.Allotted(pod(name, cpu, "1Mi")).Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
	}
	return left
}
