package loop_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/shutdown"
	"github.com/podsync/podsync/syncpod/source"
)

// Scripts by how long a pod takes to stop.
const deafForever = "trap '' TERM; sleep infinity"

func stopsAfter(seconds int) string {
	return fmt.Sprintf("trap 'sleep %d; exit 0' TERM; sleep infinity & wait", seconds)
}

// rankedPod returns a pod of an API server with a priority and a grace period.
func rankedPod(name string, priority int32, grace int64, script string) *v1.Pod {
	p := api(pod("", name, "uid-"+name, script))
	p.Spec.Priority, p.Spec.TerminationGracePeriodSeconds = &priority, &grace
	return p
}

func hasDisruption(s v1.PodStatus) bool {
	for _, c := range s.Conditions {
		if c.Type == v1.DisruptionTarget {
			return c.Status == v1.ConditionTrue && c.Reason == "TerminationByKubelet" && c.Message == "Pod was terminated in response to imminent node shutdown." && !c.LastTransitionTime.IsZero()
		}
	}
	return false
}

// When the node shuts down, pods stop in the order of their priority, and their statuses are those of a kubelet. New pods
// are rejected meanwhile. The next agent starts only the static pod.
func TestShutdown(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src, files := source.NewPush(), source.NewStaticPush("file")
		a := n.start([]source.Source{src, files}, nil)
		pods := []*v1.Pod{
			rankedPod("willing", 0, 30, stopsAfter(3)),
			rankedPod("deaf", 0, 60, deafForever),
			rankedPod("short", 100, 4, deafForever),
			rankedPod("critical", 2000000000, 30, stopsAfter(2)),
		}
		set(t, src, pods...)
		set(t, files, pod("file", "static", "uid-static", stopsAfter(1)))
		done := rankedPod("done", 0, 30, "exit 0")
		done.Spec.RestartPolicy = v1.RestartPolicyNever
		set(t, src, append(pods, done)...)
		time.Sleep(time.Minute)
		began := time.Now()
		ended := make(chan error, 1)
		go func() {
			ended <- a.Shutdown(t.Context(), shutdown.Policy{GracePeriod: 30 * time.Second, CriticalGracePeriod: 10 * time.Second})
		}()
		time.Sleep(5 * time.Second)
		late := rankedPod("late", 2000001000, 30, forever)
		set(t, src, append(pods, done, late)...)
		synctest.Wait()
		if s := a.sink.of("uid-late"); s.Phase != v1.PodFailed || s.Reason != "NodeShutdown" || s.Message != "Pod was rejected: Pod was rejected as the node is shutting down." {
			t.Errorf("the pod that was added during the shutdown is %+v", s)
		}
		if err := <-ended; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if took := time.Since(began); took < 22*time.Second || took > 23*time.Second {
			t.Errorf("the shutdown took %v, want 22 s: 20 for the pod that ignores SIGTERM, and 2 for the critical pod", took)
		}
		for _, p := range append(pods, pod("file", "static", "uid-static", "")) {
			s := a.sink.of(p.UID)
			if s.Phase != v1.PodFailed || s.Reason != "Terminated" || s.Message != "Pod was terminated in response to imminent node shutdown." || !hasDisruption(s) {
				t.Errorf("pod %s is %+v, want phase %v, reason %q, message %q and a disruption", p.Name, s, v1.PodFailed, "Terminated", "Pod was terminated in response to imminent node shutdown.")
			}
		}
		if s := a.sink.of("uid-done"); s.Phase != v1.PodSucceeded || s.Reason != "" {
			t.Errorf("the pod that had finished before is %+v", s)
		}
		if starts := n.Journal().Pod("uid-late").Count(critest.RunPodSandbox); starts > 0 {
			t.Error("the pod that was added during the shutdown was started")
		}

		a.stop()
		before := len(n.Journal())
		src, files = source.NewPush(), source.NewStaticPush("file")
		b := n.start([]source.Source{src, files}, nil)
		set(t, src, append(pods, done, late)...)
		set(t, files, pod("file", "static", "uid-static", forever))
		time.Sleep(time.Minute)
		for _, p := range append(pods, late) {
			if starts := n.Journal().After(before).Pod(string(p.UID)).Count(critest.StartContainer); starts > 0 {
				t.Errorf("the next agent has started pod %s", p.Name)
			}
			if s := b.sink.of(p.UID); s.Phase != v1.PodFailed {
				t.Errorf("in the next agent pod %s is %+v", p.Name, s)
			}
		}
		if n.running("uid-static") != 1 {
			t.Error("the next agent has not started the static pod")
		}
	})
}

