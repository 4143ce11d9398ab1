package image

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/image/keyring"
)

// An image that was pulled with a credential of the node is for all pods. A secret of an API server has a namespace, and is none of
// the node, whatever its type.
func TestG4_ACredentialOfTheNodeIsForAllPods(t *testing.T) {
	for namespace, open := range map[string]bool{"": true, "default": false} {
		synctest.Test(t, func(t *testing.T) {
			m := newTestManagerWith(t, Config{Settings: Settings{Runtime: &registry{password: "right"}}, Dir: t.TempDir()})
			secret := loginSecret("node", "r.io", "bob", "right")
			secret.Namespace, secret.Type = namespace, keyring.SecretTypeNode
			must.Do(t, ensure(t, m, Request{Image: "r.io/private:v1", PodUID: "first", Secrets: []v1.Secret{secret}}))
			err := ensure(t, m, Request{Image: "r.io/private:v1", PodUID: "second", Policy: v1.PullNever})
			if (err == nil) != open {
				t.Errorf("namespace %q: %v", namespace, err)
			}
		})
	}
}

// Which pods may use an image that a pod with a secret has pulled.
func TestG4_AccessToAPresentImage(t *testing.T) {
	bob := []v1.Secret{loginSecret("login", "r.io", "bob", "right")}
	const name = "r.io/private:v1"
	for what, tc := range map[string]struct {
		req    Request
		share  bool
		pulls  int // further pulls
		reason Reason
	}{
		"the same secret":          {req: Request{Image: name, Secrets: bob}},
		"the same login elsewhere": {req: Request{Image: name, Secrets: []v1.Secret{loginSecret("other", "https://r.io/v2/", "bob", "right")}}},
		"another that works":       {req: Request{Image: name, Secrets: []v1.Secret{loginSecret("s", "r.io", "alice", "right")}}, pulls: 1},
		"another that does not":    {req: Request{Image: name, Secrets: []v1.Secret{loginSecret("s", "r.io", "eve", "wrong")}}, pulls: 1, reason: ErrImagePull},
		"no secret":                {req: Request{Image: name}, pulls: 1, reason: ErrImagePull},
		"no secret, never pull":    {req: Request{Image: name, Policy: v1.PullNever}, reason: ErrImageNeverPull},
		"a broken secret":          {req: Request{Image: name, Secrets: []v1.Secret{{Data: map[string][]byte{v1.DockerConfigKey: []byte("x")}}}}, reason: ErrImagePull},
		"no secret, shared":        {req: Request{Image: name}, share: true},
		"no secret, preloaded":     {req: Request{Image: "r.io/preloaded:v1"}},
		"no secret, another tag":   {req: Request{Image: "r.io/private:loaded"}},
		"no secret, same image":    {req: Request{Image: "mirror.io/preloaded:v1"}},
		"no secret, by identifier": {req: Request{Image: stored(name).Id}, reason: ErrImagePull, pulls: 1},
		"by its beginning":         {req: Request{Image: stored(name).Id[:20]}, reason: ErrImagePull, pulls: 1},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &registry{password: "right"}
				r.add("r.io/preloaded:v1")
				r.add("r.io/private:loaded")
				r.add("mirror.io/preloaded:v1")
				m := newTestManager(t, Settings{Runtime: r, ShareImages: tc.share})
				must.Do(t, ensure(t, m, Request{Image: name, PodUID: "first", Secrets: bob}))
				r.alias(stored(name).Id, name)
				r.alias(stored(name).Id[:20], name)
				r.alias("mirror.io/preloaded:v1", name)
				tc.req.PodUID = "second"
				err := ensure(t, m, tc.req)
				if tc.reason == "" && err != nil || tc.reason != "" && !errors.Is(err, tc.reason) {
					t.Errorf("%v, want reason %q", err, tc.reason)
				}
				if n := len(r.pulls) - 1; n != tc.pulls {
					t.Errorf("%d further pulls, want %d", n, tc.pulls)
				}
			})
		})
	}
}

func TestG4_AnImagePulledByAllIsOpenToAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registry{}
		m := newTestManager(t, Settings{Runtime: r})
		for _, secrets := range [][]v1.Secret{{loginSecret("s", "r.io", "bob", "p")}, nil, {loginSecret("s", "r.io", "eve", "q")}} {
			must.Do(t, ensure(t, m, Request{Image: "r.io/app:v1", Secrets: secrets}))
		}
		if len(r.pulls) != 2 {
			t.Errorf("pulls %v, want bob's and the one without a login", r.pulls)
		}
	})
}

// An image may be present shortly before the agent knows which pods may use it.
func TestG4_AnImageJustPulledIsNotOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registry{password: "right", lag: time.Minute}
		r.add("r.io/public:v1")
		m := newTestManager(t, Settings{Runtime: r})
		go ensure(t, m, Request{Image: "r.io/private:v1", PodUID: "first", Secrets: []v1.Secret{loginSecret("s", "r.io", "bob", "right")}})
		time.Sleep(time.Second)
		if err := ensure(t, m, Request{Image: "r.io/private:v1", PodUID: "second"}); !errors.Is(err, ErrImagePull) {
			t.Errorf("without a secret: %v, want a pull that fails", err)
		}
		must.Do(t, ensure(t, m, Request{Image: "r.io/public:v1", PodUID: "second"}))
		m.Wait()
		synctest.Wait()
		if len(m.access.intents) != 0 {
			t.Errorf("left behind: %v", m.access.intents)
		}
	})
}

