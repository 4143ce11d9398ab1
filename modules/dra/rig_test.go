package dra

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/modules/dra/dratest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

const gpu, nic = "gpu.example.com", "nic.example.com"

// A rig is a Manager with drivers at sockets. The path of its directory is short enough for them.
type rig struct {
	*testing.T
	dir    string
	claims StaticClaims
	m      *Manager
	stop   func()
}

func newRig(t *testing.T, claims ...*resourcev1.ResourceClaim) *rig {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "dra"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := &rig{T: t, dir: dir, claims: claims, stop: func() {}}
	t.Cleanup(func() { r.stop() })
	return r
}

func (r *rig) state() string { return filepath.Join(r.dir, "state") }

// start serves drivers, and then starts an agent that waits for them.
func (r *rig) start(drivers ...*dratest.Driver) {
	r.Helper()
	for _, d := range drivers {
		must.Do(r.T, d.Start(r.dir))
		r.Cleanup(d.Stop)
	}
	r.agent(drivers...)
}

// agent starts an agent in place of the last one, and waits for registered drivers.
func (r *rig) agent(registered ...*dratest.Driver) {
	r.Helper()
	r.stop()
	r.m = must.Get(New(Config{State: r.state(), Root: r.dir, Claims: r.claims}))(r.T)
	m := r.m
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = m.Run(ctx) }()
	r.stop = func() { cancel(); <-ended }
	for _, d := range registered {
		r.wait(func() bool { return m.driver(d.Name) != nil })
	}
}

// wait waits for a condition.
func (r *rig) wait(is func() bool) {
	r.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.Fatal("a minute was not enough")
		}
	}
}

// files returns the number of records.
func (r *rig) files() int {
	entries, _ := os.ReadDir(r.state())
	return len(entries)
}

// claimOf returns a claim that is allocated, one device of each driver, and reserved for pods.
func claimOf(name string, drivers []string, pods ...string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}}
	c.Status.Allocation = &resourcev1.AllocationResult{}
	for _, d := range drivers {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourcev1.DeviceRequestAllocationResult{Request: "one", Driver: d, Pool: "node", Device: "dev"})
	}
	for _, pod := range pods {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod, UID: types.UID(pod)})
	}
	return c
}

// podOf returns a pod with a container, app, that uses claims.
func podOf(name string, claims ...string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	app := v1.Container{Name: "app"}
	for _, claim := range claims {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, v1.PodResourceClaim{Name: "the-" + claim, ResourceClaimName: &claim})
		app.Resources.Claims = append(app.Resources.Claims, v1.ResourceClaim{Name: "the-" + claim})
	}
	pod.Spec.Containers = []v1.Container{app}
	return pod
}
