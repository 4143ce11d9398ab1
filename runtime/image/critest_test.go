package image_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/internal/rig/testnode"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/image"
)

// node is a node whose registry has one slow and one private image, and a Manager on it.
type node struct {
	*testnode.Node
	manager *image.Manager
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := testnode.New(t, critest.Config{Registry: []critest.RemoteImage{
		{Image: critest.Image{Name: "r.io/slow:v1", User: "1000"}, PullTime: 10 * time.Minute},
		{Image: critest.Image{Name: "r.io/private:v1"}, PullTime: time.Second, Credentials: []*runtimeapi.AuthConfig{{Username: "bob", Password: "hunter2"}}},
	}})
	m := must.Get(image.New(image.Config{Settings: image.Settings{Runtime: n.Client}}))(t)
	t.Cleanup(m.Wait)
	return &node{n, m}
}

func (n *node) ensure(ctx context.Context, name, uid string, secrets ...v1.Secret) error {
	img, err := n.manager.EnsureImageExists(ctx, image.Request{Image: name, PodUID: types.UID(uid), Secrets: secrets})
	if err == nil {
		img.Release()
	}
	return err
}

func bob(password string) v1.Secret {
	return v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "login"},
		Data:       map[string][]byte{v1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths":{"r.io":{"username":"bob","password":%q}}}`, password)},
	}
}

func TestCallsOfEnsureImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		for _, tc := range []struct{ statuses, pulls int }{{2, 1}, {1, 0}} {
			before := len(n.Journal())
			must.Do(t, n.ensure(t.Context(), "r.io/slow:v1", "u"))
			j := n.Journal().After(before)
			if j.Count(critest.ImageStatus) != tc.statuses || j.Count(critest.PullImage) != tc.pulls || j.Count() != tc.statuses+tc.pulls {
				t.Errorf("%v\nwant %+v", j, tc)
			}
		}
	})
}

// W2: when the last waiting pod is deleted, the pull is cancelled immediately. A runtime that ignores the cancellation
// delays nothing.
func TestW2_ThePullIsCancelled(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t)
			if deaf {
				must.Get(n.Inject(faults.Fault{Match: faults.Match{Method: critest.PullImage}, IgnoreCancel: true}))(t)
			}
			began := time.Now()
			var wg sync.WaitGroup
			for i := range 10 {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*time.Second)
					defer cancel()
					if err := n.ensure(ctx, "r.io/slow:v1", fmt.Sprint(i)); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%v, want the context's error", err)
					}
				})
			}
			wg.Wait()
			if took := time.Since(began); took != 10*time.Second {
				t.Errorf("the last left after %v", took)
			}
			synctest.Wait()
			pulls := n.Journal().Of(critest.PullImage)
			if len(pulls) != 1 || pulls[0].Done() == deaf {
				t.Errorf("pulls\n%vwant one that has ended: %v", pulls, !deaf)
			}
			if deaf {
				time.Sleep(10 * time.Minute) // the runtime is done late, and that does no harm
			}
			must.Do(t, n.ensure(t.Context(), "r.io/slow:v1", "next"))
		})
	}
}

// B3: a wrong password in the secret and a wrong one in the registry.
func TestB3_OverCRI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		err := n.ensure(t.Context(), "r.io/private:v1", "u", bob("wrong"))
		if !errors.Is(err, image.ErrImagePull) {
			t.Fatal(err)
		}
		if err := n.ensure(t.Context(), "r.io/private:v1", "u", bob("wrong")); !errors.Is(err, image.ErrImagePullBackOff) {
			t.Errorf("at once: %v, want a back-off", err)
		}
		must.Do(t, n.ensure(t.Context(), "r.io/private:v1", "u", bob("hunter2")))
		pulls := n.Journal().Of(critest.PullImage)
		if len(pulls) != 2 || !pulls[1].AuthIs(&runtimeapi.AuthConfig{Username: "bob", Password: "hunter2"}) {
			t.Errorf("pulls, want two, the second with the credentials of bob\n%v", pulls)
		}
		if all := fmt.Sprint(n.Journal(), err); strings.Contains(all, "hunter2") || strings.Contains(all, "wrong") {
			t.Errorf("a password is printed: %s", all)
		}
	})
}

// F8: a pull that the runtime's restart has ended is tried again when it is time.
func TestF8_PullOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		time.AfterFunc(time.Minute, func() { n.Restart(faults.Restart{Down: 5 * time.Second}) })
		var e *image.Error
		err := n.ensure(t.Context(), "r.io/slow:v1", "u")
		if !errors.As(err, &e) || e.Reason != image.ErrImagePull || !errors.Is(err, cri.ErrUnavailable) {
			t.Fatalf("%v, want a failed pull", err)
		}
		time.Sleep(time.Until(e.RetryAt))
		must.Do(t, n.ensure(t.Context(), "r.io/slow:v1", "u"))
	})
}

// F13: a pull that hangs delays only itself.
func TestF13_AHangingPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		gate := &faults.Gate{}
		if _, err := n.Inject(faults.Fault{Match: faults.Match{Method: critest.PullImage, Image: "r.io/slow:v1"}, Hang: gate}); err != nil {
			t.Fatal(err)
		}
		hung := make(chan error)
		go func() { hung <- n.ensure(t.Context(), "r.io/slow:v1", "hung") }()
		synctest.Wait()
		must.Do(t, n.ensure(t.Context(), "r.io/private:v1", "u", bob("hunter2")))
		time.Sleep(24 * time.Hour)
		gate.Open()
		if err := <-hung; err != nil {
			t.Errorf("when it went on: %v", err)
		}
	})
}

func TestReasonsOverCRI(t *testing.T) {
	for text, want := range map[string]image.Reason{
		"RegistryUnavailable: dial tcp: i/o timeout":    image.ErrRegistryUnavailable,
		"SignatureValidationFailed: no acceptable key":  image.ErrSignatureValidation,
		`failed to resolve reference "r.io/private:v1"`: image.ErrImagePull,
		"pull access denied, repository does not exist": image.ErrImagePull,
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t)
			if _, err := n.Inject(faults.Fault{Match: faults.Match{Method: critest.PullImage}, Err: status.Error(codes.Unknown, text)}); err != nil {
				t.Fatal(err)
			}
			err := n.ensure(t.Context(), "r.io/private:v1", "u", bob("hunter2"))
			if !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
				t.Errorf("%v, want reason %q", err, want)
			}
		})
	}
}
