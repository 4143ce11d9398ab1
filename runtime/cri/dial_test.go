package cri

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

func TestDialUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "cri") // the path of t.TempDir may be too long for a socket
	must.Do(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l := must.Get(net.Listen("unix", path))(t)
	s := newServer(t)
	go s.grpc.Serve(l)
	for _, endpoint := range []string{"unix://" + path, path} {
		c, err := Dial(t.Context(), Config{Endpoint: endpoint})
		if err != nil {
			t.Fatalf("%s: %v", endpoint, err)
		}
		if s.authority != "localhost" {
			t.Errorf("authority %q, want one that every server takes", s.authority)
		}
		if c.RuntimeName() != "fake" || c.RuntimeVersion() != "1.0" {
			t.Errorf("runtime %q %q, want RuntimeName %q and RuntimeVersion %q", c.RuntimeName(), c.RuntimeVersion(), "fake", "1.0")
		}
		c.Close()
	}
}

func TestDialRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		version *runtimeapi.VersionResponse
		class   Class
		says    string
	}{
		"no CRI v1":       {nil, ErrUnimplemented, "does not serve CRI v1"},
		"an older CRI":    {&runtimeapi.VersionResponse{RuntimeName: "r", RuntimeApiVersion: "v1alpha2"}, ErrUnimplemented, `"v1alpha2"`},
		"a newer CRI":     {&runtimeapi.VersionResponse{RuntimeName: "r", RuntimeApiVersion: "v2"}, ErrUnimplemented, `"v2"`},
		"a nameless peer": {&runtimeapi.VersionResponse{RuntimeApiVersion: "v1"}, ErrInvalid, "reports no name"},
		"a long name":     {&runtimeapi.VersionResponse{RuntimeName: strings.Repeat("r", 1<<20) + "\x1b"}, ErrInvalid, "at most 128 bytes"},
		"long versions":   {&runtimeapi.VersionResponse{RuntimeName: "r", RuntimeVersion: strings.Repeat("r", 1<<20), RuntimeApiVersion: strings.Repeat("r", 1<<20)}, ErrUnimplemented, "r r"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				s.version = tc.version
				_, err := Dial(t.Context(), Config{Dialer: s.dial})
				if !errors.Is(err, tc.class) || !strings.Contains(err.Error(), tc.says) || len(err.Error()) > 1<<10 {
					t.Errorf("Dial: %.1000v; want class %q and %q", err, tc.class, tc.says)
				}
			})
		})
	}
}

func TestDialWaitsForTheRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.shutdown()
		began := time.Now()
		_, err := Dial(t.Context(), Config{Dialer: s.dial})
		if !errors.Is(err, ErrDeadline) || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("no runtime: %v; want a deadline that says why", err)
		}
		if waited := time.Since(began); waited != defaultConnect {
			t.Errorf("waited %v, want %v", waited, defaultConnect)
		}
		time.AfterFunc(3*time.Second, s.start)
		began = time.Now()
		s.client(t, Config{})
		if waited := time.Since(began); waited > 4500*time.Millisecond {
			t.Errorf("a runtime that came after 3s was noticed after %v", waited)
		}
	})
}

// hang waits until the call is cancelled.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		c := s.client(t, Config{Timeouts: Timeouts{Call: time.Second, StopSlack: 5 * time.Second}})
		s.stop = func(ctx context.Context, _ *runtimeapi.StopContainerRequest) error { return hang(ctx) }
		s.pull = hang

		began := time.Now()
		_, err := c.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{Timeout: 30})
		if took := time.Since(began); !errors.Is(Classify(err), ErrDeadline) || took != 35*time.Second {
			t.Errorf("a stop with 30s of grace ended after %v with %v", took, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		began = time.Now()
		_, err = c.PullImage(ctx, &runtimeapi.PullImageRequest{})
		if took := time.Since(began); !errors.Is(Classify(err), ErrDeadline) || took != 24*time.Hour {
			t.Errorf("a pull ended after %v with %v; its context ends after 24h", took, err)
		}
	})
}

