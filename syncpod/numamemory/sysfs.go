package numamemory

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/syncpod/topology"
)

const (
	// maxSysfsFile is the largest file that is read, in bytes.
	maxSysfsFile = 64 << 10
	// maxPageSizes is how many sizes of huge pages are read.
	maxPageSizes = 64
)

// Read returns the machine's NUMA nodes with their memory and huge pages from sysfs, which is mounted at /sys: os.DirFS("/sys"). The
// caller sets the nodes' Reserved.
func Read(sys fs.FS) ([]Node, error) {
	if sys == nil {
		return nil, errors.New("sysfs: no file system")
	}
	var nodes []Node
	for id := range topology.MaxNodes {
		dir := fmt.Sprintf("devices/system/node/node%d/", id)
		text, err := read(sys, dir+"meminfo")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		n := Node{ID: id}
		if n.Memory, err = total(text); err != nil {
			return nil, fmt.Errorf("sysfs: %smeminfo: %w", dir, err)
		}
		if n.HugePages, err = hugePages(sys, dir+"hugepages"); err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	if len(nodes) == 0 {
		return nil, errors.New("sysfs: devices/system/node has no NUMA node with memory")
	}
	return nodes, nil
}

// total reads the line "Node 0 MemTotal:  16384256 kB".
func total(meminfo string) (uint64, error) {
	for lines := bufio.NewScanner(strings.NewReader(meminfo)); lines.Scan(); {
		if _, value, found := strings.Cut(lines.Text(), "MemTotal:"); found {
			kB, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 10, 52)
			return kB << 10, err
		}
	}
	return 0, errors.New("it has no line MemTotal")
}

// hugePages reads the directories of a node's page sizes, such as hugepages-2048kB.
func hugePages(sys fs.FS, dir string) (map[v1.ResourceName]uint64, error) {
	entries, err := fs.ReadDir(sys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil || len(entries) > maxPageSizes {
		return nil, fmt.Errorf("sysfs: %s: %d sizes of pages, %w", dir, len(entries), err)
	}
	pages := map[v1.ResourceName]uint64{}
	for _, e := range entries {
		kB, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(e.Name(), "hugepages-"), "kB"), 10, 32)
		if err != nil {
			return nil, fmt.Errorf("sysfs: %s/%.40q is no size of pages", dir, e.Name())
		}
		text, err := read(sys, dir+"/"+e.Name()+"/nr_hugepages")
		if err != nil {
			return nil, err
		}
		count, err := strconv.ParseUint(strings.TrimSpace(text), 10, 20)
		if err != nil {
			return nil, fmt.Errorf("sysfs: %s/%s: %.20q is not a number of pages", dir, e.Name(), text)
		}
		size := resource.NewQuantity(int64(kB<<10), resource.BinarySI)
		pages[v1.ResourceName(v1.ResourceHugePagesPrefix+size.String())] = count * (kB << 10)
	}
	return pages, nil
}

func read(sys fs.FS, name string) (string, error) {
	f, err := sys.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSysfsFile+1))
	if err == nil && len(text) > maxSysfsFile {
		err = fmt.Errorf("sysfs: %s is longer than %d bytes", name, maxSysfsFile)
	}
	return string(text), err
}
