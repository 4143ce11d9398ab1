package pace

import (
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Processors tells whether the processors of the node are all busy. Its methods
// must not be called concurrently. The zero value serves.
type Processors struct {
	last ticks
}

// ticks are what all processors together have spent since the node booted.
type ticks struct{ idle, all int64 }

// Spare reports whether half a processor or more has been idle since it was asked
// last, or whether that cannot be told: on other systems than Linux, or because no
// time has passed.
func (p *Processors) Spare() bool {
	now, ok := readTicks("/proc/stat")
	was := p.last
	p.last = now
	return !ok || spare(was, now, runtime.NumCPU())
}

func spare(was, now ticks, processors int) bool {
	return now.all <= was.all || 2*int64(processors)*(now.idle-was.idle) >= now.all-was.all
}

// readTicks reads the first line of a file like /proc/stat.
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

// parseTicks parses "cpu  user nice system idle iowait irq softirq steal guest
// guest_nice"; user and nice have the time of guests in them.
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
