//go:build linux

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/modules/cluster/internal/hours"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

const (
	// soakRound is the pause between changes of the workloads, and samplePause the pause between samples.
	soakRound, samplePause = 30 * time.Second, 10 * time.Second
	// restartPause is the maximum time between kills of containerd. A shorter soak kills it at each third of its duration.
	restartPause = 10 * time.Minute
	// keptPulls is the number of pulled images that exist at a time.
	keptPulls = 2
)

// The resources of the agent that must not grow, with the slack of hours.Growth: the garbage collector, and the pods that
// happen to exist, move them by less.
var soaked = []struct {
	name  string
	slack float64
	read  func(h *hostile, agent int) (float64, error)
}{
	{"resident MB", 5, func(h *hostile, agent int) (float64, error) { return h.resident(agent) }},
	{"goroutines", 30, func(h *hostile, _ int) (float64, error) {
		return h.metric("/api/v1/nodes/"+nodeName+"/proxy/metrics", "go_goroutines", "")
	}},
	{"file descriptors", 15, func(_ *hostile, agent int) (float64, error) {
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", agent))
		return float64(len(open)), err
	}},
	{"watches of the API server", 5, func(h *hostile, _ int) (float64, error) {
		return h.metric("/metrics", "apiserver_longrunning_requests", `verb="WATCH"`)
	}},
}

// TestSoak changes workloads, pulls and removes images, fails probes and restarts containerd. The rules of package hours
// hold, and the resources of the agent do not grow.
func TestSoak(t *testing.T) {
	text := os.Getenv("PODSYNC_SOAK")
	if text == "" {
		t.Skip("PODSYNC_SOAK is not set")
	}
	duration, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("PODSYNC_SOAK: %v", err)
	}
	h := &hostile{rig: newRig(t), folder: t.TempDir(), random: rand.New(rand.NewPCG(1, 2)), counts: map[string]int{}}
	h.runtime = h.dial()
	images := h.serveImages(filepath.Join(h.dir, "soak.tar"))
	h.furnish()
	h.unhealthy()
	agent := h.pid("kubelet")
	ctx, cancel := context.WithCancel(t.Context())
	samples := make([][]float64, len(soaked))
	var watchers sync.WaitGroup
	watchers.Go(func() { h.judge(ctx) })
	watchers.Go(func() { h.sample(ctx, agent, samples) })
	defer watchers.Wait()
	defer cancel()
	pause := min(restartPause, duration/3)
	for round, end, next := 0, time.Now().Add(duration), time.Now().Add(pause); time.Now().Before(end); round++ {
		h.churn(round)
		h.pull(images, round)
		time.Sleep(soakRound)
		if time.Now().After(next) {
			h.fault(containerdKilled)
			next = next.Add(pause)
		}
	}
	time.Sleep(lastCalm)
	h.settled()
	cancel()
	watchers.Wait()
	t.Logf("%v: %v", duration, h.counts)
	for i, s := range soaked {
		medians, err := hours.Growth(s.name, samples[i], s.slack)
		if err != nil {
			t.Error(err)
		}
		t.Logf("%s: medians of the thirds %.1f", s.name, medians)
	}
	if gone(agent) {
		t.Error("the agent has ended")
	}
}

// sample reads the resources until ctx ends, and counts failures.
func (h *hostile) sample(ctx context.Context, agent int, samples [][]float64) {
	for tick := time.NewTicker(samplePause); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		for i, s := range soaked {
			if value, err := s.read(h, agent); err == nil {
				samples[i] = append(samples[i], value)
			} else if ctx.Err() == nil {
				h.mu.Lock()
				h.counts["failed samples"]++
				h.mu.Unlock()
			}
		}
	}
}

// metric returns the sum of the samples of a metric whose labels contain a text.
func (h *hostile) metric(path, name, labels string) (sum float64, err error) {
	ctx, cancel := context.WithTimeout(h.Context(), snapshotTimeout)
	defer cancel()
	text, err := h.kube.CoreV1().RESTClient().Get().AbsPath(path).DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	found := false
	for line := range bytes.Lines(text) {
		series, value, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		if metric, set, _ := strings.Cut(series, "{"); metric == name && strings.Contains(set, labels) {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, err
			}
			sum, found = sum+n, true
		}
	}
	if !found {
		return 0, fmt.Errorf("%s has no %s", path, name)
	}
	return sum, nil
}

// unhealthy creates a Deployment whose liveness probe fails after a while, and whose readiness probe always fails.
func (h *hostile) unhealthy() {
	h.Helper()
	selector, pod := h.podOf("unhealthy", serving, v1.RestartPolicyAlways)
	c := &pod.Spec.Containers[0]
	c.ReadinessProbe.Exec.Command = []string{"false"}
	c.LivenessProbe = &v1.Probe{PeriodSeconds: 5, InitialDelaySeconds: 20, ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"false"}}}}
	must.Get(h.kube.AppsV1().Deployments(h.namespace).Create(h.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "unhealthy"}, Spec: appsv1.DeploymentSpec{Selector: &selector, Template: pod},
	}, metav1.CreateOptions{}))(h)
}

// pull runs a pod with a new image, and removes the pod and the image of an earlier round.
func (h *hostile) pull(images *images, round int) {
	h.Helper()
	_, pod := h.podOf("pull", "sleep 5", v1.RestartPolicyNever)
	pod.Spec.Containers[0].Image, pod.Spec.Containers[0].ImagePullPolicy = images.name(round), v1.PullAlways
	h.create(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("pull-", round), Labels: pod.Labels}, Spec: pod.Spec})
	old := round - keptPulls
	if old < 0 {
		return
	}
	name := fmt.Sprint("pull-", old)
	if p, err := h.kube.CoreV1().Pods(h.namespace).Get(h.Context(), name, metav1.GetOptions{}); err == nil && p.Status.Phase == v1.PodSucceeded {
		h.mu.Lock()
		h.counts["pulled images"]++
		h.mu.Unlock()
	} else if err != nil && !apierrors.IsNotFound(err) {
		h.Errorf("%s: %v", name, err)
	}
	h.delete(name)
	if _, err := h.runtime.RemoveImage(h.Context(), &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: images.name(old)}}); err != nil {
		h.Logf("remove %s: %v", images.name(old), err)
	}
}