// TestShutdownWhileAPodIsAdmitted checks that a pod that was admitted just before the shutdown began, so that the shutdown
// does not know it, is rejected, and that none of its containers start.
func TestShutdownWhileAPodIsAdmitted(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := source.NewPush()
		var a *agent
		ended := make(chan error, 1)
		a = n.start([]source.Source{src}, func(c *nodeagent.Config) {
			c.Admission = loop.AdmissionFunc(func(pod *v1.Pod, _ []*v1.Pod) *syncpod.Rejection {
				if pod.Name == "late" && len(ended) == 0 {
					go func() { ended <- a.Shutdown(t.Context(), shutdown.Policy{GracePeriod: 30 * time.Second}) }()
					time.Sleep(time.Second)
				}
				return nil
			})
		})
		polite := rankedPod("polite", 0, 30, stopsAfter(3))
		set(t, src, polite)
		time.Sleep(10 * time.Second)
		set(t, src, polite, rankedPod("late", 0, 30, stopsAfter(3)))
		time.Sleep(time.Minute)
		if s := a.sink.of("uid-late"); s.Phase != v1.PodFailed || s.Reason != "NodeShutdown" {
			t.Errorf("what was admitted meanwhile is %s %s", s.Phase, s.Reason)
		}
		for _, c := range n.Journal().Of(critest.RunPodSandbox) {
			if c.PodUID == "uid-late" {
				t.Errorf("a sandbox is made at %v", c.Start)
			}
		}
		if err := <-ended; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
}

// Random nodes: no group exceeds its period, none begins before the previous group has stopped or its period
// has expired, no pod gets more than its own grace period, and no pod runs in the end.
func TestShutdownOfRandomNodes(t *testing.T) {
	for seed := range uint64(25) {
		inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
			r := rand.New(rand.NewPCG(seed, 1))
			p := shutdown.Policy{ByPriority: []shutdown.Period{{Priority: 1000, GracePeriod: time.Duration(1+r.IntN(8)) * time.Second}, {Priority: 0, GracePeriod: time.Duration(r.IntN(20)) * time.Second}, {Priority: 100, GracePeriod: time.Duration(1+r.IntN(10)) * time.Second}}}
			var pods []*v1.Pod
			var uids []string
			for i := range 1 + r.IntN(6) {
				script := stopsAfter(r.IntN(12))
				if r.IntN(3) == 0 {
					script = deafForever
				}
				pods = append(pods, rankedPod(fmt.Sprint("p", i), []int32{-5, 0, 99, 100, 1000, 2000000000}[r.IntN(6)], int64(1+r.IntN(15)), script))
				uids = append(uids, string(pods[i].UID))
			}
			src := source.NewPush()
			a := n.start([]source.Source{src}, nil)
			set(t, src, pods...)
			time.Sleep(time.Minute)
			began := time.Now()
			var deleted types.UID
			if r.IntN(3) == 0 { // one pod is stopping already, with its own grace period
				deleted = pods[0].UID
				src.Delete(deleted)
				synctest.Wait()
			}
			if err := a.Shutdown(t.Context(), p); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
			if took := time.Since(began); took > p.Total()+2*time.Second {
				t.Errorf("seed %d: it took %v of %v", seed, took, p.Total())
			}
			synctest.Wait() // the end of a call may not be recorded yet
			first, last := map[string]time.Duration{}, map[string]time.Duration{}
			for _, c := range n.Journal() {
				if c.Method != critest.StopContainer || c.Start.Before(began) {
					continue
				}
				if _, known := first[c.PodUID]; !known {
					first[c.PodUID] = c.Start.Sub(began)
				}
				last[c.PodUID] = c.End.Sub(began)
			}
			gone := time.Duration(0)
			for _, g := range shutdown.Order(pods, p) {
				latest := gone
				for _, s := range g.Stops {
					uid := string(s.Pod.UID)
					own := time.Duration(max(s.GraceSeconds, 2)) * time.Second // no container has less
					switch {
					case s.Pod.UID == deleted:
						continue
					case first[uid] < gone:
						t.Errorf("seed %d: pod %s of %d is stopped at %v, and those below it go until %v", seed, uid, *s.Pod.Spec.Priority, first[uid], gone)
					case last[uid]-first[uid] > own:
						t.Errorf("seed %d: pod %s had %v to stop, want at most %v", seed, uid, last[uid]-first[uid], own)
					case last[uid] > max(g.Deadline, first[uid]+2*time.Second):
						t.Errorf("seed %d: pod %s of %d is gone at %v, its group at %v", seed, uid, *s.Pod.Spec.Priority, last[uid], g.Deadline)
					}
					latest = max(latest, min(last[uid], gone+g.GracePeriod))
				}
				gone = latest
			}
			for _, uid := range uids {
				if n.running(uid) > 0 {
					t.Errorf("seed %d: pod %s runs", seed, uid)
				}
			}
		})
	}
}

