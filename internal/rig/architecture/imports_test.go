package architecture

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A room says what a package of ours may import of ours. The entry for a package
// itself counts before one for a tree, and the nearer tree before the wider.
type room struct {
	path    string
	imports []string
	because string
}

var rooms = []room{
	{".", nil, "the root package is documentation"},
	{"runtime", nil, "everything else is said in its words, so it stands on nothing of ours"},
	{"backoff", nil, "keys and time are arguments: it serves without pods"},
	{"actions", []string{"runtime"}, "a decision is made from what a runtime reported, and knows nothing that carries it out"},
	{"podworkers", []string{"internal/base/jitter", "runtime"}, "it drives a Syncer that it declares itself, so that workers and transaction serve without each other"},

	{"runtime/cri", []string{"runtime"}, "it is a connection to a runtime: what is read and done over it is not its business"},
	{"runtime/cri/critest/conformance", nil, "it is held against any runtime, and so knows CRI alone and none of them"},
	{"runtime/cri/critest/agenttest/loopagent", []string{"runtime", "runtime/cri", "runtime/cri/critest/agenttest", "syncpod", "syncpod/agent", "syncpod/source"},
		"it is podsync's loop as an agent under test: the one place where both are known"},
	{"runtime/cri/critest/...", []string{"internal/base/spdy", "internal/base/websocket", "runtime/cri/critest/..."}, "it stands in for a runtime, which knows nothing of podsync, and must not inherit its mistakes"},
	{"runtime/image", []string{"runtime/cri"}, "settings and errors of images are values: who pulls and removes them is not their business"},
	{"runtime/pleg", nil, "settings and health of the watch on a runtime are values"},
	{"runtime/logs", []string{"internal/base/regular"}, "a log is a file: who has written it, and of which pod it is, is not its business"},
	{"syncpod/internal/oom", nil, "it reads the kernel's log: whose containers these are is not its business"},
	{"syncpod/internal/rotate", []string{"internal/base/safepath", "runtime", "runtime/cri", "runtime/logs"}, "which logs there are follows from what runs; the runtime is asked for a new file and for nothing else"},
	{"syncpod/internal/gc", []string{"internal/base/regular", "internal/base/safepath", "runtime", "runtime/cri"}, "garbage is told from what the runtime reports; who may go is asked through an interface"},

	{"internal/base/images", []string{"backoff", "internal/base/order", "internal/base/podfile", "runtime", "runtime/cri", "runtime/image"}, "images are pulled and removed without pods being synced"},
	{"sandbox", []string{"internal/base/resolvoption"}, "settings of a node are values"},
	{"internal/base/resolvoption", nil, "an option of a resolver is a text"},
	{"internal/base/sandboxconfig", []string{"internal/base/linux", "internal/base/resolvoption", "internal/base/safepath", "runtime", "sandbox"}, "a sandbox's config is a value: who makes the sandbox is not its business"},
	{"internal/base/podreader", []string{"runtime", "runtime/cri"}, "it turns the runtime's messages into the words of package runtime, and decides nothing"},
	{"internal/base/watch", []string{"internal/base/podreader", "runtime", "runtime/cri", "runtime/pleg"}, "an event only says look again: what follows from what is seen is not its business"},
	{"internal/base/stats", []string{"internal/base/order", "runtime", "runtime/cri"}, "what is used is read, of the pods that a caller names; what follows from it is not its business"},
	{"internal/base/sandboxes", []string{"internal/base/creation", "internal/base/deadline", "runtime", "runtime/cri"}, "it makes sandboxes of configs that it is given, before there is anything to sync in them"},
	{"syncpod/container", nil, "settings of a node are values"},
	{"syncpod/container/env", nil, "a source is asked for objects: what they are for is not its business"},
	{"internal/base/containerconfig", []string{"internal/base/environ", "internal/base/expand", "internal/base/linux", "internal/base/podcontainer", "internal/base/safepath", "runtime", "syncpod/container",
		"syncpod/podspec/qos"}, "a container's config is built, not carried out: it serves without the transaction"},
	{"internal/base/environ", []string{"internal/base/expand", "internal/base/podcontainer", "runtime", "syncpod/container/env"}, "an environment is resolved from a pod and its sources alone"},
	{"syncpod/internal/volumedir", nil, "it names directories, for what makes and what measures volumes"},
	{"syncpod/internal/stop", []string{"actions", "internal/base/deadline", "runtime", "runtime/cri", "syncpod/internal/hook", "syncpod/internal/handler", "syncpod/internal/memory", "internal/base/podref"},
		"it stops a container or a pod by a deadline: why it stops, and how that is reported, is not its business"},
	{"syncpod/internal/handler", nil, "it has rules for handlers of both kinds, and runs none"},
	{"internal/base/podref", []string{"actions"}, "it names pods and containers for all that records events, logs or fails"},
	{"syncpod/cgroup", nil, "settings of a cgroup are values"},
	{"internal/base/podcgroup", []string{"internal/base/linux", "internal/base/quantities", "internal/base/safepath", "runtime", "syncpod/cgroup", "syncpod/podspec/qos"}, "a cgroup follows from a pod alone: who makes it is not its business"},
	{"syncpod/cgroup/tree", []string{"internal/base/filetree", "internal/base/podcgroup", "internal/base/podfile", "runtime/cri", "syncpod/cgroup", "syncpod/podspec/qos"},
		"the kernel's files are kept as package podcgroup says; a runtime is asked for its driver and for nothing else"},
	{"syncpod/resize", []string{"internal/base/fits", "internal/base/podfile", "internal/base/podref", "syncpod/podspec/qos"},
		"what pods are allocated follows from pods and the node alone, and is kept in files: no runtime is within reach"},
	{"syncpod/eviction", nil, "a policy and an eviction are values: what is decided for them is not their business"},
	{"internal/base/evict", []string{"internal/base/fits", "internal/base/linux", "internal/base/quantities", "runtime", "syncpod/eviction", "syncpod/podspec/qos"},
		"which pod is evicted follows from readings, pods and thresholds; who reads and who stops pods is not its business"},
	{"syncpod/internal/pressure", []string{"internal/base/filetree", "internal/base/podfile", "internal/base/podref", "internal/base/safepath", "internal/base/evict", "runtime", "internal/base/stats", "syncpod/eviction", "syncpod/internal/volumedir"},
		"it reads what a node has left and has decided what follows; whose pods these are it is told through an interface"},
	{"syncpod/podspec", []string{"internal/base/quantities", "runtime"}, "defaults and validation concern a pod before anything is done for it"},
	{"syncpod/podspec/qos", nil, "a class follows from a spec alone, and serves whoever makes cgroups, configs or statuses"},
	{"internal/base/apistatus", []string{"actions", "internal/base/linux", "internal/base/order", "runtime", "syncpod/podspec/qos"},
		"a status is made from what was observed, not by asking those who act; that a container is to run again it must say as the plan does, so it asks the same pure rules"},
	{"syncpod/internal/hook", []string{"runtime", "runtime/cri"}, "a handler is run when it is asked for: by whom is not its business"},
	{"syncpod/probe", []string{"actions"}, "a check is a value, for observers"},
	{"syncpod/internal/prober", []string{"actions", "internal/base/jitter", "runtime", "runtime/cri", "syncpod/internal/hook", "syncpod/probe"},
		"a probe reports a result, in the words of actions, where it is decided what follows; its checks are handlers run as a hook's"},
	{"syncpod/volume", []string{"internal/base/mounts"}, "it says what a program provides for volumes: who sets them up is not its business"},
	{"syncpod/internal/localvolume", []string{"internal/base/containerconfig", "internal/base/environ", "internal/base/expand", "internal/base/mounts", "internal/base/regular", "internal/base/safepath", "internal/base/tokenlife", "syncpod/container/env", "syncpod/internal/volumedir", "syncpod/volume"},
		"volumes are files of the node and need no runtime"},
	{"syncpod/internal/poddir", []string{"internal/base/containerconfig", "internal/base/filetree", "internal/base/mounts", "internal/base/podcontainer", "internal/base/regular", "internal/base/safepath", "internal/base/sandboxconfig", "runtime", "sandbox"},
		"a pod's directory is files of the node and needs no runtime; volumes are made by whoever is asked through an interface"},
	{"syncpod/internal/assemble", []string{"internal/base/images", "internal/base/podreader", "runtime/cri", "runtime/image", "syncpod/internal/hook", "internal/base/sandboxes"},
		"it makes parts of a connection, for the transaction by itself and for the loop, and knows neither"},
	{"syncpod/internal/memory", []string{"actions", "backoff", "internal/base/creation", "internal/base/statusjson", "runtime", "internal/base/apistatus", "internal/base/podcontainer"},
		"what is remembered of a pod is a value with rules: who guards, loads and saves it is not its business"},
	{"syncpod", []string{
		"actions", "internal/base/creation", "internal/base/deadline", "internal/base/images", "internal/base/linux", "internal/base/pace", "internal/base/podfile", "internal/base/safepath", "internal/deps", "runtime", "runtime/cri", "runtime/image", "sandbox", "internal/base/sandboxconfig",
		"internal/base/apistatus", "internal/base/containerconfig", "internal/base/environ", "syncpod/cgroup", "syncpod/container/...", "syncpod/device", "syncpod/internal/hook", "syncpod/internal/assemble", "syncpod/internal/handler", "syncpod/internal/memory", "internal/base/podcontainer", "internal/base/podref", "internal/base/sandboxes", "syncpod/internal/stop",
		"syncpod/internal/localvolume", "syncpod/internal/poddir", "syncpod/resize", "syncpod/volume",
	}, "the transaction does not know who calls it: neither workers nor loop, and never a fake runtime"},
	{"syncpod/device", []string{"internal/base/podfile"}, "what containers were given is kept in files; who gives it is asked through an interface"},
	{"syncpod/userns", []string{"internal/base/durable", "internal/base/regular", "internal/base/safepath"}, "which IDs a pod has follows from those of others, and is kept in files; a runtime is asked for its features and for nothing else"},
	{"syncpod/shutdown", nil, "a policy is a value"},
	{"syncpod/internal/shutdownorder", []string{"runtime", "syncpod/shutdown"}, "an order follows from pods and a policy alone: who stops them is not its business"},
	{"syncpod/source", []string{"internal/base/durable", "internal/base/quantities", "internal/base/regular", "runtime", "sandbox", "syncpod/container/env", "syncpod/podspec", "syncpod/volume"}, "which pods should run is known before anything is done for them, and whoever keeps them running"},
	{"syncpod/credentialprovider", []string{"internal/base/regular", "internal/base/images", "internal/base/tokenlife", "syncpod/source", "syncpod/volume"}, "credentials are pull secrets: who pulls with them is not its business"},
	{"syncpod/loop", []string{
		"internal/base/order", "internal/base/podreader", "internal/base/sandboxes", "internal/base/statusstore", "internal/base/watch", "internal/deps", "podworkers", "runtime", "runtime/cri", "runtime/pleg",
		"syncpod", "internal/base/apistatus", "syncpod/internal/assemble", "internal/base/podref", "syncpod/internal/shutdownorder", "syncpod/podspec", "syncpod/shutdown", "syncpod/source",
	}, "it keeps pods running, and what runs beside them it sees through an interface; it is never on a fake runtime"},
	{"syncpod/agent", []string{
		"actions", "internal/deps", "podworkers", "runtime", "runtime/cri", "runtime/image", "runtime/logs", "runtime/pleg", "internal/base/stats", "sandbox",
		"syncpod", "internal/base/evict", "internal/base/images", "syncpod/eviction", "syncpod/internal/assemble", "syncpod/internal/gc", "syncpod/internal/oom", "internal/base/podref", "syncpod/internal/pressure", "syncpod/internal/prober", "syncpod/internal/rotate", "syncpod/loop", "syncpod/probe", "syncpod/source", "syncpod/userns",
	}, "it is on top of all the others: it gives a loop the parts of a kubelet, and is never on a fake runtime"},

	{"syncpod/server", []string{"internal/base/regular", "internal/base/spdy", "internal/base/websocket", "runtime", "runtime/cri", "runtime/logs", "internal/base/stats", "internal/base/podcontainer", "syncpod/loop"},
		"it shows what an agent does, and decides nothing; only the types of the loop's answers are needed"},

	{"syncpod/timeline", []string{"actions", "podworkers", "runtime/image", "syncpod", "syncpod/agent", "syncpod/probe"},
		"it remembers what observers tell it; nothing that is done for a pod knows of it"},

	{"internal/base/expand", nil, "it replaces text in text, wherever variables are referred to"},
	{"internal/base/podcontainer", nil, "it finds a container in a spec, for anyone"},
	{"internal/base/creation", []string{"runtime/cri"}, "it says what a lost answer is worth, whatever was to be made"},
	{"internal/base/deadline", nil, "it compares a context with the clock, for anyone"},
	{"internal/base/linux", []string{"runtime"}, "it turns API fields into CRI fields for builders of any kind; which containers are sidecars the package runtime defines"},
	{"internal/base/safepath", nil, "it judges paths, for anyone"},
	{"internal/base/filetree", []string{"internal/base/mounts", "internal/base/safepath"}, "it walks and empties directories, whoever has filled them, and enters no mount"},
	{"internal/base/quantities", nil, "it bounds the text of a number, wherever that is from"},
	{"internal/base/regular", nil, "it opens files that others may write, for anyone"},
	{"internal/base/mounts", nil, "it tells what is mounted, to whoever deletes files"},
	{"internal/base/jitter", nil, "it spreads times, for anyone"},
	{"internal/base/fits", []string{"internal/base/linux"}, "it compares what pods request with what there is, for anyone"},
	{"internal/base/order", nil, "it sorts values of any kind"},
	{"internal/base/pace", nil, "it gives turns to work of any kind"},
	{"internal/base/spdy", nil, "it carries streams, and does not know what is sent on them"},
	{"internal/base/tokenlife", nil, "it computes when a token is renewed, for anyone who keeps one"},
	{"internal/base/websocket", nil, "it carries messages, and does not know what they say"},
	{"internal/base/statusstore", []string{"internal/base/podfile", "internal/base/statusjson", "runtime"}, "a stored status is a file, whoever reports it"},
	{"internal/base/statusjson", []string{"runtime"}, "it writes what a runtime reported, for whoever keeps it"},
	{"internal/base/durable", nil, "it replaces files, for anyone"},
	{"internal/base/podfile", []string{"internal/base/durable", "internal/base/regular", "internal/base/safepath"}, "it keeps files by pod, and does not know what is in them"},
	{"internal/deps", []string{"actions", "internal/base/images", "internal/base/podfile", "internal/base/sandboxes", "internal/base/stats", "internal/base/sandboxconfig", "internal/base/statusstore", "runtime"}, "it names the parts that packages pass to a Syncer, and no package that uses them"},
	{"internal/rig/testnode", []string{"internal/base/podreader", "runtime", "runtime/cri", "runtime/cri/critest", "runtime/cri/critest/faults"}, "it is the node that tests of any package start from"},
	{"internal/rig/plancheck", []string{"actions", "podworkers", "runtime", "syncpod", "syncpod/agent"}, "it holds the calls of any rig's agent against its plans"},
	{"internal/rig/apisurface", nil, "it reads the module as the compiler does"},
	{"internal/rig/architecture", nil, "it reads the module from outside"},
	{"internal/rig/documents", nil, "it reads documents, and runs the go command"},
	{"internal/rig/licences", nil, "it reads the module cache"},
	{"internal/rig/conformance/...", []string{"..."}, "it compares whatever decides"},
	{"internal/rig/simulation/...", []string{"..."}, "it runs whatever decides"},
	{"internal/rig/upgrade", []string{"..."}, "it reads what earlier releases have written"},
	{"internal/rig/e2e/...", []string{"..."}, "it runs the library as a whole"},
	{"internal/rig/scale", []string{"..."}, "it measures the library as a whole"},
	{"examples/...", []string{"..."}, "an example may show anything"},
}

