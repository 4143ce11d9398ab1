package numamemory_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/podsync/podsync/syncpod/numamemory"
)

func TestRead(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	const node = "devices/system/node/node1/"
	for name, c := range map[string]struct {
		files fstest.MapFS
		want  string
	}{
		"a node":        {fstest.MapFS{node + "meminfo": file("Node 1 MemTotal:  2048 kB\nNode 1 MemFree: 1 kB\n"), node + "hugepages/hugepages-2048kB/nr_hugepages": file("3\n")}, "[{1 2097152 map[hugepages-2Mi:6291456] map[]}]"},
		"no node":       {fstest.MapFS{}, "no NUMA node"},
		"no total":      {fstest.MapFS{node + "meminfo": file("")}, "no line MemTotal"},
		"no number":     {fstest.MapFS{node + "meminfo": file("MemTotal: x kB")}, "invalid syntax"},
		"no page size":  {fstest.MapFS{node + "meminfo": file("MemTotal: 1 kB"), node + "hugepages/large/nr_hugepages": file("1")}, "no size of pages"},
		"no page count": {fstest.MapFS{node + "meminfo": file("MemTotal: 1 kB"), node + "hugepages/hugepages-4kB/nr_hugepages": file("-1")}, "not a number of pages"},
		"too long":      {fstest.MapFS{node + "meminfo": file(strings.Repeat(" ", 1<<17))}, "longer than"},
	} {
		nodes, err := numamemory.Read(c.files)
		if got := fmt.Sprint(nodes, err); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
