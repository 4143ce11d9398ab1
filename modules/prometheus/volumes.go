package prometheus

import (
	"context"
	"strings"
	"time"

	client "github.com/prometheus/client_golang/prometheus"

	"github.com/podsync/podsync/syncpod/volume"
)

// Volumes returns the metrics kubelet_volume_stats_* of claim volumes, for [Metrics.Handler] or a registry. stats returns
// the volumes' usage, such as the method VolumeStats of a *csi.Manager. A claim that several pods have mounted has one
// sample of each metric.
func Volumes(stats func(ctx context.Context) []volume.Stats) client.Collector {
	return volumeCollector{stats}
}

// volumeTimeout is the time that a scrape waits for the volume usage.
const volumeTimeout = 5 * time.Second

type volumeCollector struct {
	stats func(ctx context.Context) []volume.Stats
}

// A volumeMetric is a metric with one sample for each claim.
type volumeMetric struct {
	desc  *client.Desc
	value func(*volume.Stats) *uint64
}

func volumeMetrics() []volumeMetric {
	of := func(name, help string, value func(*volume.Stats) *uint64) volumeMetric {
		return volumeMetric{client.NewDesc("kubelet_volume_stats_"+name, help, []string{"namespace", "persistentvolumeclaim"}, nil), value}
	}
	return []volumeMetric{
		of("capacity_bytes", "Capacity of the volume in bytes.", func(s *volume.Stats) *uint64 { return s.CapacityBytes }),
		of("available_bytes", "Free space of the volume in bytes.", func(s *volume.Stats) *uint64 { return s.AvailableBytes }),
		of("used_bytes", "Used space of the volume in bytes.", func(s *volume.Stats) *uint64 { return s.UsedBytes }),
		of("inodes", "Inodes of the volume.", func(s *volume.Stats) *uint64 { return s.Inodes }),
		of("inodes_free", "Free inodes of the volume.", func(s *volume.Stats) *uint64 { return s.InodesFree }),
		of("inodes_used", "Used inodes of the volume.", func(s *volume.Stats) *uint64 { return s.InodesUsed }),
		of("health_status_abnormal", "1 if the driver has found the volume to be faulty, 0 if it has not.", abnormal),
	}
}

func abnormal(s *volume.Stats) *uint64 {
	switch {
	case s.Abnormal == nil:
		return nil
	case *s.Abnormal:
		return new(uint64(1))
	}
	return new(uint64(0))
}

// Describe sends the descriptions of all metrics.
func (c volumeCollector) Describe(descs chan<- *client.Desc) {
	for _, m := range volumeMetrics() {
		descs <- m.desc
	}
}

// Collect sends the last known usage of the volumes.
func (c volumeCollector) Collect(metrics chan<- client.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), volumeTimeout)
	defer cancel()
	all, seen := volumeMetrics(), map[[2]string]bool{}
	list := c.stats(ctx)
	for i := range list {
		claim := [2]string{strings.ToValidUTF8(list[i].Claim.Namespace, "\uFFFD"), strings.ToValidUTF8(list[i].Claim.Name, "\uFFFD")}
		if list[i].Claim.Name == "" || seen[claim] {
			continue
		}
		seen[claim] = true
		for _, m := range all {
			if value := m.value(&list[i]); value != nil {
				metrics <- client.MustNewConstMetric(m.desc, client.GaugeValue, float64(*value), claim[0], claim[1])
			}
		}
	}
}
