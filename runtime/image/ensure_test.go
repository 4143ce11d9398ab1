package image

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/container/env"
)

// ensure calls EnsureImageExists and releases the image.
func ensure(t *testing.T, m *Manager, req Request) error {
	t.Helper()
	img, err := m.EnsureImageExists(t.Context(), req)
	if err == nil {
		img.Release()
	}
	return err
}

func TestEnsureImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registry{pullTime: time.Minute}
		m := newTestManager(t, Settings{Runtime: r})
		asked := 0
		req := Request{Image: "r.io/app:v1", PodUID: "u", RuntimeHandler: "kata", OnPull: func() { asked++ }}
		img := must.Get(m.EnsureImageExists(t.Context(), req))(t)
		if !img.Pulled || img.PullTook != time.Minute || img.ID != stored("r.io/app:v1").Id || img.Size != 42 || img.UID == nil || *img.UID != 1000 {
			t.Errorf("image %+v, want it pulled in %v, with ID %v, size 42 and user 1000", img, time.Minute, stored("r.io/app:v1").Id)
		}
		again, err := m.EnsureImageExists(t.Context(), req)
		if err != nil || again.Pulled || asked != 1 || len(r.pulls) != 1 {
			t.Errorf("again: %+v, %v; asked %d times, pulls %v", again, err, asked, r.pulls)
		}
	})
}

// A registry that is unavailable stops no restart of a container that has run with the image that is present, whatever the
// policy. A pod that has not used the image waits.
func TestR3_RegistryThatIsUnavailable(t *testing.T) {
	for name, tc := range map[string]struct {
		fails  error
		policy v1.PullPolicy
		pod    types.UID
		used   string
		starts bool
		fetch  func(context.Context) ([]v1.Secret, error)
	}{
		"the same pod":           {status.Error(codes.Unavailable, "dial tcp"), v1.PullAlways, "u", "", true, nil},
		"after a restart":        {status.Error(codes.Unavailable, "dial tcp"), v1.PullAlways, "other", stored("r.io/app:v1").Id, true, nil},
		"another pod":            {status.Error(codes.Unavailable, "dial tcp"), v1.PullAlways, "other", "", false, nil},
		"it used another image":  {status.Error(codes.Unavailable, "dial tcp"), v1.PullAlways, "other", "sha256:x", false, nil},
		"the registry refuses":   {status.Error(codes.PermissionDenied, "denied"), v1.PullAlways, "u", "", false, nil},
		"the image is not there": {status.Error(codes.NotFound, "no such tag"), v1.PullAlways, "u", "", false, nil},
		"as containerd says it": {status.Error(codes.Unknown, `failed to resolve reference "r.io/app:v1": failed to do request: Head "https://r.io/v2/app/manifests/v1": dial tcp: lookup r.io: no such host`),
			v1.PullAlways, "u", "", true, nil},
		"as CRI-O says it":   {status.Error(codes.Unknown, "pinging container registry r.io: received unexpected HTTP status: 503 Service Unavailable"), v1.PullAlways, "u", "", true, nil},
		"no progress":        {status.Error(codes.Canceled, "context canceled"), v1.PullAlways, "u", "", true, nil},
		"an unknown refusal": {status.Error(codes.Unknown, "unexpected status from HEAD request to https://r.io/v2/app: 401 Unauthorized"), v1.PullAlways, "u", "", false, nil},
		"no credentials can be had": {status.Error(codes.PermissionDenied, "denied"), v1.PullAlways, "u", "", true, func(context.Context) ([]v1.Secret, error) {
			return nil, errors.New("the plugin does not work")
		}},
		"credentials take long": {status.Error(codes.PermissionDenied, "denied"), v1.PullAlways, "u", "", true, func(ctx context.Context) ([]v1.Secret, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}},
		"credentials do not exist": {status.Error(codes.PermissionDenied, "denied"), v1.PullAlways, "u", "", false, func(context.Context) ([]v1.Secret, error) {
			return nil, env.ErrNotFound
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &registry{}
				m := newTestManager(t, Settings{Runtime: r})
				must.Do(t, ensure(t, m, Request{Image: "r.io/app:v1", PodUID: "u", Policy: v1.PullAlways}))
				r.fails = tc.fails
				for range 3 {
					if err := ensure(t, m, Request{Image: "r.io/app:v1", PodUID: tc.pod, Used: []string{tc.used}, Policy: tc.policy, FetchSecrets: tc.fetch}); (err == nil) != tc.starts {
						t.Errorf("%v, want a start: %v", err, tc.starts)
					}
				}
			})
		})
	}
}

