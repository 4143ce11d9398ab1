package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/modules/devices"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/loop"
)

// socketPause is the pause before the agent tries again to listen at a socket of a kubelet.
const socketPause = 10 * time.Second

// devicesOf creates the device manager.
func (a *agent) devicesOf() (*devices.Manager, error) {
	return devices.New(devices.Config{State: filepath.Join(a.root, "devices"), Directory: a.devicePlugins, PodResourcesCalled: a.podResources.count, Log: a.log})
}

// admission rejects pods for which there are too few devices, and then pods that do not fit on the node. The order
// matters: the second step reserves resources for the pods that it admits.
func (p *parts) admission(fits loop.Admission) loop.Admission {
	return loop.AdmissionFunc(func(pod *v1.Pod, activePods []*v1.Pod) *syncpod.Rejection {
		if refused := p.devices.Admit(pod, activePods); refused != nil {
			return refused
		}
		return fits.Admit(pod, activePods)
	})
}

// servePlugins serves device plugins until ctx ends. If another process serves the kubelet's socket, the agent runs
// pods without devices and retries.
func (a *agent) servePlugins(ctx context.Context, p *parts) error {
	a.retry(ctx, "Device plugins cannot register", p.devices.Run)
	return nil
}

// servePodResources serves the pod resources API below the root directory until ctx ends, at a kubelet's path.
func (a *agent) servePodResources(ctx context.Context, p *parts) error {
	a.retry(ctx, "The API of pod resources is not served", func(ctx context.Context) error {
		listener, err := devices.ListenUnix(ctx, podResources(a.root))
		if err != nil {
			return fmt.Errorf("pod resources: %w", err)
		}
		return p.devices.ServePodResources(ctx, listener, p.active, a.pins)
	})
	return nil
}

// podResources returns the path of the pod resources socket below a root directory, where exporters expect it.
func podResources(root string) string { return filepath.Join(root, "pod-resources", "kubelet.sock") }

// retry calls serve again and again until ctx ends, and logs each new error.
func (a *agent) retry(ctx context.Context, failed string, serve func(context.Context) error) {
	last := ""
	for {
		err := serve(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && err.Error() != last {
			last = err.Error()
			a.log.Error(err, failed)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(socketPause):
		}
	}
}

// active returns the pods that are not finished.
func (p *parts) active() (pods []*v1.Pod) {
	for _, pod := range p.loop.Pods() {
		if !pod.Phase.HasFinished() {
			pods = append(pods, pod.Pod)
		}
	}
	return pods
}
