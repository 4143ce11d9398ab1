package lifecycle

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/lifecycle/handler"
	"github.com/podsync/podsync/syncpod/memory"
)

const (
	announced  = `0 event Killing about "spec.containers{app}": why`
	hookFailed = `event FailedPreStopHook about "spec.containers{app}": PreStopHook failed`
	all        = memory.StopSignalled | memory.PreStopRun | memory.PreStopCompleted
)

// K1: the handler runs before the stop, within the grace period. If it still runs when the grace period expires, it
// gets two more seconds, concurrently with the stop.
func TestPreStop(t *testing.T) {
	for name, tc := range map[string]struct {
		end, stop func(context.Context, int) error
		grace     time.Duration
		want      []string
		marks     memory.Mark
	}{
		"ends": {takes(4 * time.Second), nil, 30 * time.Second, []string{
			announced, "0 hook app", "4 hook of app ended after 4, failed: false", "4 record", "4 stop app 26", "4 stopped app after 4, failed: false"}, all},
		"fails": {fails(errBroken), nil, 30 * time.Second, []string{
			announced, "0 hook app", "0 hook of app ended after 0, failed: true", "0 " + hookFailed, "0 record", "0 stop app 30", "0 stopped app after 0, failed: false"}, all},
		"ends in the last second": {takes(29 * time.Second), nil, 30 * time.Second, []string{
			announced, "0 hook app", "29 hook of app ended after 29, failed: false", "29 stop app 2", "29 stopped app after 29, failed: false"}, all},
		"the runtime has its deadline": {fails(status.Error(codes.DeadlineExceeded, "exec")), nil, 30 * time.Second, []string{
			announced, "0 hook app", "0 hook of app ended after 0, failed: true", "0 " + hookFailed, "0 stop app 30", "0 stopped app after 0, failed: false"},
			memory.StopSignalled | memory.PreStopRun},
		"hangs": {hangs, hangs, 30 * time.Second, []string{
			announced, "0 hook app", "30 stop app 2", "32 hook of app ended after 32, failed: true", "32 " + hookFailed,
			`32.5 event ExceededGracePeriod about "": Container runtime did not kill the pod within specified grace period.`,
			"32.5 stop app 0", "33 stop app 0", "37.5 stopped app after 37.5, failed: true"},
			memory.StopSignalled | memory.PreStopRun},
		"hangs, the container stops": {hangs, takes(time.Second), 30 * time.Second, []string{
			announced, "0 hook app", "30 stop app 2", "31 hook of app ended after 31, failed: true", "31 " + hookFailed, "31 stopped app after 31, failed: false"},
			memory.StopSignalled | memory.PreStopRun},
		"ends beside the stop": {takes(31 * time.Second), takes(1500 * time.Millisecond), 30 * time.Second, []string{
			announced, "0 hook app", "30 stop app 2", "31 hook of app ended after 31, failed: false", "31.5 stopped app after 31.5, failed: false"}, all},
		"no time": {nil, nil, 0, []string{announced, "0 stop app 2", "0 stopped app after 0, failed: false"}, memory.StopSignalled},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.hooks, r.stops = ends{"app": tc.end}, ends{"app": tc.stop}
				err := r.KillContainer(r.Context(), r.container(testPod("app"), "app", runtime.ContainerRunning, tc.grace))
				if name != "hangs" {
					r.wantError(err, nil)
				}
				r.want(tc.want...)
				r.wantMarks("app", tc.marks)
			})
		})
	}
}

// A stop that is given up cancels its handler, and stops nothing. The next stop does not run the
// handler again. K5: no handler runs in a container of an unknown state.
func TestPreStopRunsOnce(t *testing.T) {
	bubble(t, func(r *rig) {
		r.hooks = ends{"app": hangs}
		c := r.container(testPod("app"), "app", runtime.ContainerRunning, 30*time.Second)
		ctx, cancel := context.WithTimeout(r.Context(), 4*time.Second)
		defer cancel()
		r.wantError(r.KillContainer(ctx, c), context.DeadlineExceeded)
		r.wantMarks("app", memory.PreStopRun)
		r.wantError(r.KillContainer(r.Context(), c), nil)
		r.want(announced, "0 hook app", "4 hook of app ended after 4, failed: true", "4 stopped app after 4, failed: true",
			`4 event Killing about "spec.containers{app}": why`, "4 stop app 26", "4 stopped app after 0, failed: false")
	})
	bubble(t, func(r *rig) {
		r.wantError(r.KillContainer(r.Context(), r.container(testPod("app"), "app", runtime.ContainerUnknown, 30*time.Second)), nil)
		r.want(announced, "0 stop app 30", "0 stopped app after 0, failed: false")
	})
}

// The handler of the spec runs, on the container's ports and at the address of its pod. A container that is
// missing in the spec has the handler with which it was created.
func TestPreStopRequest(t *testing.T) {
	created := handler.Request{Handler: &v1.LifecycleHandler{Exec: &v1.ExecAction{}}, Ports: []v1.ContainerPort{{Name: "old"}}}
	pod := testPod("app")
	pod.Status.PodIP = "10.0.0.8"
	pod.Spec.Containers[0].Ports = []v1.ContainerPort{{Name: "web"}}
	app, _ := actions.FindContainer(pod, "app")
	b, _ := actions.FindContainer(pod, "b")
	seen := []string{"10.0.0.9", "fd00::9"}
	for name, tc := range map[string]struct {
		k        kill
		ok       bool
		port, ip string
	}{
		"spec":                 {kill{Container: Container{Pod: pod, Ref: &app, IPs: seen}, created: created}, true, "web", "10.0.0.9"},
		"spec, no address now": {kill{Container: Container{Pod: pod, Ref: &app}}, true, "web", "10.0.0.8"},
		"spec without one":     {kill{Container: Container{Pod: pod, Ref: &b, IPs: []string{""}}, created: created}, false, "", "10.0.0.8"},
		"no spec":              {kill{Container: Container{IPs: seen}, created: created}, true, "old", "10.0.0.9"},
		"no spec, no address":  {kill{created: created}, true, "old", ""},
		"nothing":              {kill{}, false, "", ""},
	} {
		tc.k.Status = &runtime.ContainerStatus{Name: "app", ID: runtime.ContainerID{ID: "1"}}
		req, ok := tc.k.preStopRequest()
		port := ""
		if len(req.Ports) > 0 {
			port = req.Ports[0].Name
		}
		if ok != tc.ok || port != tc.port || req.PodIP != tc.ip || req.Container != "app" || req.ContainerID != "1" {
			t.Errorf("%s: %v %+v, want %v, port %q, address %q, container app with ID 1", name, ok, req, tc.ok, tc.port, tc.ip)
		}
	}
}
