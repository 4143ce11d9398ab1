package csi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/stats"
	"github.com/podsync/podsync/syncpod/volume"
)

const (
	// statsPause is the minimum time between two measurements of a volume, a kubelet's volumeStatsAggPeriod.
	statsPause = time.Minute
	// statsTimeout is NodeGetVolumeStats' timeout.
	statsTimeout = 10 * time.Second
	// statsWait is how long VolumeStats waits for a measurement that it has started.
	statsWait = time.Second
	// statsAge is the maximum age of a measurement that is returned: an alert must not rely on an older one.
	statsAge = 5 * time.Minute
)

// VolumeStats returns the last measured usage of the volumes that pods have mounted, if it is at most five minutes old:
// of the volumes of CSI drivers that report it, and of local PersistentVolumes, except those with volumeMode Block. The
// volumes are sorted by VolumeID and pod.
//
// A volume that was last measured more than a minute ago is measured again, once for all of its pods. At most one call
// to each driver is in progress at a time. VolumeStats waits at most a second for the measurements that it has started,
// and not for those that were in progress already. It measures nothing while Run does not run.
func (m *Manager) VolumeStats(ctx context.Context) []volume.Stats {
	ctx, cancel := context.WithTimeout(ctx, statsWait)
	defer cancel()
	for _, end := range m.measureDue(time.Now()) {
		select {
		case <-end:
		case <-ctx.Done():
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []volume.Stats
	for _, id := range slices.Sorted(maps.Keys(m.volumes)) {
		all = append(all, m.volumes[id].usages()...)
	}
	return all
}

// usages returns the usage of a volume for each pod that has it. The caller holds the lock.
func (e *entry) usages() (all []volume.Stats) {
	for _, uid := range slices.Sorted(maps.Keys(e.record.Pods)) {
		u := e.record.Pods[uid]
		if e.usage == nil || u.Published != Present || time.Since(e.usage.Time) > statsAge {
			continue
		}
		for _, name := range u.Names {
			s := *e.usage
			s.Pod, s.Volume = uid, name
			if of := e.record.sourceFor(uid); of.Claim != "" {
				s.Claim = types.NamespacedName{Namespace: of.Namespace, Name: of.Claim}
			}
			all = append(all, s)
		}
	}
	return all
}

// A measurement is a volume that must be measured at a path.
type measurement struct {
	id     VolumeID
	handle string
	path   string
	last   time.Time // the last attempt
}

// measureDue starts to measure the volumes that are due, and returns channels that are closed when it has finished. Drivers
// whose last measurement is in progress are left out.
func (m *Manager) measureDue(now time.Time) (ends []<-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running == nil {
		return nil
	}
	due := map[string][]measurement{}
	for _, id := range slices.Sorted(maps.Keys(m.volumes)) {
		e := m.volumes[id]
		group := cmp.Or(e.record.Source.Driver, localPlugin)
		if m.measuring[group] != nil || now.Before(m.unmeasurable[group]) || !m.reportsUsage(e) || now.Sub(e.measured) < statsPause {
			continue
		}
		if pod, ok := e.published(); ok {
			if path, err := m.layout.target(pod, e.record.sourceFor(pod)); err == nil {
				due[group] = append(due[group], measurement{id, e.record.Source.Handle, path, e.measured})
			}
		}
	}
	for group, list := range due {
		slices.SortStableFunc(list, func(a, b measurement) int { return a.last.Compare(b.last) })
		end, ctx, d := make(chan struct{}), m.running, m.drivers[group]
		m.measuring[group] = end
		ends = append(ends, end)
		m.workers.Go(func() {
			hangs := m.measure(ctx, d, list)
			m.mu.Lock()
			defer m.mu.Unlock()
			if hangs {
				m.unmeasurable[group] = time.Now().Add(statsPause)
			}
			delete(m.measuring, group)
			close(end)
		})
	}
	return ends
}

// reportsUsage reports whether a volume's usage can be measured. The caller holds the lock.
func (m *Manager) reportsUsage(e *entry) bool {
	if e.record.Source.Plugin == csiPlugin {
		d := m.drivers[e.record.Source.Driver]
		return d != nil && d.stats
	}
	return e.record.Source.Plugin == localPlugin && !e.record.Source.Block
}

// published returns a pod that has the volume. The caller holds the lock.
func (e *entry) published() (types.UID, bool) {
	for _, uid := range slices.Sorted(maps.Keys(e.record.Pods)) {
		if u := e.record.Pods[uid]; u.Published == Present && !u.Ended {
			return uid, true
		}
	}
	return "", false
}

// measure measures volumes of a driver, one after the other. Without a driver, the volumes are the node's directories. It
// ends at the first call that times out, and returns true: otherwise a driver that hangs would get a call at all times.
// The volumes that are left come first the next time.
func (m *Manager) measure(ctx context.Context, d *driver, list []measurement) (hangs bool) {
	for _, v := range list {
		usage, err := m.read(ctx, d, v)
		if ctx.Err() != nil {
			return false
		}
		m.mu.Lock()
		if e := m.volumes[v.id]; e != nil {
			m.recordUsage(e, v.id, usage, err)
		}
		m.mu.Unlock()
		if call, ok := errors.AsType[*callError](err); ok && status.Code(call.err) == codes.DeadlineExceeded {
			return true
		}
	}
	return false
}

// recordUsage stores a measurement. It logs a volume that has become faulty, and the first of several failures. The
// caller holds the lock.
func (m *Manager) recordUsage(e *entry, id VolumeID, usage *volume.Stats, err error) {
	e.measured = time.Now()
	switch {
	case err != nil && !e.unmeasured:
		m.config.Log.Error(err, "the usage of a volume cannot be read", "volume", id)
	case err == nil && usage.Abnormal != nil && *usage.Abnormal && (e.usage == nil || e.usage.Abnormal == nil || !*e.usage.Abnormal):
		m.config.Log.Info("the driver reports a faulty volume", "volume", id)
	}
	if e.unmeasured = err != nil; err == nil {
		usage.Time = e.measured
		e.usage = usage
	}
}

// read measures a volume.
func (m *Manager) read(ctx context.Context, d *driver, v measurement) (*volume.Stats, error) {
	if d == nil {
		return m.statFS(ctx, v)
	}
	ctx, cancel := context.WithTimeout(ctx, statsTimeout)
	defer cancel()
	resp, err := d.node.NodeGetVolumeStats(ctx, &csipb.NodeGetVolumeStatsRequest{VolumeId: v.handle, VolumePath: v.path})
	if err != nil {
		return nil, &callError{call: "NodeGetVolumeStats", err: err}
	}
	return usageOf(resp, d.conditions), nil
}

// statFS returns the usage of the file system of a local volume. If the file system does not respond, such as NFS without
// its server, one goroutine for each volume waits for the response.
func (m *Manager) statFS(ctx context.Context, v measurement) (*volume.Stats, error) {
	m.mu.Lock()
	waits := m.inStatFS[v.id]
	m.inStatFS[v.id] = true
	m.mu.Unlock()
	if waits {
		return nil, errors.New("statfs: the file system has not responded to the last call")
	}
	type answer struct {
		fs  *stats.FS
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		fs, err := m.statfs(v.path)
		m.mu.Lock()
		delete(m.inStatFS, v.id)
		m.mu.Unlock()
		answers <- answer{fs, err}
	}()
	ctx, cancel := context.WithTimeout(ctx, statsTimeout)
	defer cancel()
	select {
	case a := <-answers:
		if a.err != nil || a.fs == nil {
			return &volume.Stats{}, a.err
		}
		return &volume.Stats{
			CapacityBytes: a.fs.CapacityBytes, AvailableBytes: a.fs.AvailableBytes, UsedBytes: a.fs.UsedBytes,
			Inodes: a.fs.Inodes, InodesFree: a.fs.InodesFree, InodesUsed: a.fs.InodesUsed,
		}, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("statfs: %w", context.Cause(ctx))
	}
}

// usageOf converts a driver's answer. It drops negative figures, and an amount of free space that exceeds the
// capacity.
func usageOf(resp *csipb.NodeGetVolumeStatsResponse, conditions bool) *volume.Stats {
	s := &volume.Stats{}
	for _, u := range resp.GetUsage() {
		total, free, used := figure(u.GetTotal()), figure(u.GetAvailable()), figure(u.GetUsed())
		if free != nil && total != nil && *total > 0 && *free > *total {
			free = nil
		}
		switch u.GetUnit() {
		case csipb.VolumeUsage_BYTES:
			s.CapacityBytes, s.AvailableBytes, s.UsedBytes = total, free, used
		case csipb.VolumeUsage_INODES:
			s.Inodes, s.InodesFree, s.InodesUsed = total, free, used
		}
	}
	if condition := resp.GetVolumeCondition(); conditions && condition != nil {
		s.Abnormal = new(condition.GetAbnormal())
	}
	return s
}

// figure returns a figure from a driver, nil if it is negative.
func figure(n int64) *uint64 {
	if n < 0 {
		return nil
	}
	return new(uint64(n))
}
