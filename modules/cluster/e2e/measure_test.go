//go:build linux

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

const (
	// settle is the idle time before a measurement.
	settle = 15 * time.Second
	// idle is the time for which the CPU usage of an idle agent is measured.
	idle = time.Minute
)

// A wave has the durations of pods that were created at the same time, and deleted at the same time.
type wave struct{ ready, gone []time.Duration }

// TestMeasure prints the durations of pods, and the resource usage of the agent.
func TestMeasure(t *testing.T) {
	r := newRig(t)
	time.Sleep(settle)
	before := r.audited()
	t.Logf("idle: %s", r.use())
	t.Logf("requests in %v idle: %d", idle, r.audited()-before)
	r.wave(1) // the first wave finds cold caches
	for _, n := range []int{1, 1, 1, 10, 10, 40} {
		before := r.audited()
		w := r.wave(n)
		t.Logf("%2d pods: binding to Ready p50 %v, max %v; deletion to gone p50 %v, max %v; requests a pod %.1f", n,
			median(w.ready), slices.Max(w.ready), median(w.gone), slices.Max(w.gone), float64(r.audited()-before)/float64(n))
	}
	r.start(40)
	r.wait(2*time.Minute, "40 pods", func() bool {
		all := r.pods()
		return len(all) == 40 && !slices.ContainsFunc(all, func(p v1.Pod) bool { return !ready(&p) })
	})
	time.Sleep(settle)
	before = r.audited()
	t.Logf("with 40 pods: %s", r.use())
	t.Logf("requests in %v with 40 pods: %d", idle, r.audited()-before)
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// start creates pods that are bound to the node, and returns the time of each creation.
func (r *rig) start(n int) (made map[string]time.Time) {
	r.Helper()
	made = map[string]time.Time{}
	for i := range n {
		name := fmt.Sprintf("p%d-%d", time.Now().UnixNano(), i)
		made[name] = time.Now()
		r.create(&v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1.PodSpec{NodeName: nodeName, TerminationGracePeriodSeconds: new(int64(5)),
				Containers: []v1.Container{{Name: "app", Image: pause(), ImagePullPolicy: v1.PullIfNotPresent}}},
		})
	}
	return made
}

// wave creates pods, waits until all are ready, deletes them and waits until all objects are removed.
func (r *rig) wave(n int) (w wave) {
	r.Helper()
	events := must.Get(r.kube.CoreV1().Pods(r.namespace).Watch(r.Context(), metav1.ListOptions{}))(r)
	defer events.Stop()
	made := r.start(n)
	names := map[string]bool{}
	r.each(events, n, func(e watch.Event, pod *v1.Pod) bool {
		if made[pod.Name].IsZero() || names[pod.Name] || !ready(pod) {
			return false
		}
		names[pod.Name] = true
		w.ready = append(w.ready, time.Since(made[pod.Name]).Round(time.Millisecond))
		return true
	})
	time.Sleep(2 * time.Second)
	deleted := map[string]time.Time{}
	for name := range made {
		deleted[name] = time.Now()
		r.delete(name)
	}
	r.each(events, n, func(e watch.Event, pod *v1.Pod) bool {
		if e.Type != watch.Deleted || deleted[pod.Name].IsZero() {
			return false
		}
		w.gone = append(w.gone, time.Since(deleted[pod.Name]).Round(time.Millisecond))
		return true
	})
	time.Sleep(2 * time.Second)
	return w
}

// each reads events until counts has returned true for n of them.
func (r *rig) each(events watch.Interface, n int, counts func(watch.Event, *v1.Pod) bool) {
	r.Helper()
	late := time.After(3 * time.Minute)
	for n > 0 {
		select {
		case e, open := <-events.ResultChan():
			pod, ok := e.Object.(*v1.Pod)
			if !open || !ok {
				r.Fatalf("the watch ended: %v", e)
			}
			if counts(e, pod) {
				n--
			}
		case <-late:
			r.Fatalf("%d pods are late", n)
		}
	}
}

// use returns the memory of the agent, and the share of a CPU that it uses while it is idle.
func (r *rig) use() string {
	r.Helper()
	pid := r.pid("kubelet")
	from, began := r.ticks(pid), time.Now()
	time.Sleep(idle)
	const perSecond = 100 // USER_HZ
	part := float64(r.ticks(pid)-from) / perSecond / time.Since(began).Seconds() * 100
	resident := must.Get(r.resident(pid))(r)
	return fmt.Sprintf("resident %.1f MB, CPU %.2f %%", resident, part)
}

func (r *rig) ticks(pid int) int {
	r.Helper()
	text := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)))(r)
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return user + system
}

// resident returns the memory of a process in MB.
func (r *rig) resident(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if size, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.Atoi(strings.Fields(size)[0])
			return float64(kib) / 1000 * 1.024, err
		}
	}
	return 0, fmt.Errorf("process %d has no VmRSS", pid)
}

// audited returns the number of the node's requests in the API server's audit log.
func (r *rig) audited() (n int) {
	r.Helper()
	path := os.Getenv("PODSYNC_E2E_AUDIT")
	if path == "" {
		return 0
	}
	file := must.Get(os.Open(path))(r)
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var event struct {
			Stage string
			User  struct{ Username string }
		}
		if json.Unmarshal(lines.Bytes(), &event) == nil && event.Stage == "ResponseComplete" && event.User.Username == "system:node:"+nodeName {
			n++
		}
	}
	return n
}
