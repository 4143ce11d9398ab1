package architecture

import (
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// moduleRooms lists the packages of this repository that the other modules import: public packages.
var moduleRooms = []room{
	{"examples/agenttest", []string{"runtime/cri", "syncpod", "syncpod/..."}, "it is the agent of a reader, checked in the reader's module"},
	{"examples/controllers", nil, "its tests use modules/cluster/clustertest, like a reader's tests"},
	{"examples/embedder", []string{"actions", "podworkers", "runtime", "runtime/cri", "runtime/image", "runtime/pleg", "runtime/reader", "sandbox", "syncpod", "syncpod/agent", "syncpod/container", "syncpod/container/env", "syncpod/container/start", "syncpod/lifecycle", "syncpod/loop", "syncpod/status", "syncpod/volume"},
		"it is the module of an author who takes single parts, and is none of ours"},
	{"examples/virtual-kubelet", []string{"runtime/cri/...", "syncpod", "syncpod/..."}, "it is a provider of virtual-kubelet on the library"},
	{"internal/rig/allocate/recorder/...", nil, "it records what a kubelet decides, and knows nothing of ours"},
	{"internal/rig/e2e/clients", nil, "its clients are client-go's and Prometheus'; only its tests import the library"},
	{"internal/rig/e2e/critools", nil, "its clients are those of cri-tools; only its tests import the library"},

	{"modules/cluster/admission", []string{"syncpod/container", "syncpod/eviction", "syncpod/podspec/resources", "syncpod/podref", "podworkers", "runtime", "syncpod", "syncpod/loop"},
		"which pods fit follows from the pods and the Node object, which an interface returns"},
	{"modules/cluster/certificates", []string{"runtime/hostfs"}, "a certificate is a file that is renewed: it serves without pods"},
	{"modules/cluster/cmd/podsync-fleet", []string{"..."}, "a command may use anything"},
	{"modules/cluster/cmd/podsync-node", []string{"..."}, "a command may use anything"},
	{"modules/cluster/config", []string{"syncpod/eviction", "runtime/hostfs", "runtime/logs", "sandbox", "syncpod/container", "syncpod/cpu", "syncpod/numamemory", "syncpod/pinning", "syncpod/podspec", "syncpod/shutdown", "syncpod/source", "syncpod/topology", "syncpod/userns"},
		"a configuration becomes the settings of these packages, and starts nothing"},
	{"modules/cluster/e2e/...", nil, "it starts the node as a program"},
	{"modules/cluster/clustertest", []string{"modules/cluster/internal/...", "runtime/cri/critest"}, "it is a cluster in memory for tests of controllers"},
	{"modules/cluster/internal/binder", []string{"runtime"}, "it binds pods to nodes as a scheduler does"},
	{"modules/cluster/internal/fleet", []string{"..."}, "it assembles whole nodes in memory"},
	{"modules/cluster/internal/tracked", []string{"runtime", "syncpod/podspec/..."}, "it keeps objects as an API server does, which sets defaults"},
	{"modules/cluster/internal/watched", []string{"modules/cluster/internal/cached"}, "a watch keeps no managed fields"},
	{"modules/cluster/internal/...", nil, "caches, queues and log lines do not depend on pods"},
	{"modules/cluster/mirrors", []string{"modules/cluster/internal/queue", "runtime", "syncpod/podspec", "syncpod/source"}, "a mirror pod follows from a static pod"},
	{"modules/cluster/node", []string{"syncpod/eviction", "runtime/hostfs", "modules/cluster/internal/watched", "runtime/foreign"},
		"the Node follows from the machine and the runtime, not from pods"},
	{"modules/cluster/objects", []string{"modules/cluster/internal/cached", "syncpod", "syncpod/container/env", "syncpod/podspec", "syncpod/source"},
		"it reads the objects that pods refer to"},
	{"modules/cluster/pods", []string{"modules/cluster/internal/watched", "syncpod/source"}, "the API server is a source of pods"},
	{"modules/cluster/projections", []string{"syncpod/volume"}, "the API server has the certificates; package syncpod writes them into volumes"},
	{"modules/cluster/serve", []string{"runtime/hostfs", "syncpod/server"}, "it authenticates callers; the server answers the requests"},
	{"modules/cluster/status", []string{"syncpod/status", "syncpod/podref", "modules/cluster/internal/queue", "modules/cluster/mirrors", "runtime", "syncpod", "runtime/foreign"},
		"statuses, events and deletions go to the API server"},

	{"modules/cluster/volumes", []string{"syncpod/volume", "modules/cluster/internal/cached", "modules/csi", "syncpod/container/env"}, "the API server has the objects of volumes, and package csi mounts them"},
	{"modules/csi", []string{"backoff", "modules/csi/registration", "runtime/hostfs", "runtime/hostfs/mounts", "runtime/stats", "syncpod/container/env", "syncpod/volume", "runtime/foreign"},
		"a driver provides volumes of pods, and needs no runtime"},
	{"modules/csi/csitest", nil, "it replaces a driver, and knows CSI only"},
	{"modules/csi/registration", []string{"runtime/foreign"}, "plugins of all types register in the same way"},
	{"modules/devices", []string{"runtime/hostfs", "modules/devices/internal/ledger", "runtime", "syncpod", "syncpod/cpu", "syncpod/device", "syncpod/loop", "syncpod/numamemory", "runtime/foreign"},
		"plugins provide the devices of containers"},
	{"modules/devices/internal/ledger", []string{"runtime"}, "the choice of devices is pure"},
	{"modules/dra", []string{"modules/csi/registration", "runtime/hostfs", "syncpod", "syncpod/device", "runtime/foreign"}, "drivers provide the devices of claims"},
	{"modules/dra/dratest", nil, "it replaces a driver, and knows its protocol only"},
	{"modules/otel", []string{"podworkers", "syncpod", "syncpod/agent"}, "spans follow from the calls of observers"},
	{"modules/prometheus", []string{"actions", "podworkers", "runtime", "runtime/pleg", "syncpod", "syncpod/agent", "syncpod/eviction", "syncpod/loop", "syncpod/probe", "syncpod/volume"},
		"metrics follow from the calls of observers"},
	{"modules/systemd", []string{"syncpod/cgroup", "syncpod/cgroup/tree"}, "slices follow from settings of cgroups; the agent decides which pods stop before a shutdown"},
}

// modulesGraph has the packages of the other modules with their imports on all platforms, without those of tests.
func modulesGraph(t *testing.T) graph {
	t.Helper()
	files := repositoryFiles(t)
	var dirs []string
	for _, file := range files {
		if dir, isModule := strings.CutSuffix(file, "/go.mod"); isModule {
			dirs = append(dirs, dir+"/")
		}
	}
	g := graph{}
	for _, file := range files {
		inModule := slices.ContainsFunc(dirs, func(dir string) bool { return strings.HasPrefix(file, dir) })
		if !inModule || path.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") || strings.Contains(file, "testdata/") {
			continue
		}
		f := must.Get(parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.ImportsOnly))(t)
		name := module + "/" + path.Dir(file)
		if g[name] == nil {
			g[name] = &pkg{ImportPath: name}
		}
		for _, spec := range f.Imports {
			imported := must.Get(strconv.Unquote(spec.Path.Value))(t)
			if !slices.Contains(g[name].Imports, imported) {
				g[name].Imports = append(g[name].Imports, imported)
			}
		}
	}
	return g
}

