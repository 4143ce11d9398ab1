package devices

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// A hostile client of the pod resources socket opens as many connections as it can, and makes many concurrent calls on
// one of them.
func TestCallersOfPodResourcesAreBounded(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(r.dir, "pod-resources")
	listener, err := net.Listen("unix", path)
	must(t, err)
	const calls = 5 * maxCalls
	begun, release := make(chan struct{}, calls), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- r.ServePodResources(ctx, listener, func() []*v1.Pod { begun <- struct{}{}; <-release; return nil })
	}()
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
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

	var open []net.Conn
	for range maxConnections - 1 { // the first connection makes the calls
		c, err := net.Dial("unix", path)
		must(t, err)
		defer c.Close()
		_, err = c.Read(make([]byte, 1)) // the server sends a byte once it has accepted
		must(t, err)
		open = append(open, c)
	}
	late, err := net.Dial("unix", path)
	must(t, err)
	defer late.Close()
	if n, err := late.Read(make([]byte, 1)); err == nil {
		t.Errorf("connection %d is served: %d bytes", maxConnections+1, n)
	}
	if len(begun) > 0 {
		t.Errorf("%d calls of one connection run at a time, want %d", maxCalls+len(begun), maxCalls)
	}

	must(t, open[0].Close())
	for served := false; !served; { // until the server has noticed the close
		c, err := net.Dial("unix", path)
		must(t, err)
		_, err = c.Read(make([]byte, 1))
		served = err == nil
		c.Close()
	}
	close(release)
	asking.Wait()
	cancel()
	must(t, <-ended)
}