// A ban says which packages from elsewhere, or of ours, some packages of ours
// must not import.
type ban struct {
	in, except []string // packages of ours
	forbids    []string
	throughout bool // in all that they depend on, not only in their own files
	because    string
}

// library is what an embedder's program is built from. Of internal that is what stands
// in base; what stands in rig runs the library, or looks at it from outside.
var library = []string{".", "actions/...", "backoff/...", "internal/base/...", "internal/deps", "podworkers/...", "runtime/...", "sandbox/...", "syncpod/..."}

var bans = []ban{
	{
		in: []string{"..."}, throughout: true,
		forbids: []string{
			"k8s.io/client-go/...", "k8s.io/kubernetes/...", "k8s.io/kubelet/...", "k8s.io/apiserver/...", "k8s.io/component-base/...",
		},
		because: "an embedder chooses its own client and version of Kubernetes; small interfaces here are met by client-go's types as they are",
	},
	{
		in: []string{"actions/...", "backoff", "podworkers/...", "runtime"}, throughout: true,
		forbids: []string{"google.golang.org/grpc/...", "k8s.io/cri-api/..."},
		because: "what decides can be run, printed and tested with no runtime within reach",
	},
	{
		in: []string{"backoff"}, throughout: true,
		forbids: []string{"k8s.io/...", "sigs.k8s.io/...", "google.golang.org/...", "golang.org/x/...", "github.com/..."},
		because: "back-off is of use outside Kubernetes, so it needs the standard library alone",
	},
	{
		in: []string{"actions/...", "backoff", "runtime", "internal/base/containerconfig", "internal/base/environ", "internal/base/apistatus", "internal/base/evict",
			"syncpod/cgroup", "internal/base/podcgroup", "syncpod/eviction", "syncpod/podspec/...", "internal/base/jitter", "internal/base/linux", "internal/base/quantities", "internal/base/safepath"},
		forbids: []string{"google.golang.org/grpc/...", "github.com/go-logr/...", "os/exec", "net/http/..."},
		because: "decisions and configs are values: making one neither calls nor logs",
	},
	{
		in:      []string{"podworkers/..."},
		forbids: []string{"os/...", "net/..."},
		because: "whatever is done for a pod is done by the Syncer",
	},
	{
		in:      library,
		forbids: []string{"k8s.io/klog/...", "log/..."},
		because: "log lines go to the logr.Logger that the embedder passes in; these write to one the whole process shares",
	},
	{
		in:      library,
		forbids: []string{"flag", "expvar", "net/http/pprof", "os/signal", "github.com/spf13/...", "github.com/prometheus/...", "go.opentelemetry.io/...", "go.uber.org/..."},
		because: "a library reads no flag, takes no signal and registers nothing with the process",
	},
	{
		in: library, except: []string{"runtime/cri/critest/..."},
		forbids: []string{module + "/runtime/cri/critest/...", module + "/internal/rig/conformance/...", module + "/internal/rig/simulation/...", module + "/examples/..."},
		because: "an agent's binary carries no test code",
	},
	{
		in: append([]string{"examples/..."}, library...), except: []string{"runtime/cri/critest/conformance"},
		forbids: []string{"testing/..."}, throughout: true,
		because: "a program does not have the flags and the weight of package testing, and neither does one with a runtime in memory",
	},
}