func TestReasons(t *testing.T) {
	for name, tc := range map[string]struct {
		req    Request
		fails  error
		reason Reason
		class  cri.Class
	}{
		"no name":    {Request{}, nil, ErrInvalidImageName, ""},
		"bad name":   {Request{Image: "a b"}, nil, ErrInvalidImageName, ""},
		"never":      {Request{Image: "a", Policy: v1.PullNever}, nil, ErrImageNeverPull, ""},
		"not found":  {Request{Image: "a"}, status.Error(codes.NotFound, "x"), ErrImagePull, cri.ErrNotFound},
		"registry":   {Request{Image: "a"}, status.Error(codes.Unknown, "RegistryUnavailable: EOF"), ErrRegistryUnavailable, cri.ErrRegistryUnavailable},
		"signature":  {Request{Image: "a"}, status.Error(codes.Unknown, "SignatureValidationFailed: no"), ErrSignatureValidation, cri.ErrSignature},
		"bad secret": {Request{Image: "a", Secrets: []v1.Secret{{Data: map[string][]byte{v1.DockerConfigKey: []byte("x")}}}}, nil, ErrImagePull, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := ensure(t, newTestManager(t, Settings{Runtime: &registry{fails: tc.fails}}), tc.req)
				var e *Error
				if !errors.As(err, &e) || e.Reason != tc.reason || !errors.Is(err, tc.reason) || e.Image != tc.req.Image {
					t.Fatalf("error %#v, want reason %q", err, tc.reason)
				}
				if tc.class != "" && !errors.Is(err, tc.class) {
					t.Errorf("error %v, want class %q", err, tc.class)
				}
				if want := tc.fails != nil; !e.RetryAt.IsZero() != want {
					t.Errorf("retry at %v; a pull was made: %v", e.RetryAt, want)
				}
			})
		})
	}
}

func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registry{fails: status.Error(codes.NotFound, "manifest unknown")}
		m := newTestManager(t, Settings{Runtime: r})
		req := Request{Image: "r.io/app:v1", PodUID: "u"}
		began := time.Now()
		var tried []time.Duration
		for time.Since(began) < 20*time.Minute {
			err := ensure(t, m, req)
			var e *Error
			if !errors.As(err, &e) {
				t.Fatal(err)
			}
			switch e.Reason {
			case ErrImagePull:
				tried = append(tried, time.Since(began).Round(time.Second))
			case ErrImagePullBackOff:
				if !errors.Is(err, cri.ErrNotFound) || errors.Is(err, ErrImagePull) || !strings.Contains(err.Error(), "manifest unknown") {
					t.Fatalf("back-off error %v does not carry the cause alone", err)
				}
			}
			if !e.RetryAt.After(time.Now()) {
				t.Fatalf("next try at %v", e.RetryAt)
			}
			time.Sleep(min(time.Until(e.RetryAt), 7*time.Second))
		}
		want := []time.Duration{0, 10, 30, 70, 150, 310, 610, 910}
		for i := range want {
			want[i] *= time.Second
		}
		if !slices.Equal(tried, want) {
			t.Errorf("pulls at %v, want %v", tried, want)
		}
		r.fails = nil
		time.Sleep(5 * time.Minute)
		must.Do(t, ensure(t, m, req))
		r.fails, r.present = status.Error(codes.NotFound, "x"), nil
		var e *Error
		if err := ensure(t, m, req); !errors.As(err, &e) || time.Until(e.RetryAt) != 10*time.Second {
			t.Errorf("after a success: %v, want the first pause again", e)
		}
		m.Forget("u")
		if err := ensure(t, m, req); !errors.Is(err, ErrImagePull) {
			t.Errorf("after Forget: %v, want a pull", err)
		}
	})
}

func TestBackOffIsPerPodAndImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registry{fails: status.Error(codes.NotFound, "x")}
		m := newTestManager(t, Settings{Runtime: r})
		for _, req := range []Request{{Image: "a", PodUID: "u"}, {Image: "a", PodUID: "v"}, {Image: "b", PodUID: "u"}} {
			if err := ensure(t, m, req); !errors.Is(err, ErrImagePull) {
				t.Errorf("%s for %s: %v, want a pull", req.Image, req.PodUID, err)
			}
		}
		if n := len(m.retries.causes); n != 3 {
			t.Errorf("%d failures noted", n)
		}
		time.Sleep(time.Hour)
		if ensure(t, m, Request{Image: "c", PodUID: "w"}); len(m.retries.causes) != 1 {
			t.Errorf("%d failures noted an hour later, want the new one", len(m.retries.causes))
		}
	})
}

// B3: other credentials are tried immediately, the same ones after the back-off.
func TestB3_AChangedSecretEndsTheBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registry{password: "right"}
		m := newTestManager(t, Settings{Runtime: r})
		req := Request{Image: "r.io/app:v1", PodUID: "u", Secrets: []v1.Secret{loginSecret("s", "r.io", "bob", "wrong")}}
		for range 5 {
			if err := ensure(t, m, req); !errors.Is(err, ErrImagePull) {
				t.Fatalf("%v, want a failed pull", err)
			}
			if err := ensure(t, m, req); !errors.Is(err, ErrImagePullBackOff) {
				t.Fatalf("%v, want a back-off", err)
			}
			var e *Error
			errors.As(ensure(t, m, req), &e)
			time.Sleep(time.Until(e.RetryAt))
		}
		if err := ensure(t, m, req); !errors.Is(err, ErrImagePull) {
			t.Fatal(err)
		}
		renamed := req
		renamed.Secrets = []v1.Secret{loginSecret("renamed", "r.io", "bob", "wrong"), loginSecret("more", "other.io", "eve", "x")}
		if err := ensure(t, m, renamed); !errors.Is(err, ErrImagePullBackOff) {
			t.Errorf("the same credential in another secret: %v, want a back-off", err)
		}
		req.Secrets = []v1.Secret{loginSecret("s", "r.io", "bob", "right")}
		must.Do(t, ensure(t, m, req))
	})
}

func TestCredentialsAreTriedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registry{password: "right"}
		m := newTestManager(t, Settings{Runtime: r})
		err := ensure(t, m, Request{Image: "r.io/app:v1", Secrets: []v1.Secret{
			loginSecret("1", "*.io", "wild", "right"), loginSecret("2", "r.io/app", "repo", "wrong"), loginSecret("3", "r.io", "host", "wrong, too"),
		}})
		if want := []string{"r.io/app:v1 as repo", "r.io/app:v1 as host", "r.io/app:v1 as wild"}; err != nil || !slices.Equal(r.pulls, want) {
			t.Errorf("pulls %v, %v; want %v", r.pulls, err, want)
		}
		r.password, r.pulls, r.present = "other", nil, nil
		err = ensure(t, m, Request{Image: "r.io/app:v1", Secrets: []v1.Secret{loginSecret("1", "r.io", "a", "hunter2"), loginSecret("2", "r.io", "b", "hunter3")}})
		if err == nil || strings.Contains(err.Error(), "hunter") || strings.Count(err.Error(), "[redacted]") != 2 {
			t.Errorf("error %v, want both failures without the passwords", err)
		}
	})
}