func TestTimeoutOfEachCall(t *testing.T) {
	defaults := Timeouts{}.withDefaults()
	never := Timeouts{Call: -1}.withDefaults()
	for _, tc := range []struct {
		timeouts Timeouts
		req      any
		want     time.Duration
	}{
		{defaults, &runtimeapi.ListContainersRequest{}, 2 * time.Minute},
		{defaults, &runtimeapi.RunPodSandboxRequest{}, 4 * time.Minute},
		{defaults, &runtimeapi.StopContainerRequest{Timeout: 30}, 2*time.Minute + 30*time.Second},
		{defaults, &runtimeapi.StopContainerRequest{Timeout: -1}, 2 * time.Minute},
		{defaults, &runtimeapi.StopContainerRequest{Timeout: 1 << 62}, -1},
		{defaults, &runtimeapi.ExecSyncRequest{Timeout: 1}, 2*time.Minute + time.Second},
		{defaults, &runtimeapi.ExecSyncRequest{}, -1},
		{defaults, &runtimeapi.PullImageRequest{}, -1},
		{never, &runtimeapi.ListContainersRequest{}, -1},
		{never, &runtimeapi.RunPodSandboxRequest{}, -2},
		{never, &runtimeapi.StopContainerRequest{Timeout: 30}, -1},
	} {
		if got := tc.timeouts.of(tc.req); got != tc.want && (got >= 0 || tc.want >= 0) {
			t.Errorf("%T: %v, want %v", tc.req, got, tc.want)
		}
	}
}

func TestAStopThatTakesItsGraceSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		c := s.client(t, Config{Timeouts: Timeouts{Call: time.Second}})
		s.stop = func(_ context.Context, r *runtimeapi.StopContainerRequest) error {
			time.Sleep(time.Duration(r.Timeout) * time.Second)
			return nil
		}
		must.Get(c.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{Timeout: 600}))(t)
	})
}

// F8: the client notices within about a second that the runtime is available again, however long it
// was unavailable. In the meantime, calls fail at once.
func TestF8_ReconnectsAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		c := s.client(t, Config{})
		s.shutdown()
		time.Sleep(10 * time.Minute)
		if _, err := c.Version(t.Context(), &runtimeapi.VersionRequest{}); !errors.Is(Classify(err), ErrUnavailable) {
			t.Errorf("while the runtime is unavailable: %v, want %q", err, ErrUnavailable)
		}
		time.Sleep(10 * time.Minute)
		s.start()
		back := time.Now()
		for {
			if _, err := c.Version(t.Context(), &runtimeapi.VersionRequest{}); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
			if time.Since(back) > time.Minute {
				t.Fatal("never noticed")
			}
		}
		if late := time.Since(back); late > 1500*time.Millisecond {
			t.Errorf("noticed %v after the restart", late)
		}
	})
}

func TestMessageSizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.version.RuntimeVersion = strings.Repeat("x", 8<<20)
		s.client(t, Config{}) // more than gRPC's own limit
		_, err := Dial(t.Context(), Config{Dialer: s.dial, MaxMessageBytes: 1 << 20})
		if !errors.Is(err, ErrExhausted) {
			t.Errorf("a message beyond MaxMessageBytes: %v", err)
		}
	})
}

func TestOptionsAddInterceptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.stop = func(ctx context.Context, _ *runtimeapi.StopContainerRequest) error { return hang(ctx) }
		var seen []string
		c := s.client(t, Config{Options: []grpc.DialOption{grpc.WithUnaryInterceptor(
			func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				seen = append(seen, method)
				return invoke(ctx, method, req, reply, cc, opts...)
			})}})
		if _, err := c.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{}); !errors.Is(Classify(err), ErrDeadline) {
			t.Errorf("the bounds are gone: %v", err)
		}
		if len(seen) != 2 {
			t.Errorf("seen %v, want Version and StopContainer", seen)
		}
	})
}

// Dial reaches a runtime that takes longer to accept than the longest pause between two attempts.
func TestDialReachesASlowRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		c := must.Get(Dial(t.Context(), Config{Dialer: func(ctx context.Context) (net.Conn, error) {
			conn, err := s.dial(ctx)
			return &slowConn{conn, time.Now().Add(3 * maxReconnect)}, err
		}}))(t)
		must.Do(t, c.Close())
	})
}

// slowConn returns no data before a given time.
type slowConn struct {
	net.Conn
	from time.Time
}

func (c *slowConn) Read(b []byte) (int, error) {
	time.Sleep(time.Until(c.from))
	return c.Conn.Read(b)
}