// ownImports returns what breaks the table of rooms: an import that is not allowed, a package
// without an entry, and an allowed import that no package of the room uses.
func ownImports(g graph, rooms []room) []string {
	var broken []string
	used := map[string]map[string]bool{} // by room and allowed import
	for _, path := range g.own() {
		r := roomOf(rooms, short(path))
		if r == nil {
			broken = append(broken, fmt.Sprintf("%s has no entry in the table of rooms: say what it may import and why", short(path)))
			continue
		}
		if used[r.path] == nil {
			used[r.path] = map[string]bool{}
		}
		for _, imported := range g[path].Imports {
			if !strings.HasPrefix(imported, module) {
				continue
			}
			allowed := false
			for _, pattern := range r.imports {
				if match(pattern, short(imported)) {
					used[r.path][pattern], allowed = true, true
				}
			}
			if !allowed {
				broken = append(broken, fmt.Sprintf("%s must not import %s: %s", short(path), short(imported), r.because))
			}
		}
	}
	return append(broken, unusedImports(rooms, used)...)
}

// unusedImports returns the allowed imports of the rooms in use that no package makes.
func unusedImports(rooms []room, used map[string]map[string]bool) []string {
	var broken []string
	for _, r := range rooms {
		for _, pattern := range r.imports {
			if used[r.path] != nil && pattern != "..." && !used[r.path][pattern] {
				broken = append(broken, fmt.Sprintf("%s does not import %s: take it out of the table of rooms", r.path, pattern))
			}
		}
	}
	return broken
}

