package main

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

	"github.com/go-logr/logr/funcr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/podsync/podsync/modules/devices"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/pinning"
)

const card = "vendor.test/card"

// knownCards writes the state of an agent to which a plugin had reported two cards.
func knownCards(t *testing.T, root string) {
	t.Helper()
	dir := filepath.Join(root, "devices")
	must.Do(t, os.MkdirAll(dir, 0o700))
	must.Do(t, os.WriteFile(filepath.Join(dir, "resources.json"), []byte(`{"version":1,"resources":{"`+card+`":["a","b"]}}`), 0o600))
}

// The Node lists the devices of plugins. A pod that requests more devices than exist is rejected, and a container does
// not start without the device that it requests.
func TestDevices(t *testing.T) {
	onSite(t, func(s *site) {
		knownCards(t, s.root)
		s.change = func(a *agent) { a.devicePlugins = filepath.Join(s.root, "plugins") }
		s.boot()
		for name, n := range map[string]string{"one": "1", "three": "3"} {
			pod := podOf(name, "img")
			pod.Spec.Containers[0].EnvFrom = nil
			pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{card: resource.MustParse(n)}
			s.create(pod)
		}
		s.sleep(time.Minute)
		object := s.parts.node.Object().Status
		if capacity, allocatable := object.Capacity[card], object.Allocatable[card]; capacity.Value() != 0 || allocatable.Value() != 0 {
			t.Errorf("the Node has %v cards, %v of them allocatable, want none: their plugin has not registered", capacity.Value(), allocatable.Value())
		}
		if got := s.pod("three").Status; got.Phase != v1.PodFailed || got.Reason != "UnexpectedAdmissionError" {
			t.Errorf("the pod of three cards is %s %s %q, want Failed UnexpectedAdmissionError", got.Phase, got.Reason, got.Message)
		}
		got := s.pod("one").Status
		if len(got.ContainerStatuses) != 1 || got.ContainerStatuses[0].State.Waiting == nil || !strings.Contains(got.ContainerStatuses[0].State.Waiting.Message, card) {
			t.Errorf("the container that waits for the plugin is %+v", got.ContainerStatuses)
		}
	})
}

// A server that fails is restarted, and each new error is logged once.
func TestSocketsAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		a := &agent{log: funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})}
		ctx, cancel := context.WithCancel(t.Context())
		start, calls := time.Now(), 0
		a.retry(ctx, "not served", func(ctx context.Context) error {
			if calls++; calls < 4 {
				return errors.New("taken")
			}
			cancel()
			return ctx.Err()
		})
		if d := time.Since(start); calls != 4 || d != 3*socketPause || len(lines) != 1 || !strings.Contains(lines[0], "taken") {
			t.Errorf("after %v and %d calls there are %q", d, calls, lines)
		}
	})
}

// The pod resources API is at the path where exporters expect it, even if an earlier agent has left its socket there. The
// agent does not replace the socket of a running agent, nor a file that is not a socket.
func TestPodResources(t *testing.T) {
	root := t.TempDir()
	knownCards(t, root)
	a := &agent{options: options{root: root}, devicePlugins: filepath.Join(root, "plugins"), podResources: newPodResourcesMetrics()}
	a.pins = must.Get(pinning.New(pinning.Config{State: filepath.Join(root, "pinning.json")}))(t)
	manager, err := a.devicesOf()
	if err != nil {
		t.Fatal(err)
	}
	path := podResources(root)
	left := must.Get(devices.ListenUnix(t.Context(), path))(t)
	left.(*net.UnixListener).SetUnlinkOnClose(false)
	if _, err := devices.ListenUnix(t.Context(), path); err == nil || !strings.Contains(err.Error(), "is served by") {
		t.Errorf("the error for a socket that is served is %v", err)
	}
	must.Do(t, left.Close())
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- a.servePodResources(ctx, &parts{devices: manager}) }()
	conn := must.Get(grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	call, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	resp, err := podresources.NewPodResourcesListerClient(conn).GetAllocatableResources(call, &podresources.AllocatableResourcesRequest{}, grpc.WaitForReady(true))
	if err != nil || len(resp.GetDevices()) != 0 {
		t.Errorf("devices of a plugin that has not registered are %v, %v", resp.GetDevices(), err)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("the directory of the socket is %v, %v", info.Mode(), err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	must.Do(t, os.WriteFile(path, nil, 0o600))
	if _, err := devices.ListenUnix(t.Context(), path); err == nil || !strings.Contains(err.Error(), "is not a socket") {
		t.Errorf("the error for a file in place of the socket is %v", err)
	}
}
