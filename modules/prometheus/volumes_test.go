package prometheus_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	client "github.com/prometheus/client_golang/prometheus"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/modules/prometheus"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/volume"
)

// Each claim has one sample of each known figure, whatever its name is, and an inline volume has none.
func TestMetricsOfVolumes(t *testing.T) {
	registry := client.NewRegistry()
	stats := []volume.Stats{
		{Pod: "a", Claim: types.NamespacedName{Namespace: "shop", Name: "data"}, CapacityBytes: new(uint64(100)), Inodes: new(uint64(7)), Abnormal: new(true)},
		{Pod: "b", Claim: types.NamespacedName{Namespace: "shop", Name: "data"}, CapacityBytes: new(uint64(100))},
		{Pod: "c", Claim: types.NamespacedName{Namespace: "shop", Name: "other\xff"}, UsedBytes: new(uint64(5)), Abnormal: new(false)},
		{Pod: "c", UsedBytes: new(uint64(9))},
	}
	must.Do(t, registry.Register(prometheus.Volumes(func(context.Context) []volume.Stats { return stats })))
	families := must.Get(registry.Gather())(t)
	var got []string
	for _, f := range families {
		for _, m := range f.Metric {
			got = append(got, fmt.Sprint(strings.TrimPrefix(f.GetName(), "kubelet_volume_stats_"), " ", m.Label[0].GetValue(), "/", m.Label[1].GetValue(), " ", m.Gauge.GetValue()))
		}
	}
	want := []string{
		"capacity_bytes shop/data 100", "health_status_abnormal shop/data 1", "health_status_abnormal shop/other\uFFFD 0", "inodes shop/data 7", "used_bytes shop/other\uFFFD 5",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
