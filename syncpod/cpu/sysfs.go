package cpu

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/podsync/podsync/syncpod/topology"
)

const (
	maxSysfsFile  = 64 << 10 // the list of every second CPU has 20 KiB
	maxCacheIndex = 16
)

// Read returns the online CPUs of the machine from sysfs, which is mounted at /sys: os.DirFS("/sys"). A CPU in no NUMA node is in node 0.
// Call it again after CPUs have gone online or offline.
func Read(sys fs.FS) (Topology, error) {
	if sys == nil {
		return Topology{}, errors.New("sysfs: no file system")
	}
	r := reader{sys: sys, cpus: "devices/system/cpu/"}
	online := r.set(r.cpus + "online")
	nodes := r.nodes()
	var t Topology
	for id := range online.All() {
		dir := fmt.Sprintf("%scpu%d/", r.cpus, id)
		c := CPU{ID: id, Node: nodes[id], Socket: r.number(dir + "topology/physical_package_id")}
		c.Core = lowest(id, r.set(dir+"topology/thread_siblings_list").Intersect(online))
		c.Cache = r.cache(dir, c.Socket)
		if r.err != nil {
			return Topology{}, r.err
		}
		t.CPUs = append(t.CPUs, c)
	}
	return t, r.err
}

// lowest returns the first CPU of a set; id if there is none.
func lowest(id int, s Set) int {
	for c := range s.All() {
		return c
	}
	return id
}

// A reader reads files until the first error.
type reader struct {
	sys  fs.FS
	cpus string
	err  error
}

// nodes returns the NUMA nodes of CPUs.
func (r *reader) nodes() map[int]int {
	nodes := map[int]int{}
	for n := range topology.MaxNodes {
		text, ok := r.optional(fmt.Sprintf("devices/system/node/node%d/cpulist", n))
		if !ok {
			continue
		}
		cpus, err := ParseSet(text)
		r.fail(err)
		for c := range cpus.All() {
			nodes[c] = n
		}
	}
	return nodes
}

// cache returns the uncore cache of a CPU, which is its cache of level 3.
func (r *reader) cache(dir string, socket int) int {
	for i := range maxCacheIndex {
		index := fmt.Sprintf("%scache/index%d/", dir, i)
		level, ok := r.optional(index + "level")
		if !ok {
			break
		}
		if strings.TrimSpace(level) == "3" {
			return r.number(index + "id")
		}
	}
	return socket
}

func (r *reader) set(name string) Set {
	text, ok := r.optional(name)
	if !ok {
		r.fail(fmt.Errorf("sysfs: %s: %w", name, fs.ErrNotExist))
	}
	s, err := ParseSet(text)
	if err != nil {
		r.fail(fmt.Errorf("sysfs: %s: %w", name, err))
	}
	return s
}

func (r *reader) number(name string) int {
	text, ok := r.optional(name)
	if !ok {
		r.fail(fmt.Errorf("sysfs: %s: %w", name, fs.ErrNotExist))
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32)
	if err != nil {
		r.fail(fmt.Errorf("sysfs: %s: %.20q is not a number", name, text))
	}
	return int(n)
}

// optional returns the text of a file, and whether the file exists.
func (r *reader) optional(name string) (string, bool) {
	if r.err != nil {
		return "", false
	}
	f, err := r.sys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false
	}
	if err != nil {
		r.fail(err)
		return "", false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSysfsFile+1))
	if err == nil && len(text) > maxSysfsFile {
		err = fmt.Errorf("sysfs: %s is longer than %d bytes", name, maxSysfsFile)
	}
	r.fail(err)
	return string(text), err == nil
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}