// roomOf returns the entry for a path itself, else the nearest one for its tree.
func roomOf(rooms []room, path string) *room {
	var best *room
	for i := range rooms {
		r := &rooms[i]
		if r.path == path {
			return r
		}
		if match(r.path, path) && (best == nil || len(r.path) > len(best.path)) {
			best = r
		}
	}
	return best
}

// banned returns what breaks the bans, with the way to it.
func banned(g graph, bans []ban) []string {
	var broken []string
	for _, b := range bans {
		for _, path := range g.own() {
			if !matchAny(b.in, short(path)) || matchAny(b.except, short(path)) {
				continue
			}
			for _, way := range b.ways(g, path) {
				broken = append(broken, fmt.Sprintf("%s must not import %s: %s", short(path), strings.Join(way[1:], " -> "), b.because))
			}
		}
	}
	return broken
}

// ways returns one chain for each forbidden pattern that a package reaches.
func (b *ban) ways(g graph, path string) [][]string {
	if !b.throughout {
		g = graph{path: g[path]}
	}
	var ways [][]string
	for _, pattern := range b.forbids {
		if way := g.chain(path, []string{pattern}); way != nil {
			ways = append(ways, way)
		}
	}
	return ways
}

func TestImports(t *testing.T) {
	g := moduleGraph(t)
	for _, b := range slices.Concat(ownImports(g, rooms), banned(g, bans)) {
		t.Error(b)
	}
}

func TestEveryRuleHasItsReason(t *testing.T) {
	for _, r := range rooms {
		if r.because == "" {
			t.Errorf("room %s has no reason", r.path)
		}
	}
	for _, b := range bans {
		if b.because == "" || len(b.in) == 0 || len(b.forbids) == 0 {
			t.Errorf("the ban of %v in %v for %q is not complete", b.forbids, b.in, b.because)
		}
	}
}
