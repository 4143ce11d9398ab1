package summary

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/runtime"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func isWaiting(reason string) v1.ContainerState {
	return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason}}
}

func hasEnded(code, signal int32, reason string) v1.ContainerState {
	return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code, Signal: signal, Reason: reason, FinishedAt: metav1.NewTime(noon)}}
}

func isRunning() v1.ContainerState {
	return v1.ContainerState{Running: &v1.ContainerStateRunning{}}
}

func container(name string, state v1.ContainerState) v1.ContainerStatus {
	up := state.Running != nil
	return v1.ContainerStatus{Name: name, State: state, Ready: up, Started: &up}
}

func restarted(s v1.ContainerStatus, count int32, ago time.Duration) v1.ContainerStatus {
	s.RestartCount = count
	s.LastTerminationState = hasEnded(1, 0, "Error")
	s.LastTerminationState.Terminated.FinishedAt = metav1.NewTime(noon.Add(-ago))
	return s
}

// aPod returns a pod with the containers app and log. With statuses of init containers, it also has the init containers
// migrate and warm-up, with the sidecar proxy between them.
func aPod(phase v1.PodPhase, init []v1.ContainerStatus, containers ...v1.ContainerStatus) *v1.Pod {
	always := v1.ContainerRestartPolicyAlways
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))},
		Status:     v1.PodStatus{Phase: phase, InitContainerStatuses: init, ContainerStatuses: containers},
	}
	pod.Spec.Containers = []v1.Container{{Name: "app"}, {Name: "log"}}
	if init != nil {
		pod.Spec.InitContainers = []v1.Container{{Name: "migrate"}, {Name: "proxy", RestartPolicy: &always}, {Name: "warm-up"}}
	}
	return pod
}

func with(pod *v1.Pod, change func(*v1.Pod)) *v1.Pod {
	change(pod)
	return pod
}

func condition(kind v1.PodConditionType) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{Type: kind, Status: v1.ConditionTrue})
	}
}

func deleted(pod *v1.Pod) { pod.DeletionTimestamp = &metav1.Time{} }

