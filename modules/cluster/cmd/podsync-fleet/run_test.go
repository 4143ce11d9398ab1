package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/modules/cluster/internal/clientlog"
)

func TestMain(m *testing.M) { os.Exit(clientlog.Run(m)) }

// A fleet in memory runs its pods, some of which crash, and some nodes lose their power.
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

// Nodes have the shapes of the file in turns.
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