// Whatever became of a pull with a secret, its image is closed to pods without.
func TestG4_AnImageOfAnUnfinishedPullIsNotOpen(t *testing.T) {
	bob := []v1.Secret{loginSecret("s", "r.io", "bob", "right")}
	const name = "r.io/app:v1"
	for what, unfinished := range map[string]func(*testing.T, *registry, *Manager){
		"cancelled, and done late": func(t *testing.T, r *registry, m *Manager) {
			r.stubborn = true
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if _, err := m.EnsureImageExists(ctx, Request{Image: name, PodUID: "a", Secrets: bob}); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		},
		"answered with a deadline, and done late": func(t *testing.T, r *registry, m *Manager) {
			r.fails = status.Error(codes.DeadlineExceeded, "too late")
			if err := ensure(t, m, Request{Image: name, PodUID: "a", Secrets: bob}); !errors.Is(err, ErrImagePull) {
				t.Error(err)
			}
			r.fails = nil
			r.add(name)
		},
		"not looked at afterwards": func(t *testing.T, r *registry, m *Manager) {
			go func() {
				time.Sleep(30 * time.Second)
				r.setInspect(status.Error(codes.Unavailable, "restarting"))
			}()
			if err := ensure(t, m, Request{Image: name, PodUID: "a", Secrets: bob}); !errors.Is(err, ErrImageInspect) {
				t.Error(err)
			}
			r.setInspect(nil)
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &registry{pullTime: time.Minute, password: "right"}
				m := newTestManager(t, Settings{Runtime: r})
				unfinished(t, r, m)
				m.Wait()
				r.mu.Lock()
				r.stubborn = false
				r.alias("r.io/app@sha256:"+strings.Repeat("a", 64), name)
				r.alias(stored(name).Id, name)
				r.mu.Unlock()
				for _, asked := range []string{name, "r.io/app@sha256:" + strings.Repeat("a", 64), stored(name).Id} {
					if err := ensure(t, m, Request{Image: asked, PodUID: "b", Policy: v1.PullNever}); !errors.Is(err, ErrImageNeverPull) {
						t.Errorf("without the secret, as %s: %v", asked, err)
					}
				}
				must.Do(t, ensure(t, m, Request{Image: name, PodUID: "c", Secrets: bob}))
				must.Do(t, ensure(t, m, Request{Image: name, PodUID: "d", Secrets: bob, Policy: v1.PullNever}))
			})
		})
	}
}

// A digest identifies the same image with and without a tag.
func TestG4_AnUnfinishedPullByTagAndDigest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		digest := "r.io/app@sha256:" + strings.Repeat("a", 64)
		r := &registry{fails: status.Error(codes.DeadlineExceeded, "too late")}
		m := newTestManager(t, Settings{Runtime: r})
		bob := []v1.Secret{loginSecret("s", "r.io", "bob", "right")}
		if err := ensure(t, m, Request{Image: strings.Replace(digest, "@", ":v1@", 1), PodUID: "a", Secrets: bob}); !errors.Is(err, ErrImagePull) {
			t.Fatal(err)
		}
		r.add(digest)
		if err := ensure(t, m, Request{Image: digest, PodUID: "b", Policy: v1.PullNever}); !errors.Is(err, ErrImageNeverPull) {
			t.Errorf("without the secret: %v", err)
		}
	})
}

// A pull that brought nothing closes nothing.
func TestG4_ARefusedPullIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registry{password: "right"}
		m := newTestManager(t, Settings{Runtime: r})
		if err := ensure(t, m, Request{Image: "r.io/app:v1", PodUID: "a", Secrets: []v1.Secret{loginSecret("s", "r.io", "eve", "wrong")}}); !errors.Is(err, ErrImagePull) {
			t.Fatal(err)
		}
		r.add("r.io/app:v1")
		must.Do(t, ensure(t, m, Request{Image: "r.io/app:v1", PodUID: "b", Policy: v1.PullNever}))
	})
}

// Authors of pods choose the image names: failed pulls leave nothing in memory.
func TestFailedPullsDoNotAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, Settings{Runtime: &registry{password: "right"}})
		for i := range 100 {
			name := fmt.Sprintf("r.io/app:%d", i)
			if err := ensure(t, m, Request{Image: name, PodUID: "a", Secrets: []v1.Secret{loginSecret("s", "r.io", "eve", "wrong")}}); !errors.Is(err, ErrImagePull) {
				t.Fatal(err)
			}
		}
		m.Forget("a")
		if a := &m.access; len(a.read)+len(a.intents)+len(a.grants) > 0 || len(m.retries.causes) > 0 {
			t.Errorf("left are %d names, %d pulls, %d grants and %d causes", len(a.read), len(a.intents), len(a.grants), len(m.retries.causes))
		}
	})
}

// An image that was present before a pull is not the result of the pull, under the same name or another name of its
// repository.
func TestG4_APreloadedImageStaysOpenDuringPulls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registry{pullTime: time.Hour, fails: status.Error(codes.DeadlineExceeded, "too late")}
		r.add("r.io/app:v1")
		m := newTestManager(t, Settings{Runtime: r})
		bob := []v1.Secret{loginSecret("s", "r.io", "bob", "right")}
		go ensure(t, m, Request{Image: "r.io/app:v2", PodUID: "a", Secrets: bob})
		go ensure(t, m, Request{Image: "r.io/app:v1", PodUID: "a", Secrets: bob, Policy: v1.PullAlways})
		for _, after := range []time.Duration{time.Minute, 2 * time.Hour} {
			time.Sleep(after)
			if err := ensure(t, m, Request{Image: "r.io/app:v1", PodUID: "b", Policy: v1.PullNever}); err != nil {
				t.Errorf("after %v: %v", after, err)
			}
		}
	})
}