// The expected words are the output of kubectl get pods of Kubernetes 1.36.
func TestSummaryIsKubectls(t *testing.T) {
	type all = []v1.ContainerStatus
	creating := isWaiting("ContainerCreating")
	initializing := isWaiting("PodInitializing")
	done := container("migrate", hasEnded(0, 0, "Completed"))
	proxy := container("proxy", isRunning())
	warm := container("warm-up", hasEnded(0, 0, "Completed"))
	for _, tt := range []struct {
		name                    string
		pod                     *v1.Pod
		ready, status, restarts string
	}{
		{"nothing is known", aPod("", nil), "0/2", "Pending", "0"},
		{"pending", aPod(v1.PodPending, nil), "0/2", "Pending", "0"},
		{"refused", with(aPod(v1.PodFailed, nil), func(p *v1.Pod) { p.Status.Reason = "OutOfcpu" }), "0/2", "OutOfcpu", "0"},
		{"creating", aPod(v1.PodPending, nil, container("app", creating), container("log", creating)), "0/2", "ContainerCreating", "0"},
		{"running", aPod(v1.PodRunning, nil, container("app", isRunning()), container("log", isRunning())), "2/2", "Running", "0"},
		{"running, not ready", aPod(v1.PodRunning, nil, v1.ContainerStatus{Name: "app", State: isRunning()}, container("log", isRunning())), "1/2", "Running", "0"},
		{"the first word counts", aPod(v1.PodRunning, nil, container("app", isWaiting("ImagePullBackOff")), container("log", isWaiting("ErrImagePull"))), "0/2", "ImagePullBackOff", "0"},
		{"crash loop", aPod(v1.PodRunning, nil, restarted(container("app", isWaiting("CrashLoopBackOff")), 3, 5*time.Second), container("log", isRunning())), "1/2", "CrashLoopBackOff", "3 (5s ago)"},
		{"restarts add up, the last counts", aPod(v1.PodRunning, nil, restarted(container("app", isRunning()), 3, time.Hour), restarted(container("log", isRunning()), 2, 90*time.Second)),
			"2/2", "Running", "5 (1m30s ago)"},
		{"restarts of unknown time", aPod(v1.PodRunning, nil, v1.ContainerStatus{RestartCount: 2, State: isRunning(), Ready: true}), "1/2", "Running", "2"},
		{"completed", aPod(v1.PodSucceeded, nil, container("app", hasEnded(0, 0, "Completed")), container("log", hasEnded(0, 0, "Completed"))), "0/2", "Completed", "0"},
		{"failed", aPod(v1.PodFailed, nil, container("app", hasEnded(1, 0, "Error"))), "0/2", "Error", "0"},
		{"killed by a signal", aPod(v1.PodFailed, nil, container("app", hasEnded(137, 9, ""))), "0/2", "Signal:9", "0"},
		{"no reason", aPod(v1.PodFailed, nil, container("app", hasEnded(3, 0, ""))), "0/2", "ExitCode:3", "0"},
		{"half completed", aPod(v1.PodRunning, nil, container("app", hasEnded(0, 0, "Completed")), container("log", isRunning())), "1/2", "NotReady", "0"},
		{"half completed, ready", with(aPod(v1.PodRunning, nil, container("app", hasEnded(0, 0, "Completed")), container("log", isRunning())), condition(v1.PodReady)), "1/2", "Running", "0"},
		{"deleted", with(aPod(v1.PodRunning, nil, container("app", isRunning()), container("log", isRunning())), deleted), "2/2", "Terminating", "0"},
		{"deleted, over", with(aPod(v1.PodSucceeded, nil, container("app", hasEnded(0, 0, "Completed"))), deleted), "0/2", "Completed", "0"},

		{"init: the first", aPod(v1.PodPending, all{container("migrate", isRunning()), container("proxy", initializing), container("warm-up", initializing)}, container("app", initializing)),
			"0/3", "Init:0/3", "0"},
		{"init: waits", aPod(v1.PodPending, all{container("migrate", isWaiting("ErrImagePull"))}), "0/3", "Init:ErrImagePull", "0"},
		{"init: failed", aPod(v1.PodPending, all{container("migrate", hasEnded(1, 0, "Error"))}), "0/3", "Init:Error", "0"},
		{"init: failed without a reason", aPod(v1.PodPending, all{container("migrate", hasEnded(7, 0, ""))}), "0/3", "Init:ExitCode:7", "0"},
		{"init: crash loop", aPod(v1.PodPending, all{restarted(container("migrate", isWaiting("CrashLoopBackOff")), 4, time.Minute)}), "0/3", "Init:CrashLoopBackOff", "4 (1m0s ago)"},
		{"init: the sidecar starts", aPod(v1.PodPending, all{done, container("proxy", initializing)}), "0/3", "Init:1/3", "0"},
		{"init: the sidecar runs", aPod(v1.PodPending, all{done, proxy, container("warm-up", isRunning())}), "1/3", "Init:2/3", "0"},
		{"init is over", aPod(v1.PodPending, all{done, proxy, warm}, container("app", initializing)), "1/3", "PodInitializing", "0"},
		{"all run", aPod(v1.PodRunning, all{done, proxy, warm}, container("app", isRunning()), container("log", isRunning())), "3/3", "Running", "0"},
		{"restarts of init containers are forgotten, of sidecars not", aPod(v1.PodRunning,
			all{restarted(done, 5, time.Second), restarted(proxy, 1, time.Minute), warm}, container("app", isRunning()), container("log", isRunning())),
			"3/3", "Running", "1 (1m0s ago)"},
		{"the sidecar crashes later", with(aPod(v1.PodRunning,
			all{done, restarted(container("proxy", isWaiting("CrashLoopBackOff")), 1, time.Minute), warm}, container("app", isRunning()), container("log", isRunning())),
			condition(v1.PodInitialized)), "2/3", "Init:CrashLoopBackOff", "1 (1m0s ago)"},
	} {
		r, restarts := Of(tt.pod), ""
		if restarts = fmt.Sprint(r.Restarts); !r.LastEnd.IsZero() {
			restarts += fmt.Sprintf(" (%v ago)", noon.Sub(r.LastEnd))
		}
		if r.Readiness() != tt.ready || r.Status != tt.status || restarts != tt.restarts {
			t.Errorf("%s: %s %s %s, want %s %s %s", tt.name, r.Readiness(), r.Status, restarts, tt.ready, tt.status, tt.restarts)
		}
	}
}

func TestBegan(t *testing.T) {
	pod := &v1.Pod{}
	check := func(when string, want time.Time) {
		t.Helper()
		if got := Of(pod).Began; !got.Equal(want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	check("nothing is known", time.Time{})
	pod.Annotations = map[string]string{runtime.AnnotationConfigSeen: noon.Add(-3 * time.Second).Format(time.RFC3339Nano)}
	check("a source has delivered the pod", noon.Add(-3*time.Second))
	pod.Status.StartTime = &metav1.Time{Time: noon.Add(-2 * time.Hour)}
	check("an earlier agent has accepted it", noon.Add(-2*time.Hour))
	pod.CreationTimestamp = metav1.NewTime(noon.Add(-72 * time.Hour))
	check("an API server has created it", noon.Add(-72*time.Hour))
}
