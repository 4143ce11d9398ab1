package prometheus_test

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/modules/prometheus"
	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/pleg"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/probe"
)

// probed returns a pod that is ready from its fifth second on.
func probed(name string) *v1.Pod {
	p := pod(name, "sleep 5; touch /ready; sleep infinity")
	p.Spec.Containers[0].ReadinessProbe = &v1.Probe{
		ProbeHandler:  v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"test", "-e", "/ready"}}},
		PeriodSeconds: 10, TimeoutSeconds: 1,
	}
	return p
}

func series(probeType, result, name string) []string {
	return []string{"container", "app", "namespace", "default", "pod", name, "pod_uid", "uid-of-" + name, "probe_type", probeType, "result", result}
}

// Series of probes have a kubelet's labels, and are removed with their pods.
func TestProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t)
		must.Do(t, a.pods.Set(probed("web"), probed("db"), pod("unprobed", "sleep infinity")))
		time.Sleep(time.Minute)
		synctest.Wait()
		got := a.scrape("/metrics/probes")
		for _, name := range []string{"web", "db"} {
			failed := value(got, "prober_probe_total", series("Readiness", "failed", name)...)
			good := value(got, "prober_probe_total", series("Readiness", "successful", name)...)
			if failed != 1 || good < 5 {
				t.Errorf("%s: %v checks failed, %v were successful: %v", name, failed, good, got)
			}
			took := value(got, "prober_probe_duration_seconds", "container", "app", "namespace", "default", "pod", name, "probe_type", "Readiness")
			if took != good {
				t.Errorf("%s: %v durations of %v checks", name, took, good)
			}
		}
		if n := len(got["prober_probe_total"].Metric); n != 4 {
			t.Errorf("%d series: %v, want 4", n, got["prober_probe_total"])
		}
		must.Do(t, a.pods.Set(probed("db")))
		time.Sleep(time.Minute)
		synctest.Wait()
		got = a.scrape("/metrics/probes")
		if n, m := len(got["prober_probe_total"].Metric), len(got["prober_probe_duration_seconds"].Metric); n != 2 || m != 1 {
			t.Errorf("%d and %d series once a pod is gone: %v", n, m, got)
		}
		must.Do(t, a.pods.Set())
		time.Sleep(time.Minute)
		synctest.Wait()
		if got = a.scrape("/metrics/probes"); len(got) != 0 {
			t.Errorf("once all are gone: %v", got)
		}
	})
}

// Two pods have the same name, and one of them is still terminating. Series with a UID are separate for them; they share
// the series without a UID.
func TestProbesOfOneName(t *testing.T) {
	a := &agent{t: t}
	var err error
	if a.metrics, err = prometheus.New(prometheus.Config{NodeName: "node1"}); err != nil {
		t.Fatal(err)
	}
	observer := a.metrics.Probes()
	check := func(uid types.UID, outcome actions.ProbeResult) {
		p := pod("web", "")
		p.UID = uid
		observer.Checked(probe.Check{Pod: p, Container: "app", Kind: probe.Liveness, Outcome: outcome, Took: time.Second})
	}
	check("one", actions.ProbeSuccess)
	check("two", actions.ProbeSuccess)
	check("two", actions.ProbeUnknown)
	count := func() (total, duration int) {
		got := a.scrape("/metrics/probes")
		return len(got["prober_probe_total"].GetMetric()), len(got["prober_probe_duration_seconds"].GetMetric())
	}
	for _, step := range []struct {
		forget          types.UID
		total, duration int
	}{{"", 3, 1}, {"one", 2, 1}, {"none", 2, 1}, {"two", 0, 0}} {
		observer.PodForgotten(step.forget)
		if total, duration := count(); total != step.total || duration != step.duration {
			t.Errorf("without %q: %d and %d series, want %d and %d", step.forget, total, duration, step.total, step.duration)
		}
	}
}

// observed counts the calls of the observers that the configuration had before Observe.
type observed struct {
	syncpod.NopObserver
	n *int
}

func (o observed) PodRunning(*v1.Pod, time.Duration)                     { *o.n++ }
func (o observed) VolumeSetUp(*v1.Pod, *v1.Volume, time.Duration, error) { *o.n++ }

type observedWork struct {
	podworkers.NopObserver
	n *int
}

func (o observedWork) SyncEnded(podworkers.Work, time.Duration, error) { *o.n++ }

type observedLists struct {
	pleg.NopObserver
	n *int
}

func (o observedLists) Listed(int, time.Duration, error) { *o.n++ }

type observedProbes struct{ n *int }

func (o observedProbes) Checked(probe.Check)    { *o.n++ }
func (o observedProbes) PodForgotten(types.UID) { *o.n++ }

func TestObserversThatWereThere(t *testing.T) {
	m := must.Get(prometheus.New(prometheus.Config{NodeName: "node1"}))(t)
	n := 0
	c := nodeagent.Config{ProbeObserver: observedProbes{&n}}
	c.Sync.Observer, c.Workers.Observer, c.Watch.Observer = observed{n: &n}, observedWork{n: &n}, observedLists{n: &n}
	m.Observe(&c)
	c.Sync.Observer.PodRunning(nil, 0)
	c.Sync.Observer.VolumeSetUp(nil, &v1.Volume{}, 0, nil)
	c.Workers.Observer.SyncEnded(podworkers.Work{}, 0, nil)
	c.Watch.Observer.Listed(0, 0, nil)
	c.ProbeObserver.Checked(probe.Check{Pod: &v1.Pod{}})
	c.ProbeObserver.PodForgotten("")
	if n != 6 {
		t.Errorf("%d of 6 observers were called", n)
	}
}
