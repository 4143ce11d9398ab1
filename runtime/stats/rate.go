package stats

import "time"

const (
	minWindow = time.Second      // a shorter window is too noisy
	window    = 10 * time.Second // as in a kubelet
	maxWindow = 2 * time.Minute  // a longer window does not describe the present
)

// A meter keeps readings of CPU time to compute rates.
type meter struct {
	base map[string]reading
}

type reading struct {
	at   time.Time
	used uint64
	rate *uint64 // as last reported
	seen bool
}

// fill sets the rate of a reading that has none.
func (m *meter) fill(key string, c *CPU) {
	if !c.known() || c.UsageNanoCores != nil {
		return
	}
	last, ok := m.base[key]
	passed := c.Time.Sub(last.at)
	if !ok || *c.UsageCoreNanoSeconds < last.used || passed > maxWindow || passed < 0 {
		m.base[key] = reading{at: c.Time, used: *c.UsageCoreNanoSeconds, seen: true}
		return
	}
	last.seen = true
	if passed >= minWindow {
		rate := uint64(float64(*c.UsageCoreNanoSeconds-last.used) / passed.Seconds())
		last.rate = &rate
	}
	if passed >= window {
		last.at, last.used = c.Time, *c.UsageCoreNanoSeconds
	}
	c.UsageNanoCores = last.rate
	m.base[key] = last
}

// sweep drops readings that were not used since the last sweep.
func (m *meter) sweep() {
	for key, r := range m.base {
		if !r.seen {
			delete(m.base, key)
			continue
		}
		r.seen = false
		m.base[key] = r
	}
}
