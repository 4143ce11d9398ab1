package config_test

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/modules/cluster/config"
	"github.com/podsync/podsync/syncpod/pinning"
)

// twoNodes is the sysfs of a machine with two NUMA nodes of two CPUs and 1 GiB each.
func twoNodes() fs.FS {
	files := fstest.MapFS{}
	set := func(name, text string) { files[name] = &fstest.MapFile{Data: []byte(text + "\n")} }
	set("devices/system/cpu/online", "0-3")
	for id := range 4 {
		dir := fmt.Sprintf("devices/system/cpu/cpu%d/topology/", id)
		set(dir+"physical_package_id", fmt.Sprint(id/2))
		set(dir+"thread_siblings_list", fmt.Sprint(id))
	}
	for id := range 2 {
		dir := fmt.Sprintf("devices/system/node/node%d/", id)
		set(dir+"cpulist", fmt.Sprintf("%d-%d", 2*id, 2*id+1))
		set(dir+"meminfo", fmt.Sprintf("Node %d MemTotal: 1048576 kB", id))
		set(dir+"distance", []string{"10 21", "21 10"}[id])
	}
	return files
}

func TestPinning(t *testing.T) {
	const static = "cpuManagerPolicy: static\n"
	const memory = "memoryManagerPolicy: Static\nreservedMemory: [{numaNode: 1, limits: {memory: 100Mi}}]\n"
	for text, want := range map[string]string{
		"":                                     "",
		static + "reservedSystemCPUs: 0-1\n":   "reserved 0-1",
		static + "systemReserved: {cpu: 500m}": "reserved count 1",
		static + "systemReserved: {cpu: 500m}\nkubeReserved: {cpu: 501m}": "reserved count 2",
		static:                                              "cpuManagerPolicy static requires",
		static + "reservedSystemCPUs: 4-x":                  "reservedSystemCPUs: ",
		static + "reservedSystemCPUs: '9'":                  "field Reserved: not all of the CPUs 9",
		"cpuManagerPolicy: dynamic":                         "is neither none nor static",
		static + "cpuManagerPolicyOptions: {fast: 'true'}":  "cpuManagerPolicyOptions: ",
		"reservedSystemCPUs: '0'\nsystemReservedCgroup: /a": "reservedSystemCPUs excludes",
		memory: "node 1 reserves 104857600",
		"memoryManagerPolicy: Static\nreservedMemory: [{numaNode: 1, limits: {memory: 99Mi}}]":                                        "reservedMemory: the NUMA nodes reserve",
		"memoryManagerPolicy: Static\nreservedMemory: [{numaNode: 2, limits: {memory: 1Mi}}]":                                         "no NUMA node 2",
		"memoryManagerPolicy: Static\nreservedMemory: [{numaNode: 1, limits: {memory: 50Mi}}, {numaNode: 1, limits: {memory: 50Mi}}]": "has memory twice",
		"reservedMemory: [{numaNode: 1, limits: {memory: 1Mi}}]":                                                                      "requires memoryManagerPolicy Static",
		"topologyManagerPolicy: restricted\ntopologyManagerPolicyOptions: {prefer-closest-numa-nodes: 'true'}":                        "distance 21",
		"topologyManagerPolicy: close": "topologyManagerPolicy \"close\"",
		"topologyManagerScope: node":   "topologyManagerScope \"node\"",
	} {
		got := ""
		c, _, err := configOf(t, text+"\n")
		var p pinning.Config
		if err == nil {
			p, err = config.Pinning(c, twoNodes(), v1.ResourceList{v1.ResourceMemory: resource.MustParse("100Mi")})
		}
		if err == nil {
			p.State = t.TempDir() + "/pinning.json"
			_, err = pinning.New(p)
		}
		if len(p.Memory.Nodes) == 2 {
			got += fmt.Sprint("node 1 reserves ", p.Memory.Nodes[1].Reserved[v1.ResourceMemory])
		}
		if p.Distances != nil {
			got += fmt.Sprint("distance ", p.Distances[1][0])
		}
		got += fmt.Sprintf(" reserved %v reserved count %d ", p.CPUs.Reserved, p.CPUs.ReservedCount)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) || want == "" && err != nil {
			t.Errorf("%q: %s, want %q", text, got, want)
		}
	}
}
