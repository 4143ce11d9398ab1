package dra

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	healthv1 "k8s.io/kubelet/pkg/apis/dra-health/v1"

	"github.com/podsync/podsync/runtime/foreign"
)

const (
	// healthTimeout is how long a reported health counts if the driver sets no timeout, as in a kubelet.
	healthTimeout = 30 * time.Second
	// streamPause is the pause before a broken stream is opened again, reportPause the pause between two reports of a driver, and
	// expirePause the interval of checks for expired reports.
	streamPause, reportPause, expirePause = 5 * time.Second, 100 * time.Millisecond, 5 * time.Second
	// maxHealths is the maximum number of devices of a driver whose health is kept.
	maxHealths = 4096
)

// deviceID identifies a device of a driver.
type deviceID struct{ pool, device string }

// health is a reported health.
type health struct {
	status  v1.ResourceHealthStatus
	message string
	// until is when the report expires.
	until time.Time
}

// watchHealth reads the stream of an instance until ctx ends.
func (m *Manager) watchHealth(ctx context.Context, d *driver, client healthv1.DRAResourceHealthClient) {
	for ctx.Err() == nil {
		stream, err := client.NodeWatchResources(ctx, &healthv1.NodeWatchResourcesRequest{})
		for err == nil {
			var resp *healthv1.NodeWatchResourcesResponse
			if resp, err = stream.Recv(); err == nil {
				m.reported(d, resp.GetDevices(), time.Now())
				pause(ctx, reportPause)
			}
		}
		if ctx.Err() == nil {
			m.config.Log.Info("the health of devices is not reported", "driver", d.name, "cause", shorten(err).Error())
		}
		pause(ctx, streamPause)
	}
}

// pause waits, until ctx ends at most.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// reported replaces the health of the driver's devices, and notifies the loop of pods with a device whose health has changed. A
// device that the driver no longer reports keeps its health until that expires.
func (m *Manager) reported(d *driver, devices []*healthv1.DeviceHealth, now time.Time) {
	next := map[deviceID]health{}
	for _, r := range devices {
		id := deviceID{r.GetDevice().GetPoolName(), r.GetDevice().GetDeviceName()}
		if len(next) == maxHealths {
			m.config.Log.Info("a driver reports the health of too many devices, and the last are left out", "driver", d.name, "reported", len(devices), "limit", maxHealths)
			break
		}
		if len(id.pool) <= maxName && len(id.device) <= maxName {
			next[id] = healthOf(r, now)
		}
	}
	m.mu.Lock()
	before := d.health
	for id, h := range before {
		if _, again := next[id]; !again && len(next) < maxHealths && h.until.After(now) {
			next[id] = h
		}
	}
	d.health = next
	m.mu.Unlock()
	m.notifyAll(m.podsWith(d.name, func(id deviceID) bool {
		a, b := before[id].at(now), next[id].at(now)
		return a.status != b.status || a.message != b.message
	}))
}

// healthOf returns a reported health.
func healthOf(r *healthv1.DeviceHealth, now time.Time) health {
	h := health{message: foreign.Cut(r.GetMessage(), v1.ResourceHealthMessageMaxLength)}
	switch r.GetHealth() {
	case healthv1.HealthStatus_HEALTHY:
		h.status = v1.ResourceHealthStatusHealthy
	case healthv1.HealthStatus_UNHEALTHY:
		h.status = v1.ResourceHealthStatusUnhealthy
	default:
		h.status = v1.ResourceHealthStatusUnknown
	}
	timeout := healthTimeout
	if s := r.GetHealthCheckTimeoutSeconds(); s > 0 {
		timeout = time.Duration(min(s, int64(24*time.Hour/time.Second))) * time.Second
	}
	at := now
	if s := r.GetLastUpdatedTime(); s > 0 && time.Unix(s, 0).Before(now) {
		at = time.Unix(s, 0)
	}
	h.until = at.Add(timeout)
	return h
}

// at returns the health at a time: an expired report is Unknown, like a missing one.
func (h health) at(now time.Time) health {
	if h.status == "" || !h.until.After(now) {
		return health{status: v1.ResourceHealthStatusUnknown}
	}
	return h
}

// expire notifies the loop of pods whose reports have expired, until ctx ends.
func (m *Manager) expire(ctx context.Context) {
	last := time.Now()
	for {
		pause(ctx, expirePause)
		if ctx.Err() != nil {
			return
		}
		now := time.Now()
		for name, all := range m.reports() {
			m.notifyAll(m.podsWith(name, func(id deviceID) bool {
				h, reported := all[id]
				return reported && h.until.After(last) && !h.until.After(now)
			}))
		}
		last = now
	}
}

// reports returns the health of the devices of all drivers.
func (m *Manager) reports() map[string]map[deviceID]health {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[string]map[deviceID]health{}
	for name, instances := range m.drivers {
		all[name] = instances[len(instances)-1].health
	}
	return all
}

// podsWith returns the pods with a device of a driver for which the callback returns true, or with any device if it is nil.
func (m *Manager) podsWith(name string, is func(deviceID) bool) (pods []types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.claims {
		if c.record == nil {
			continue
		}
		for _, d := range c.record.Drivers[name].Devices {
			if is == nil || is(deviceID{d.Pool, d.Device}) {
				for pod := range c.record.Pods {
					pods = append(pods, pod)
				}
				break
			}
		}
	}
	return pods
}

// Devices returns the health of the devices of a pod's containers (KEP-4680), after those of Config.Devices. It is unknown while the
// driver does not report it.
func (m *Manager) Devices(pod *v1.Pod) map[string][]v1.ResourceStatus {
	all := m.config.Devices.Devices(pod)
	reports, now := m.reports(), time.Now()
	m.mu.Lock()
	records := m.recordsOf(pod.UID)
	m.mu.Unlock()
	if len(records) == 0 {
		return all
	}
	if all == nil {
		all = map[string][]v1.ResourceStatus{}
	}
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			for _, r := range records {
				all[c.Name] = append(all[c.Name], r.statuses(pod, c, reports, now)...)
			}
			if len(all[c.Name]) == 0 {
				delete(all, c.Name)
			}
		}
	}
	return all
}

// statuses returns the health of the claim's devices in a container.
func (r *record) statuses(pod *v1.Pod, c *v1.Container, reports map[string]map[deviceID]health, now time.Time) (all []v1.ResourceStatus) {
	add := func(name, request string) {
		s := v1.ResourceStatus{Name: v1.ResourceName("claim:" + name)}
		if request != "" {
			s.Name += v1.ResourceName("/" + request)
		}
		shown := map[v1.ResourceID]bool{}
		for _, d := range r.devices(request) {
			id := v1.ResourceID(d.driver + "/" + d.Pool + "/" + d.Device)
			if shown[id] {
				continue
			}
			shown[id] = true
			h := reports[d.driver][deviceID{d.Pool, d.Device}].at(now)
			one := v1.ResourceHealth{ResourceID: id, Health: h.status}
			if h.message != "" {
				one.Message = &h.message
			}
			s.Resources = append(s.Resources, one)
		}
		all = append(all, s)
	}
	u := r.Pods[pod.UID]
	for _, want := range c.Resources.Claims {
		for _, name := range u.Names {
			if name == want.Name {
				add(name, want.Request)
			}
		}
	}
	for _, e := range u.Extended {
		if e.Container == c.Name {
			add(r.Name, e.Request)
		}
	}
	return all
}