// Concurrent requests for the same image share one pull.
func TestPullsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registry{pullTime: time.Minute}
		m := newTestManager(t, Settings{Runtime: r})
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Second)
				if err := ensure(t, m, Request{Image: "r.io/app:v1", PodUID: types.UID(fmt.Sprint(i))}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Go(func() {
			ensure(t, m, Request{Image: "r.io/app:v1", PodUID: "with a login", Secrets: []v1.Secret{loginSecret("s", "r.io", "bob", "p")}})
		})
		wg.Wait()
		slices.Sort(r.pulls)
		if want := []string{"r.io/app:v1", "r.io/app:v1 as bob"}; !slices.Equal(r.pulls, want) {
			t.Errorf("pulls %v, want one for each credential", r.pulls)
		}
	})
}

// W2: a request ends with its own context; the pull ends with the last request.
func TestW2_PullEndsWhenNoCallerWaits(t *testing.T) {
	for _, stubborn := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := &registry{pullTime: time.Hour, stubborn: stubborn}
			m := newTestManager(t, Settings{Runtime: r})
			began := time.Now()
			var wg sync.WaitGroup
			for i := range 3 {
				leaves := time.Duration(i+1) * time.Minute
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), leaves)
					defer cancel()
					_, err := m.EnsureImageExists(ctx, Request{Image: "r.io/app:v1", PodUID: types.UID(fmt.Sprint(i))})
					var e *Error
					if !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &e) {
						t.Errorf("%v, want the context's error alone", err)
					}
					if took := time.Since(began); took != leaves {
						t.Errorf("left after %v, want %v", took, leaves)
					}
					synctest.Wait()
					if gone := r.gaveUp() == 1; gone != (i == 2 && !stubborn) {
						t.Errorf("after %v: pulls cancelled: %d", leaves, r.gaveUp())
					}
				})
			}
			wg.Wait()
			if len(r.pulls) != 1 || len(m.retries.causes) != 0 {
				t.Errorf("pulls %v, failures noted: %d", r.pulls, len(m.retries.causes))
			}
			r.mu.Lock()
			r.stubborn, r.pullTime = false, time.Second
			r.mu.Unlock()
			must.Do(t, ensure(t, m, Request{Image: "r.io/app:v1"}))
		})
	}
}

// A pull that continues without a waiting request is not used for the next request.
func TestW2_AbandonedPullBelongsToNoPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registry{pullTime: time.Minute, stubborn: true}
		m := newTestManager(t, Settings{Runtime: r})
		req := Request{Image: "r.io/app:v1", Policy: v1.PullAlways}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		m.EnsureImageExists(ctx, req)
		go ensure(t, m, req) // from 30 s on, while the abandoned pull ends at 60 s
		time.Sleep(45 * time.Second)
		ensure(t, m, req)
		if len(r.pulls) != 2 {
			t.Errorf("pulls %v, want the last two requests to share the second", r.pulls)
		}
	})
}

// W2: with its context, a request ends its whole list of credentials.
func TestW2_NoFurtherCredentialIsTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registry{pullTime: time.Minute}
		m := newTestManager(t, Settings{Runtime: r})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		m.EnsureImageExists(ctx, Request{Image: "r.io/app:v1", Secrets: []v1.Secret{loginSecret("1", "r.io", "a", "p"), loginSecret("2", "r.io", "b", "p")}})
		m.Wait()
		if want := []string{"r.io/app:v1 as a"}; !slices.Equal(r.pulls, want) {
			t.Errorf("pulls %v, want %v", r.pulls, want)
		}
	})
}

func TestInspectAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registry{inspect: status.Error(codes.NotFound, "no such image")}
		if err := ensure(t, newTestManager(t, Settings{Runtime: r}), Request{Image: "a:v1", Policy: v1.PullNever}); !errors.Is(err, ErrImageNeverPull) {
			t.Errorf("a runtime that says not found: %v", err)
		}
		r = &registry{inspect: status.Error(codes.Unavailable, "x")}
		err := ensure(t, newTestManager(t, Settings{Runtime: r}), Request{Image: "a:v1"})
		if !errors.Is(err, ErrImageInspect) || !errors.Is(err, cri.ErrUnavailable) || len(r.pulls) != 0 {
			t.Errorf("a runtime that cannot say: %v; pulls %v", err, r.pulls)
		}
		r = &registry{inspect: status.Error(codes.NotFound, "no such image")}
		if err := ensure(t, newTestManager(t, Settings{Runtime: r}), Request{Image: "a:v1"}); !errors.Is(err, ErrImageInspect) {
			t.Errorf("an image that is not there after its pull: %v", err)
		}
	})
}

