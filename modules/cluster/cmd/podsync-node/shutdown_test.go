package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	ktesting "k8s.io/client-go/testing"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podsync/podsync/modules/systemd"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/cgroup"
	"github.com/podsync/podsync/syncpod/shutdown"
)

// When the machine shuts down, the node reports that it is not ready, and its pods fail with a kubelet's reason.
func TestPodsStopWhenTheMachineShutsDown(t *testing.T) {
	onSite(t, func(s *site) {
		var a *agent
		s.change = func(changed *agent) { a = changed }
		s.furnish()
		s.boot()
		s.sleep(30 * time.Second)
		s.wantRunning("changed", "deleted", "same")
		a.stopPods(s.Context(), s.parts, shutdown.Policy{GracePeriod: 20 * time.Second})
		s.wantShutDown("changed", "deleted", "same")
		s.sleep(time.Second)
		node := must.Get(s.kube.CoreV1().Nodes().Get(s.Context(), "n1", metav1.GetOptions{}))(s)
		i := slices.IndexFunc(node.Status.Conditions, func(c v1.NodeCondition) bool { return c.Type == v1.NodeReady })
		if i < 0 || node.Status.Conditions[i].Status != v1.ConditionFalse || node.Status.Conditions[i].Message != "node is shutting down" {
			s.Errorf("the conditions of the node are %+v, want one that it is not ready", node.Status.Conditions)
		}
	})
}

// wantShutDown checks that the pods in the API server have failed because of a shutdown.
func (s *site) wantShutDown(pods ...string) {
	s.Helper()
	for _, name := range pods {
		if status := s.pod(name).Status; status.Phase != v1.PodFailed || status.Reason != "Terminated" {
			s.Errorf("%s is %s, %s", name, status.Phase, status.Reason)
		}
	}
}

// The agent holds the shutdown lock until the API server has the last statuses, or the time is over.
func TestShutdownWaitsForTheLastStatuses(t *testing.T) {
	onSite(t, func(s *site) {
		var a *agent
		s.change = func(changed *agent) { a = changed }
		s.furnish()
		s.boot()
		s.sleep(30 * time.Second)
		s.wantRunning("changed", "deleted", "same")
		s.server.is(true)
		time.AfterFunc(4*time.Second, func() { s.server.is(false) })
		a.stopPods(s.Context(), s.parts, shutdown.Policy{GracePeriod: 20 * time.Second})
		s.wantShutDown("changed", "deleted", "same")
	})
}

// Without a grace period in the configuration the agent does not call logind. With one it logs that logind is
// unavailable, and runs its pods.
func TestDelayOfAShutdown(t *testing.T) {
	a := &agent{kubelet: &kubelet.KubeletConfiguration{}}
	if err := a.delayShutdown(t.Context(), nil); err != nil {
		t.Error(err)
	}
	a.systemd = must.Get(systemd.New(systemd.Config{Address: "unix:path=/nonexistent/bus"}))(t)
	a.kubelet.ShutdownGracePeriod = metav1.Duration{Duration: 30 * time.Second}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var lines []string
	a.log = funcr.New(func(_, args string) { lines = append(lines, args); cancel() }, funcr.Options{})
	if err := a.delayShutdown(ctx, nil); err != nil || len(lines) != 1 || !strings.Contains(lines[0], "shutdownGracePeriod: ") {
		t.Errorf("without a bus: %v, %q", err, lines)
	}
}

// With the cgroup driver systemd, the slices of pods are created by systemd.
func TestSystemdDriver(t *testing.T) {
	for driver, want := range map[cgroup.Driver]bool{cgroup.Systemd: true, cgroup.Cgroupfs: false} {
		a := &agent{kubelet: &kubelet.KubeletConfiguration{CgroupsPerQOS: new(true), CPUCFSQuota: new(true), PodPidsLimit: new(int64(-1)), CgroupRoot: "/edge"}, systemd: &systemd.Systemd{}}
		if c := a.cgroupConfig(driver, nil); (c.Slices != nil) != want || c.Driver != driver || c.Root != "/edge/kubepods" {
			t.Errorf("%s: %+v", driver, c)
		}
	}
}

// The agent reports that the node is not ready before the first pod stops. If the API server is unavailable, the pods
// stop after notReadyTimeout.
func TestShutdownReportsTheNodeFirst(t *testing.T) {
	for name, away := range map[string]time.Duration{"reachable": 0, "unavailable for a short time": notReadyTimeout / 2, "unavailable for longer than the timeout": notReadyTimeout + time.Second} {
		t.Run(name, func(t *testing.T) {
			onSite(t, func(s *site) {
				var a *agent
				s.change = func(changed *agent) { a = changed }
				s.furnish()
				s.boot()
				s.sleep(30 * time.Second)
				s.wantRunning("changed", "deleted", "same")
				before := len(s.rt.Journal())
				var notReady, stopped time.Time
				s.kube.PrependReactor("patch", "nodes", func(action ktesting.Action) (bool, k8sruntime.Object, error) {
					if s.server.refusal() == nil && notReady.IsZero() && strings.Contains(string(action.(ktesting.PatchAction).GetPatch()), shuttingDown) {
						notReady = time.Now()
						time.Sleep(time.Millisecond) // a pod that did not wait would stop meanwhile
					}
					return false, nil, nil
				})
				if away > 0 {
					s.server.is(true)
					time.AfterFunc(away, func() { s.server.is(false) })
				}
				began := time.Now()
				a.stopPods(s.Context(), s.parts, shutdown.Policy{GracePeriod: 20 * time.Second})
				s.wantShutDown("changed", "deleted", "same")
				for _, c := range s.rt.Journal().After(before).Of(critest.StopContainer) {
					if stopped.IsZero() {
						stopped = c.Start
					}
				}
				switch {
				case away > notReadyTimeout && stopped.Sub(began) > notReadyTimeout+time.Second:
					s.Errorf("the pods stop after %v, want %v", stopped.Sub(began), notReadyTimeout)
				case away < notReadyTimeout && (notReady.IsZero() || !notReady.Before(stopped)):
					s.Errorf("the API server has that the node is not ready after %v, and the pods stop after %v", notReady.Sub(began), stopped.Sub(began))
				}
			})
		})
	}
}
