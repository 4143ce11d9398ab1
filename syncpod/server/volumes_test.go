package server_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod/server"
	"github.com/podsync/podsync/syncpod/volume"
)

// The summary has the volumes of each pod in the form of a kubelet, and not those of other pods.
func TestSummaryOfVolumes(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	n := newNode(t, func(c *server.Config) {
		withProc(t)(c)
		all := []volume.Stats{
			{Pod: "uid-of-web", Volume: "db", Claim: types.NamespacedName{Namespace: "default", Name: "data"}, Time: at, CapacityBytes: new(uint64(100)), UsedBytes: new(uint64(0)), Inodes: new(uint64(7)), Abnormal: new(true)},
			{Pod: "uid-of-web", Volume: "inline", Time: at, AvailableBytes: new(uint64(3))},
			{Pod: "uid-of-other", Volume: "elsewhere", Time: at},
		}
		c.VolumeStats = func(context.Context) []volume.Stats { return all }
	})
	n.run("web", "sleep infinity", isRunning)
	want := `"volume":[{"time":"2026-01-02T03:04:05Z","capacityBytes":100,"usedBytes":0,"inodes":7,"name":"db","pvcRef":{"name":"data","namespace":"default"},"volumeHealthStats":{"abnormal":true}},` +
		`{"time":"2026-01-02T03:04:05Z","availableBytes":3,"name":"inline"}]`
	if _, text := n.ask("GET", "/stats/summary"); !strings.Contains(text, want) || strings.Contains(text, "elsewhere") {
		t.Errorf("%s, want %s", text, want)
	}
	if _, text := n.ask("GET", "/stats/summary?only_cpu_and_memory=true"); strings.Contains(text, "volume") {
		t.Errorf("only CPU and memory: %s", text)
	}
}