// A pod that cannot be stopped delays no other pod, and the error names it.
func TestShutdownOfAPodThatCannotBeKilled(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := source.NewPush()
		a := n.start([]source.Source{src}, nil)
		set(t, src, rankedPod("stuck", 0, 5, forever), rankedPod("critical", 2000000000, 5, stopsAfter(1)))
		time.Sleep(time.Minute)
		hang := &faults.Gate{}
		for _, method := range []critest.Method{critest.StopContainer, critest.StopPodSandbox} {
			if _, err := n.Inject(faults.Fault{Match: faults.Match{Method: method, PodUID: "uid-stuck"}, Times: faults.Always, Hang: hang}); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		err := a.Shutdown(t.Context(), shutdown.Policy{GracePeriod: 20 * time.Second, CriticalGracePeriod: 10 * time.Second})
		if err == nil || !strings.Contains(err.Error(), "1 pods are still stopping") {
			t.Errorf("error is %v, want an error and %q in it", err, "1 pods are still stopping")
		}
		if took := time.Since(began); took != 22*time.Second {
			t.Errorf("it took %v, want its whole time and 2 s", took)
		}
		if s := a.sink.of("uid-critical"); s.Phase != v1.PodFailed || s.Reason != "Terminated" {
			t.Errorf("the critical pod is %+v", s)
		}
		hang.Open()
	})
}

func TestShutdownPolicyIsChecked(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := source.NewPush()
		a := n.start([]source.Source{src}, nil)
		set(t, src, rankedPod("web", 0, 5, forever))
		time.Sleep(time.Minute)
		err := a.Shutdown(t.Context(), shutdown.Policy{GracePeriod: time.Second, CriticalGracePeriod: 2 * time.Second})
		if err == nil || !strings.Contains(err.Error(), "CriticalGracePeriod is 2s") || n.running("uid-web") != 1 {
			t.Errorf("%v, %d run, want an error and %q in it and 1", err, n.running("uid-web"), "CriticalGracePeriod is 2s")
		}
		n.inject(faults.Fault{Match: faults.Match{Method: critest.StopContainer}, Delay: time.Minute})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := a.Shutdown(ctx, shutdown.Policy{GracePeriod: time.Second}); err == nil {
			t.Error("a shutdown that is cut short has no error")
		}
	})
}