// The program's settings decide how long the waits after failed pulls are.
func TestBackOffOfTheProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, Settings{Runtime: &registry{password: "right"}, InitialBackOff: time.Second, MaxBackOff: 2 * time.Second})
		for _, wait := range []time.Duration{time.Second, 2 * time.Second, 2 * time.Second} {
			_, err := m.EnsureImageExists(t.Context(), Request{Image: "missing:v1"})
			failed, ok := errors.AsType[*Error](err)
			if !ok || time.Until(failed.RetryAt) != wait {
				t.Fatalf("%v, want a wait of %v", err, wait)
			}
			time.Sleep(wait)
		}
	})
}

// G3: the limit delays neither present images nor, beyond their turn, other pulls. Waiting pulls start in order.
func TestG3_Limit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registry{pullTime: time.Minute}
		r.add("there:v1")
		m := newTestManager(t, Settings{Runtime: r, MaxParallelPulls: 2})
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Second)
				if err := ensure(t, m, Request{Image: fmt.Sprintf("app%d:v1", i)}); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(10 * time.Second)
		began := time.Now()
		if err := ensure(t, m, Request{Image: "there:v1"}); err != nil || time.Since(began) != 0 {
			t.Errorf("an image that is there took %v (%v)", time.Since(began), err)
		}
		wg.Wait()
		if want := []string{"app0:v1", "app1:v1", "app2:v1", "app3:v1", "app4:v1", "app5:v1"}; !slices.Equal(r.pulls, want) || r.most != 2 {
			t.Errorf("pulls %v, %d at once; want them in order, 2 at once", r.pulls, r.most)
		}
	})
}

// A registry that sends its images without end does not keep those of others waiting.
func TestG3_SlowPullsDelayNoOthersForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registry{pullTime: 24 * time.Hour}
		m := newTestManager(t, Settings{Runtime: r, MaxParallelPulls: 2})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() { _, _ = m.EnsureImageExists(ctx, Request{Image: fmt.Sprintf("evil%d:v1", i)}) })
		}
		time.Sleep(time.Second)
		for minutes, want := range []int{2, 2, 4, 4, 5} {
			r.mu.Lock()
			if len(r.pulls) != want {
				t.Errorf("after %d minutes %d pulls have begun, want %d", minutes, len(r.pulls), want)
			}
			r.mu.Unlock()
			time.Sleep(time.Minute)
		}
		cancel()
		wg.Wait()
		m.Wait()
		r.pullTime = time.Second // the slots are free again, and not more than there were
		r.most = 0
		for i := range 6 {
			wg.Go(func() {
				if err := ensure(t, m, Request{Image: fmt.Sprintf("app%d:v1", i)}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if r.most != 2 {
			t.Errorf("%d pulls at once, want 2", r.most)
		}
	})
}

// B5: a pod that waits for a slot has not failed.
func TestB5_WaitingIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registry{pullTime: time.Hour}
		m := newTestManager(t, Settings{Runtime: r, MaxParallelPulls: 1})
		go ensure(t, m, Request{Image: "slow:v1"})
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := m.EnsureImageExists(ctx, Request{Image: "app:v1", PodUID: "u"})
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrImagePull) {
			t.Errorf("deleted while it waited: %v, want its context's error", err)
		}
		must.Do(t, ensure(t, m, Request{Image: "app:v1", PodUID: "u"}))
		if want := []string{"slow:v1", "app:v1"}; !slices.Equal(r.pulls, want) {
			t.Errorf("pulls %v, want %v", r.pulls, want)
		}
	})
}

