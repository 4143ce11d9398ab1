package syncpod

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Only a failed pull requests a sync soon, so that it is reported as ImagePullBackOff.
func TestNextLook(t *testing.T) {
	in := func(d time.Duration) time.Time { return time.Now().Add(d) }
	minute := in(time.Minute)
	for name, tc := range map[string]struct {
		e    StepError
		want time.Time
	}{
		"failed pull":              {StepError{Step: stepImage, NotBefore: minute}, in(failureShownFor)},
		"failed pull, tried soon":  {StepError{Step: stepImage, NotBefore: in(time.Second)}, in(time.Second)},
		"pull that waits":          {StepError{Step: stepImage, NotBefore: minute, Waits: true}, minute},
		"failed create":            {StepError{Step: stepCreate, NotBefore: minute}, minute},
		"failure without any time": {StepError{Step: stepImage}, time.Time{}},
	} {
		if got := tc.e.nextSync(); got.Sub(tc.want).Abs() > 500*time.Millisecond {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// Several failures are retried at the time of the first retry.
func TestRetryAtOfSeveral(t *testing.T) {
	e := stepErrors{{NotBefore: now.Add(time.Minute)}, {NotBefore: now.Add(time.Second)}, {NotBefore: now.Add(time.Hour)}}
	if got := e.RetryAt(); !got.Equal(now.Add(time.Second)) {
		t.Errorf("at %v, want after a second", got)
	}
}

// Events of one kind are counted together because no identifier is in them.
func TestEventsHaveNoIDs(t *testing.T) {
	names := idNames(&runtime.PodStatus{
		Sandboxes:  []runtime.SandboxStatus{{ID: "4f1e"}, {}},
		Containers: []runtime.ContainerStatus{{Name: "app", ID: runtime.ContainerID{ID: "99aa"}}, {ID: runtime.ContainerID{ID: "77bb"}}},
	})
	got := withoutIDs(errors.New("sandbox 4f1e: container 99aa, container 77bb"), names...)
	if want := "sandbox of the pod: container app, container of the pod"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// The identifier that begins first is replaced, and the first one in the list if several do; names are not searched again.
func TestIDsAreReplacedOnce(t *testing.T) {
	got := withoutIDs(errors.New("ab abc b xa"), "b", "B", "ab", "b", "abc", "never", "x", "a", "a", "A")
	if want := "b bc B aA"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A runtime chooses its identifiers. With the square of this length the test would take hours.
func TestIDsOfAnyLengthAreReplaced(t *testing.T) {
	id := strings.Repeat("a", 4<<20)
	if got := withoutIDs(errors.New("no sandbox "+id+"!"), id, "of the pod"); got != "no sandbox of the pod!" {
		t.Errorf("%.100q", got)
	}
}

// C10: an event reports the removal of a limit only if the limit was set.
func TestC10_LiftedLimits(t *testing.T) {
	for name, tc := range map[string]struct {
		before        runtime.ContainerResources
		now           *runtimeapi.LinuxContainerResources
		quota, memory int64
	}{
		"never any":      {now: &runtimeapi.LinuxContainerResources{}},
		"none any more":  {runtime.ContainerResources{CPULimit: 100, MemoryLimit: 1 << 20}, &runtimeapi.LinuxContainerResources{}, -1, -1},
		"other ones now": {runtime.ContainerResources{CPULimit: 100, MemoryLimit: 1 << 20}, &runtimeapi.LinuxContainerResources{CpuQuota: 5, MemoryLimitInBytes: 6}, 5, 6},
	} {
		lift(tc.now, &tc.before)
		if tc.now.CpuQuota != tc.quota || tc.now.MemoryLimitInBytes != tc.memory {
			t.Errorf("%s: quota %d, memory %d", name, tc.now.CpuQuota, tc.now.MemoryLimitInBytes)
		}
	}
}

// No part of a link's name leads out of its directory, or makes it too long.
func TestLogLinkParts(t *testing.T) {
	pod := func(ns, name string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	}
	for _, tc := range []struct {
		pod           *v1.Pod
		container, id string
	}{{pod("..", "a"), "c", "1"}, {pod("ns", ".."), "c", "1"}, {pod("ns", "a"), "..", "1"}, {pod("ns", "a"), "c", ".."}, {nil, "c", "1"}} {
		if name, err := logLinkName(tc.pod, tc.container, tc.id); err == nil {
			t.Errorf("%q is a name", name)
		}
	}
	if name, err := logLinkName(pod("ns", strings.Repeat("a", 253)), "c", strings.Repeat("1", 64)); err != nil || len(name) != 255 || !strings.HasSuffix(name, ".log") {
		t.Errorf("%d characters, %v, want 255 that end with %q", len(name), err, ".log")
	}
}

// The message of a back-off does not change during the wait.
func TestWaitSince(t *testing.T) {
	until := now.Add(5 * time.Second)
	for end, want := range map[time.Time]time.Duration{
		now.Add(-15 * time.Second): 20 * time.Second, {}: 5 * time.Second, now.Add(time.Hour): 5 * time.Second,
	} {
		if got := waitSince(end, now, until); got != want {
			t.Errorf("ended %v: %v, want %v", end, got, want)
		}
	}
}

func TestTotalMemory(t *testing.T) {
	for text, want := range map[string]int64{
		"MemFree: 1 kB\nMemTotal:       16 kB\n": 16 << 10, "": DefaultMemoryBytes, "MemTotal: much\n": DefaultMemoryBytes, "MemTotal: 0 kB\n": DefaultMemoryBytes,
		strings.Repeat("x", 64<<10) + "\nMemTotal: 16 kB\n": DefaultMemoryBytes, // a line that long is not read
	} {
		if got := totalMemory(strings.NewReader(text)); got != want {
			t.Errorf("%.100q: %d, want %d", text, got, want)
		}
	}
}

// A link replaces an older one, and is created only if the log exists.
func TestReplaceLink(t *testing.T) {
	dir := t.TempDir()
	link, log := filepath.Join(dir, "link"), filepath.Join(dir, "0.log")
	if err := replaceLink(log, link); err == nil {
		t.Error("a link to nothing")
	}
	if err := os.WriteFile(log, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := replaceLink(log, link); err != nil {
			t.Error(err)
		}
	}
	if to, err := os.Readlink(link); to != log || err != nil {
		t.Errorf("a link to %s, %v, want %v and no error", to, err, log)
	}
}

// Only what keeps a container from starting is a reason why it waits.
func TestStartErrors(t *testing.T) {
	of := func(step Step, name string) *StepError {
		return &StepError{Step: step, Reason: Reason(step), Container: actions.ContainerRef{Name: name}}
	}
	got := startErrors([]*StepError{of(stepKill, "a"), of(stepResize, "b"), of(stepSandbox, ""), of(stepCreate, "c")})
	if len(got) != 1 || got["c"].Reason != "create" {
		t.Errorf("%+v, want the one of c", got)
	}
}

// slowSecrets are pull secrets that take 12 s.
type slowSecrets struct{ asked atomic.Int32 }

func (s *slowSecrets) PullSecrets(ctx context.Context, _ *v1.Pod) ([]v1.Secret, error) {
	s.asked.Add(1)
	select {
	case <-time.After(12 * time.Second):
		return []v1.Secret{{}}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// R3: a container that may use the image that it has gives up earlier than those that need the secrets, which get them nevertheless.
// The others share one request.
func TestR3_PullSecretsForThoseThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, secrets := &slowSecrets{}, &pullSecrets{}
		s := &Syncer{config: Config{Objects: Objects{PullSecrets: source}}}
		ask := func(patience time.Duration, want int) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if got, err := secrets.of(ctx, s, &v1.Pod{}, "app"); len(got) != want || (err != nil) != (want == 0) {
				t.Errorf("with a patience of %v: %d secrets, %v, want %d", patience, len(got), err, want)
			}
		}
		var all sync.WaitGroup
		all.Go(func() { ask(10*time.Second, 0) })
		synctest.Wait()
		all.Go(func() { ask(time.Second, 0) })
		for range 3 {
			all.Go(func() { ask(time.Hour, 1) })
		}
		all.Wait()
		secrets = &pullSecrets{}
		began := time.Now()
		for range 3 { // the images of one container wait once in all
			ask(10*time.Second, 0)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("three images waited for %v, want 10s", took)
		}
		if n := source.asked.Load(); n != 3 {
			t.Errorf("asked %d times, want 3", n)
		}
	})
}
