package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/modules/cluster/internal/clientlog"
	"github.com/podsync/podsync/modules/cluster/internal/fleet"
	"github.com/podsync/podsync/modules/cluster/internal/gate"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

func TestMain(m *testing.M) { os.Exit(clientlog.Run(m)) }

// runFor runs a fleet in memory in virtual time, and returns what it prints.
func runFor(t *testing.T, args ...string) string {
	t.Helper()
	var out strings.Builder
	synctest.Test(t, func(t *testing.T) {
		o, err := parse(append(args, "--in-memory", "--every=1m", "--dir="+t.TempDir()))
		if err == nil {
			err = run(t.Context(), o, &out)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	return out.String()
}

func wantIn(t *testing.T, out string, all ...string) {
	t.Helper()
	for _, want := range all {
		if !strings.Contains(out, want) {
			t.Errorf("it prints\n%s\nwant %q in it", out, want)
		}
	}
}

// A fleet in memory runs its pods, while some pods crash and some nodes lose power or their connection.
func TestFleet(t *testing.T) {
	out := runFor(t, "--nodes=5", "--pods=20", "--for=20m", "--crashes=1", "--node-deaths=1", "--partitions=6")
	wantIn(t, out, "pods 20: 20 running, 0 pending", "loses its power", "loses its connection", "bind to Ready    20 pods", "delete to gone   none", "patch ")
}

// A fleet that ends while its nodes start does not start the rest.
func TestEndDuringStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube, _, err := connect(options{inMemory: true})
		if err != nil {
			t.Fatal(err)
		}
		f := must.Get(fleet.New(fleet.Config{Kube: kube, Dir: t.TempDir()}))(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := startAll(ctx, f, []fleet.Spec{{Name: "late"}}); err != nil || len(f.Nodes()) != 0 {
			t.Errorf("%d nodes have started after the end, error %v, want none", len(f.Nodes()), err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Nodes are lost and replaced, and their pods are created again: a third at once, and others from the seed.
func TestReplacements(t *testing.T) {
	out := runFor(t, "--nodes=6", "--pods=24", "--for=10m", "--replace-third-after=2m")
	wantIn(t, out, "pods 24: 24 running, 0 pending", "2 nodes are lost", "is replaced by fleet-6", "is replaced by fleet-7", "bind to Ready    32 pods")
	out = runFor(t, "--nodes=6", "--pods=24", "--for=30m", "--node-replacements=1")
	wantIn(t, out, "pods 24: 24 running, 0 pending", "is lost", "is replaced by fleet-6")
}

// The nodes repeat the shapes of the file.
func TestShapes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "shapes.yaml")
	text := `
- {count: 2, zones: [a, b], labels: {disk: ssd}, capacity: {cpu: 8, example.com/gpu: 2}}
- {taints: [{key: k, effect: NoSchedule}]}
`
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	o, err := parse([]string{"--nodes=5", "--shapes=" + file})
	if err != nil {
		t.Fatal(err)
	}
	specs, err := shapes(o)
	if err != nil || len(specs) != 5 {
		t.Fatalf("%d nodes, %v, want %d", len(specs), err, 5)
	}
	if s := specs[3]; s.Name != "fleet-3" || s.Labels["disk"] != "ssd" || s.Labels[v1.LabelTopologyZone] != "b" || s.Capacity.Cpu().Value() != 8 || s.Capacity.Pods().Value() != 110 {
		t.Errorf("the fourth node is %+v, want the first shape in zone %q", s, "b")
	}
	if s := specs[2]; len(s.Taints) != 1 || len(s.Labels) != 0 {
		t.Errorf("the third node is %+v, want the second shape", s)
	}
	must.Do(t, os.WriteFile(file, []byte("- {cuont: 2}"), 0o600))
	if _, err := shapes(o); err == nil || !strings.Contains(err.Error(), "cuont") {
		t.Errorf("an unknown field: %v, want an error that names it", err)
	}
}

func TestWrongFlags(t *testing.T) {
	for _, flag := range []string{"--nodes=0", "--nodes=70000", "--pods=-1", "--crashes=-1", "--every=0s"} {
		if _, err := parse([]string{flag}); err == nil || !strings.Contains(err.Error(), strings.SplitN(flag, "=", 2)[0]) {
			t.Errorf("%s: %v, want an error that names it", flag, err)
		}
	}
	if d := quantiles([]time.Duration{time.Second}); !strings.Contains(d, "p50 1s") {
		t.Errorf("quantiles are %q, want %q", d, "p50 1s")
	}
}

// The metrics and the summary have the same figures.
func TestMetrics(t *testing.T) {
	counts := map[gate.RequestType]int{{Verb: "patch", Resource: "pods/status", Code: 200}: 7, {Verb: "patch", Resource: "pods/status"}: 1}
	r := newReport(func() map[gate.RequestType]int { return counts }, io.Discard)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}, Status: v1.PodStatus{
		Phase: v1.PodRunning, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}},
	}}
	r.podChanged(pod, false)
	deleted := pod.DeepCopy()
	deleted.UID, deleted.DeletionTimestamp = "2", new(metav1.Now())
	r.podChanged(deleted, false)
	r.podChanged(deleted, true)
	families := must.Get(r.registry().Gather())(t)
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				name += " " + l.GetValue()
			}
			got[name] = m.Gauge.GetValue() + m.Counter.GetValue() + float64(m.Histogram.GetSampleCount())
		}
	}
	for name, want := range map[string]float64{
		"podsync_fleet_pods Running": 1, "podsync_fleet_pods Pending": 0, "podsync_fleet_apiserver_requests_total 200 pods/status patch": 7, "podsync_fleet_apiserver_requests_total <error> pods/status patch": 1,
		"podsync_fleet_bind_to_ready_seconds": 2, "podsync_fleet_delete_to_gone_seconds": 1,
	} {
		if value, there := got[name]; !there || value != want {
			t.Errorf("%s is %v, want %v", name, value, want)
		}
	}
}

// The line of failures counts what has failed since the last line, and names the most frequent kinds.
func TestFailures(t *testing.T) {
	before := map[gate.RequestType]int{{Verb: "get", Resource: "nodes", Code: 503}: 4}
	now := map[gate.RequestType]int{
		{Verb: "get", Resource: "nodes", Code: 503}: 5, {Verb: "get", Resource: "nodes", Code: 404}: 9, {Verb: "patch", Resource: "pods/status"}: 3,
		{Verb: "create", Resource: "nodes", Code: 409}: 2, {Verb: "get", Resource: "nodes", Code: 200}: 100,
	}
	if got, want := failures(now, before), "4, 3 patch pods/status <error>, 1 get nodes 503"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	if got := failures(now, now); got != "" {
		t.Errorf("without failures it says %q", got)
	}
	for code := range 2 * maxFailures {
		now[gate.RequestType{Verb: "list", Resource: "pods", Code: 500 + code}] = 1
	}
	if got, want := failures(now, before), ", and 7 other kinds"; !strings.HasSuffix(got, want) {
		t.Errorf("it says %q, want %q at its end", got, want)
	}
}

// The error for an invalid flag names the flag.
func TestParse(t *testing.T) {
	for want, args := range map[string][]string{
		"--listen is":          {"--listen=here"},
		"need each other":      {"--tls-cert-file=f"},
		"--nodes is too small": {"--nodes=0"},
	} {
		if _, err := parse(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q in the error", args, err, want)
		}
	}
}