func TestImportsOfModules(t *testing.T) {
	g := modulesGraph(t)
	for _, b := range ownImports(g, moduleRooms) {
		t.Error(b)
	}
	for _, r := range moduleRooms {
		if r.because == "" {
			t.Errorf("room %s has no reason", r.path)
		}
		if !slices.ContainsFunc(g.own(), func(p string) bool { return match(r.path, short(p)) }) {
			t.Errorf("room %s has no package", r.path)
		}
	}
}

// hidden returns the imports of internal packages of the library: an author of another module could not write them.
func hidden(g graph) (found []string) {
	for _, path := range g.own() {
		for _, imported := range g[path].Imports {
			if strings.HasPrefix(imported, module+"/internal/") {
				found = append(found, short(path)+" imports "+short(imported))
			}
		}
	}
	return found
}

// TestExamplesAndModulesImportPublicPackages: examples and modules are programs of anybody, their tests included.
func TestExamplesAndModulesImportPublicPackages(t *testing.T) {
	g := graph{}
	for _, file := range repositoryFiles(t) {
		if path.Ext(file) != ".go" || !strings.HasPrefix(file, "examples/") && !strings.HasPrefix(file, "modules/") {
			continue
		}
		f := must.Get(parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.ImportsOnly))(t)
		one := &pkg{ImportPath: module + "/" + file}
		for _, spec := range f.Imports {
			imported := must.Get(strconv.Unquote(spec.Path.Value))(t)
			one.Imports = append(one.Imports, imported)
		}
		g[one.ImportPath] = one
	}
	if len(g) < 200 {
		t.Errorf("%d files are found", len(g))
	}
	for _, found := range hidden(g) {
		t.Errorf("%s, which no other module may: make it public, or use a library", found)
	}
}

func TestHiddenImports(t *testing.T) {
	of := func(imports ...string) *pkg { return &pkg{ImportPath: module + "/examples/a", Imports: imports} }
	for _, tt := range []struct {
		pkg  *pkg
		want int
	}{
		{of(module+"/syncpod", module+"/modules/cluster/internal/queue", "example.com/internal/x"), 0},
		{of(module + "/internal/lastknown"), 1},
		{of(module + "/internal/rig/testnode"), 1},
	} {
		if got := hidden(graph{tt.pkg.ImportPath: tt.pkg}); len(got) != tt.want {
			t.Errorf("%q: %q", tt.pkg.Imports, got)
		}
	}
}
