package devices

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	v1 "k8s.io/api/core/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A hostile client of the pod resources socket opens as many connections as it can, and makes many concurrent calls on
// one of them.
func TestCallersOfPodResourcesAreBounded(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(r.dir, "pod-resources")
	listener := must.Get(net.Listen("unix", path))(t)
	const calls = callBurst
	begun, release := make(chan struct{}, calls), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- r.ServePodResources(ctx, listener, func() []*v1.Pod { begun <- struct{}{}; <-release; return nil }, nil)
	}()
	conn := must.Get(grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	var asking sync.WaitGroup
	for range calls {
		asking.Go(func() {
			_, err := podresources.NewPodResourcesListerClient(conn).List(t.Context(), &podresources.ListPodResourcesRequest{})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range maxCalls {
		<-begun
	}

	open := connect(t, path, maxConnections-1) // the first connection makes the calls
	wantFull(t, path)
	if len(begun) > 0 {
		t.Errorf("%d calls of one connection run at a time, want %d", maxCalls+len(begun), maxCalls)
	}

	must.Do(t, open[0].Close())
	connect(t, path, 1)
	close(release)
	asking.Wait()
	cancel()
	must.Do(t, <-ended)
}

// connect opens connections that the server keeps. It retries while the server has not noticed yet that an earlier one is closed.
func connect(t *testing.T, path string, n int) (open []net.Conn) {
	t.Helper()
	eventually(t, "the connections are served", func() bool {
		c := must.Get(net.Dial("unix", path))(t)
		if _, err := c.Read(make([]byte, 1)); err != nil { // the server sends a byte once it has accepted
			c.Close()
			return false
		}
		t.Cleanup(func() { c.Close() })
		open = append(open, c)
		return len(open) == n
	})
	return open
}

// wantFull checks that the server closes one more connection.
func wantFull(t *testing.T, path string) {
	t.Helper()
	late := must.Get(net.Dial("unix", path))(t)
	defer late.Close()
	if n, err := late.Read(make([]byte, 1)); err == nil {
		t.Errorf("connection %d is served: %d bytes", maxConnections+1, n)
	}
}

// The registration socket serves a limited number of connections and of calls of each, requests and headers of a limited size, and
// waits a limited time for the plugin.
func TestCallersOfTheRegistrationSocketAreBounded(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(r.dir, socketName)
	p := r.plugin(card)
	const calls = 5 * maxCalls
	begun, release := make(chan time.Duration, calls), make(chan struct{})
	p.asked = func(ctx context.Context) {
		deadline, _ := ctx.Deadline()
		begun <- time.Until(deadline)
		<-release
	}
	p.serve()
	conn := must.Get(grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	register := func(ctx context.Context, resource string) error {
		_, err := pluginapi.NewRegistrationClient(conn).Register(ctx, &pluginapi.RegisterRequest{Version: pluginapi.Version, Endpoint: p.endpoint, ResourceName: resource})
		return err
	}
	if err := register(t.Context(), strings.Repeat("x", maxRequest)); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "larger than max") {
		t.Errorf("a request of %d bytes: %v", maxRequest, err)
	}
	long := metadata.AppendToOutgoingContext(t.Context(), "x", strings.Repeat("x", maxHeaders))
	if err := register(long, card); err == nil || !strings.Contains(err.Error(), "header list size") {
		t.Errorf("headers of %d bytes: %v", maxHeaders, err)
	}

	var asking sync.WaitGroup
	for i := range calls {
		asking.Go(func() { _ = register(t.Context(), card+strconv.Itoa(i)) }) // on a busy machine the plugin may be too late
	}
	for range maxCalls {
		if left := <-begun; left <= 0 || left > connectTimeout {
			t.Errorf("the plugin has %v for its answer, want at most %v", left, connectTimeout)
		}
	}
	open := connect(t, path, maxConnections-1)
	wantFull(t, path)
	if len(begun) > 0 {
		t.Errorf("%d calls of one connection run at a time, want %d", maxCalls+len(begun), maxCalls)
	}
	must.Do(t, open[0].Close())
	connect(t, path, 1)
	close(release)
	asking.Wait()
}

// Callers of the pod resources API that call it without a pause get an error, and an answer again after a pause.
func TestCallsOfPodResourcesAreLimited(t *testing.T) {
	r := newRig(t)
	served := 0
	r.config.PodResourcesCalled = func(method string, err error) {
		if served++; method != "/v1.PodResourcesLister/List" || err != nil {
			t.Errorf("reported %s: %v", method, err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		listener := bufconn.Listen(64 << 10)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.ServePodResources(ctx, listener, func() []*v1.Pod { return nil }, nil) }()
		dial := func(context.Context, string) (net.Conn, error) { return listener.Dial() }
		conn := must.Get(grpc.NewClient("passthrough:", grpc.WithContextDialer(dial), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
		client := podresources.NewPodResourcesListerClient(conn)
		call := func() error {
			_, err := client.List(t.Context(), &podresources.ListPodResourcesRequest{})
			return err
		}
		for range callBurst {
			must.Do(t, call())
		}
		if err := call(); status.Code(err) != codes.ResourceExhausted || status.Convert(err).Message() != "rejected by rate limit" {
			t.Errorf("a call beyond the burst: %v, want ResourceExhausted", err)
		}
		time.Sleep(time.Second / callRate)
		must.Do(t, call())
		conn.Close()
		cancel()
		must.Do(t, <-ended)
		if served != callBurst+1 {
			t.Errorf("%d calls are reported, want %d", served, callBurst+1)
		}
	})
}

// A caller that sends nothing, or makes no call, is disconnected, also if it does not answer the server's ping.
func TestIdleCallersAreDisconnected(t *testing.T) {
	for what, sent := range map[string]string{
		"sends nothing": "", "sends half of a preface": "PRI * HTTP/2.0\r\n",
		"makes no call": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
	} {
		synctest.Test(t, func(t *testing.T) {
			listener := bufconn.Listen(64 << 10)
			server := newServer()
			ended := make(chan error, 1)
			go func() { ended <- server.Serve(&boundedListener{Listener: listener}) }()
			conn := must.Get(listener.Dial())(t)
			must.Get(conn.Write([]byte(sent)))(t)
			begun := time.Now()
			must.Do(t, conn.SetReadDeadline(begun.Add(time.Hour)))
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) > 3*time.Minute {
				t.Errorf("a caller that %s is connected for %v: %v", what, time.Since(begun), err)
			}
			conn.Close()
			server.Stop()
			must.Do(t, <-ended)
		})
	}
}
