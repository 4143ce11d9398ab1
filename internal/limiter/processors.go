package limiter

import (
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Processors measures whether the node's processors are busy. Its methods must not be called
// concurrently. The zero value is ready to use.
type Processors struct {
	last ticks
}

// ticks is the time spent by all processors since boot.
type ticks struct{ idle, all int64 }

// Spare reports whether at least half a processor has been idle since the last call. It returns
// true if that is unknown: on other systems than Linux, or if no time has passed.
func (p *Processors) Spare() bool {
	now, ok := readTicks("/proc/stat")
	was := p.last
	p.last = now
	return !ok || spare(was, now, runtime.NumCPU())
}

func spare(was, now ticks, processors int) bool {
	return now.all <= was.all || 2*int64(processors)*(now.idle-was.idle) >= now.all-was.all
}

// readTicks reads the first line in a file like /proc/stat.
func readTicks(path string) (ticks, bool) {
	f, err := os.Open(path)
	if err != nil {
		return ticks{}, false
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 512))
	if err != nil {
		return ticks{}, false
	}
	line, _, _ := strings.Cut(string(head), "\n")
	return parseTicks(line)
}

// parseTicks parses "cpu  user nice system idle iowait irq softirq steal guest guest_nice"; user and nice include the
// time of guests.
func parseTicks(line string) (t ticks, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return ticks{}, false
	}
	for i, field := range fields[1:9] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return ticks{}, false
		}
		t.all += n
		if i == 3 || i == 4 {
			t.idle += n
		}
	}
	return t, true
}