// The duration of the pull itself is reported separately from the time in the queue.
func TestPullRanWithoutWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, Settings{Runtime: &registry{pullTime: time.Minute}, MaxParallelPulls: 1})
		go ensure(t, m, Request{Image: "first:v1"})
		time.Sleep(time.Second)
		img, err := m.EnsureImageExists(t.Context(), Request{Image: "app:v1"})
		if err != nil || img.PullRan != time.Minute || img.PullTook != 119*time.Second {
			t.Errorf("%+v, %v, want a pull of 1m0s that took 1m59s with waiting", img, err)
		}
	})
}

// notes records the calls of an Observer.
type notes struct{ lines []string }

func (n *notes) PullStarted(p Pull) { n.note("started %s after %v", p.Image, p.Waited) }
func (n *notes) PullProgress(p Pull, d time.Duration) {
	n.note("%s since %v", p.Image, d)
}
func (n *notes) PullFinished(p Pull, d time.Duration, err error) {
	n.note("finished %s in %v: %v", p.Image, d, err)
}
func (n *notes) note(format string, args ...any) {
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

func TestObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &notes{}
		r := &registry{pullTime: 25 * time.Second, password: "right"}
		m := newTestManager(t, Settings{Runtime: r, Observer: n})
		ensure(t, m, Request{Image: "app:v1", Secrets: []v1.Secret{loginSecret("s", "docker.io", "bob", "hunter2")}})
		want := []string{
			"started app:v1 after 0s", "app:v1 since 10s", "app:v1 since 20s",
			`finished app:v1 in 25s: pull app:v1: 401 for password "[redacted]" (Unknown)`,
		}
		if !slices.Equal(n.lines, want) {
			t.Errorf("events %q, want %q", n.lines, want)
		}
	})
}

func TestARequestIsNotWrittenTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		req := Request{Image: "app", PodUID: "u", PodAnnotations: map[string]string{"a": "b"}, Secrets: []v1.Secret{loginSecret("s", "docker.io", "bob", "p")}}
		before := req
		before.PodAnnotations, before.Secrets = map[string]string{"a": "b"}, []v1.Secret{*req.Secrets[0].DeepCopy()}
		if err := ensure(t, newTestManager(t, Settings{Runtime: &registry{}}), req); err != nil || !reflect.DeepEqual(req, before) {
			t.Errorf("the request is %+v (%v)", req, err)
		}
	})
}

func TestNewValidates(t *testing.T) {
	if _, err := New(Config{}); err == nil || !strings.Contains(err.Error(), "Config.Runtime") {
		t.Errorf("%v; want an error that names Config.Runtime", err)
	}
}

// Wait and EnsureImageExists may be called concurrently; the race detector checks this.
func TestWaitBesideEnsureImage(t *testing.T) {
	m := newTestManager(t, Settings{Runtime: &registry{}, ShareImages: true})
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				m.Wait()
			}
		}
	}()
	for i := range 300 {
		must.Do(t, ensure(t, m, Request{Image: fmt.Sprintf("a%d", i%3), Policy: v1.PullAlways}))
	}
	close(stop)
	<-stopped
}

// Wait waits for a pull that everybody has left.
func TestWaitForAnAbandonedPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, Settings{Runtime: &registry{pullTime: time.Hour, stubborn: true}})
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := m.EnsureImageExists(ctx, Request{Image: "a"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if m.Wait(); time.Since(began) != time.Hour {
			t.Errorf("returned after %v", time.Since(began))
		}
	})
}

func TestARequestDoesNotPrintItsSecrets(t *testing.T) {
	req := Request{Image: "a:v1", Secrets: []v1.Secret{loginSecret("s", "r.io", "bob", "hunter2")}}
	for _, v := range []any{req, &req, []Request{req}, struct{ R Request }{req}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			text := fmt.Sprintf(verb, v)
			for _, secret := range []string{"hunter2", fmt.Sprintf("%x", "hunter2"), strings.Trim(fmt.Sprint([]byte("hunter2")), "[]"), "0x68, 0x75"} {
				if strings.Contains(text, secret) {
					t.Errorf("%s prints a secret: %s", verb, text)
				}
			}
		}
	}
	if text := req.String(); !strings.Contains(text, "a:v1") {
		t.Errorf("%s does not name the requested image", text)
	}
}
