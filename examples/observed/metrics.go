package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// metrics maps names with labels to values.
type metrics struct {
	mu     sync.Mutex
	values map[string]float64
}

func newMetrics() *metrics { return &metrics{values: map[string]float64{}} }

// add adds n to a metric. Labels come in pairs.
func (m *metrics) add(name string, n float64, labels ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[name+label(labels)] += n
}

// observe counts an operation and adds its duration in seconds.
func (m *metrics) observe(name string, took time.Duration, labels ...string) {
	m.add(name+"_seconds_count", 1, labels...)
	m.add(name+"_seconds_sum", took.Seconds(), labels...)
}

func label(pairs []string) string {
	var list []string
	for pair := range slices.Chunk(pairs, 2) {
		list = append(list, fmt.Sprintf("%s=%q", pair[0], pair[1]))
	}
	if list == nil {
		return ""
	}
	return "{" + strings.Join(list, ",") + "}"
}

// String returns the metrics in Prometheus' text format.
func (m *metrics) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m.values)) {
		fmt.Fprintf(&b, "%s %s\n", name, strconv.FormatFloat(m.values[name], 'f', -1, 64))
	}
	return b.String()
}

// outcome returns the value of a label. Error texts are not labels, because each would create its own series.
func outcome(err error) string {
	if err != nil {
		return "failed"
	}
	return "ok"
}
