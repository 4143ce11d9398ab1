package devices

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/podsync/podsync/modules/devices/internal/ledger"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// FuzzRegistration: an accepted registration names a socket in the directory and a valid extended resource.
func FuzzRegistration(f *testing.F) {
	f.Add("v1beta1", "card.sock", "vendor.test/card")
	f.Add("v1beta1", "../card.sock", "requests.vendor.test/card")
	f.Add("v9", "a\x00b", "kubernetes.io/card")
	f.Fuzz(func(t *testing.T, version, endpoint, resource string) {
		if checkRegistration(&pluginapi.RegisterRequest{Version: version, Endpoint: endpoint, ResourceName: resource}) != nil {
			return
		}
		if dir, file := filepath.Split(filepath.Join("/plugins", endpoint)); dir != "/plugins/" || file != endpoint || file == socketName {
			t.Errorf("endpoint %q is %q in %q", endpoint, file, dir)
		}
		if faults := validation.IsQualifiedName(resource); len(faults) > 0 || !strings.Contains(resource, "/") {
			t.Errorf("resource %q: %v", resource, faults)
		}
	})
}

// FuzzReport: for any report, each device counts once, healthy devices are a subset of all devices, and the next agent
// reads all of them.
func FuzzReport(f *testing.F) {
	f.Add("a b a", "Healthy", "Unhealthy")
	f.Add("\xff \x00", "", "Healthy")
	f.Fuzz(func(t *testing.T, ids, health, other string) {
		dir := t.TempDir()
		m := &Manager{known: knownFile{path: filepath.Join(dir, "resources.json")}, ledger: ledger.New(time.Minute), changed: make(chan struct{})}
		p := &plugin{resource: "vendor.test/card"}
		m.plugins = map[string]*plugin{p.resource: p}
		var reported []*pluginapi.Device
		distinct := map[string]bool{}
		for i, id := range strings.Split(ids, " ") {
			reported = append(reported, &pluginapi.Device{ID: id, Health: []string{health, other}[i%2], Topology: &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{nil, {ID: int64(i)}}}})
			distinct[id] = id != "" && len(id) <= maxID
		}
		maps.DeleteFunc(distinct, func(_ string, is bool) bool { return !is })
		m.report(p, append(reported, nil))
		all, healthy := m.ledger.Count(p.resource, time.Now())
		if all != len(distinct) || healthy > all {
			t.Errorf("%q: %d devices, %d of them healthy, want %d", ids, all, healthy, len(distinct))
		}
		known, err := m.known.read()
		if err != nil || len(known[p.resource]) != len(distinct) {
			t.Errorf("%q: the next agent reads the devices %q, %v", ids, known, err)
		}
	})
}

// FuzzKnown: any contents of the file are an error or valid names of resources.
func FuzzKnown(f *testing.F) {
	for _, text := range []string{"", "null", `{"version":1}`, `{"version":1,"resources":{"vendor.test/card":["a","a",""],"vendor.test/port":null}}`, `{"version":1,"resources":{"cpu":[]}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "resources.json")
		must.Do(t, os.WriteFile(path, text, 0o600))
		resources, err := (&knownFile{path: path}).read()
		if err != nil {
			return
		}
		l := ledger.New(time.Minute)
		for name, ids := range resources {
			if err := checkResource(name); err != nil {
				t.Error(err)
			}
			l.Restore(name, ids, time.Now())
			if all, healthy := l.Count(name, time.Now()); all > len(ids) || healthy > 0 {
				t.Errorf("%s: %d of %d devices, %d healthy before its plugin has registered", name, all, len(ids), healthy)
			}
		}
	})
}

// FuzzAllocated: for any answers of plugins, the merged allocation has each path, variable and CDI device at most once.
func FuzzAllocated(f *testing.F) {
	f.Add("/dev/a", "/dev/b", "rw", "A", "1", "a/b=c")
	f.Add("", "/x", "", "", "", "")
	f.Fuzz(func(t *testing.T, host, path, permissions, name, value, cdi string) {
		response := func(path, value string) *pluginapi.ContainerAllocateResponse {
			return &pluginapi.ContainerAllocateResponse{
				Envs: map[string]string{name: value}, Annotations: map[string]string{name: value},
				Mounts:     []*pluginapi.Mount{nil, {HostPath: host, ContainerPath: path}, {HostPath: path, ContainerPath: path}},
				Devices:    []*pluginapi.DeviceSpec{nil, {HostPath: host, ContainerPath: path, Permissions: permissions}},
				CdiDevices: []*pluginapi.CDIDevice{nil, {Name: cdi}, {Name: cdi}},
			}
		}
		all, _ := merge([]answer{{"a/a", []string{"1"}, response(path, value)}, {"b/b", []string{"2"}, response(host, name)}, {"c/c", nil, nil}})
		if len(all.Resources) != 3 || all.Env[name] != value || all.Annotations[name] != value {
			t.Errorf("it is given %+v", all)
		}
		seen := map[string]bool{}
		for _, m := range all.Mounts {
			if seen[m.ContainerPath] {
				t.Errorf("%q is mounted twice", m.ContainerPath)
			}
			seen[m.ContainerPath] = true
		}
		if len(slices.Compact(slices.Sorted(slices.Values(all.CDIDevices)))) != len(all.CDIDevices) {
			t.Errorf("a CDI device is given twice: %q", all.CDIDevices)
		}
		_ = all.Validate() // must not panic
	})
}
