package syncpod

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
)

// DefaultMemoryBytes is the memory of a node whose operating system does not
// report it as Linux does in /proc/meminfo.
const DefaultMemoryBytes = 8 << 30

// nodeMemory returns this machine's memory in bytes.
func nodeMemory() int64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return DefaultMemoryBytes
	}
	defer f.Close()
	return totalMemory(f)
}

// totalMemory reads the line "MemTotal:  16384256 kB".
func totalMemory(meminfo io.Reader) int64 {
	for lines := bufio.NewScanner(meminfo); lines.Scan(); {
		value, found := strings.CutPrefix(lines.Text(), "MemTotal:")
		if !found {
			continue
		}
		kB, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 10, 64)
		if err == nil && kB > 0 {
			return kB << 10
		}
	}
	return DefaultMemoryBytes
}
