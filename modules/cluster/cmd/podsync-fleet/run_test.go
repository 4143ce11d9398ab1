package main

import (
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
)

func TestMain(m *testing.M) { os.Exit(clientlog.Run(m)) }

// A fleet in memory runs its pods, while some pods crash and some nodes lose power.
func TestFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		o, err := parse([]string{"--in-memory", "--nodes=5", "--pods=20", "--for=20m", "--every=1m", "--crashes=1", "--node-deaths=1", "--dir=" + t.TempDir()})
		if err == nil {
			err = run(t.Context(), o, &out)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"pods 20: 20 running, 0 pending", "loses its power", "bind to Ready    20 pods", "delete to gone   none", "patch "} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("it prints\n%s\nwant %q in it", &out, want)
			}
		}
	})
}

// The nodes repeat the shapes of the file.
func TestShapes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "shapes.yaml")
	text := `
- {count: 2, zones: [a, b], labels: {disk: ssd}, capacity: {cpu: 8, example.com/gpu: 2}}
- {taints: [{key: k, effect: NoSchedule}]}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
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
	if err := os.WriteFile(file, []byte("- {cuont: 2}"), 0o600); err != nil {
		t.Fatal(err)
	}
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
	r := newReport(func() map[string]int { return map[string]int{"patch": 7} }, io.Discard)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}, Status: v1.PodStatus{
		Phase: v1.PodRunning, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}},
	}}
	r.podChanged(pod, false)
	deleted := pod.DeepCopy()
	deleted.UID, deleted.DeletionTimestamp = "2", new(metav1.Now())
	r.podChanged(deleted, false)
	r.podChanged(deleted, true)
	families, err := r.registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
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
		"podsync_fleet_pods Running": 1, "podsync_fleet_pods Pending": 0, "podsync_fleet_apiserver_requests_total patch": 7,
		"podsync_fleet_bind_to_ready_seconds": 2, "podsync_fleet_delete_to_gone_seconds": 1,
	} {
		if value, there := got[name]; !there || value != want {
			t.Errorf("%s is %v, want %v", name, value, want)
		}
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
