package stats_test

import (
	"context"
	"fmt"
	"log"
	"testing/fstest"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/stats"
)

// This runtime reports no usage, so the Reader reads the pod's cgroup.
func Example() {
	node := fstest.MapFS{
		"proc/stat":                          file("cpu 700 0 300 9000 0 0 0 0 0 0\nbtime 1790000000\n"),
		"proc/meminfo":                       file("MemTotal: 8000 kB\nBuffers: 0 kB\nCached: 3000 kB\nSwapCached: 0 kB\nInactive(file): 1000 kB\nAnonPages: 2000 kB\n"),
		"proc/loadavg":                       file("0.10 0.20 0.30 2/345 6789\n"),
		"sys/fs/cgroup/cgroup.controllers":   file("cpu memory\n"),
		"sys/fs/cgroup/podu/cpu.stat":        file("usage_usec 2500000\n"),
		"sys/fs/cgroup/podu/memory.current":  file("3000\n"),
		"sys/fs/cgroup/podu/memory.stat":     file("anon 2000\nfile 1000\ninactive_file 400\npgfault 1\npgmajfault 0\n"),
		"sys/fs/cgroup/podu/memory.max":      file("max\n"),
		"sys/fs/cgroup/podu/s1/cgroup.procs": file("1\n"),
	}
	r, err := stats.New(stats.Config{Runtime: &statsRuntime{}, Root: node})
	if err != nil {
		log.Fatal(err)
	}
	pods := []*runtime.PodStatus{{UID: "u", Name: "web", Sandboxes: []runtime.SandboxStatus{{ID: "s1", State: runtime.SandboxReady}}}}
	all, err := r.ReadCPUAndMemory(context.Background(), pods)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("node:", *all.Node.CPU.UsageCoreNanoSeconds, *all.Node.Memory.WorkingSetBytes)
	for _, p := range all.Pods {
		fmt.Println(p.Name+":", *p.CPU.UsageCoreNanoSeconds, *p.Memory.WorkingSetBytes)
	}
	// Output:
	// node: 10000000000 4096000
	// web: 2500000000 2600
}
