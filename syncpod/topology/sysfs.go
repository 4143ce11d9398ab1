package topology

import (
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
)

// maxDistances is the largest file with the distances of a NUMA node, in bytes.
const maxDistances = 4 << 10

// ReadDistances returns the distances between NUMA nodes from sysfs, which is mounted at /sys: os.DirFS("/sys"). The kernel lists the
// distances of a node in the order of all online nodes, which the caller passes.
func ReadDistances(sys fs.FS, nodes Mask) (map[int][]uint64, error) {
	if sys == nil {
		return nil, fmt.Errorf("sysfs: no file system")
	}
	all := map[int][]uint64{}
	for from := range nodes.Nodes() {
		name := fmt.Sprintf("devices/system/node/node%d/distance", from)
		text, err := readDistances(sys, name)
		if err != nil {
			return nil, fmt.Errorf("sysfs: %w", err)
		}
		fields := strings.Fields(text)
		if len(fields) != nodes.Count() {
			return nil, fmt.Errorf("sysfs: %s has %d distances for %d nodes", name, len(fields), nodes.Count())
		}
		all[from] = make([]uint64, MaxNodes)
		at := 0
		for to := range nodes.Nodes() {
			if all[from][to], err = strconv.ParseUint(fields[at], 10, 32); err != nil {
				return nil, fmt.Errorf("sysfs: %s: %.20q is not a distance", name, fields[at])
			}
			at++
		}
	}
	return all, nil
}

func readDistances(sys fs.FS, name string) (string, error) {
	f, err := sys.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxDistances+1))
	if err == nil && len(text) > maxDistances {
		err = fmt.Errorf("%s is longer than %d bytes", name, maxDistances)
	}
	return string(text), err
}
