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
	{"runtime", nil, "it defines the terms of all other packages, so it imports none of them"},
	{"backoff", nil, "keys and time are arguments: a program without pods can use it"},
	{"actions", []string{"runtime"}, "a decision follows from the reported state; the code that carries it out is not needed"},
	{"podworkers", []string{"internal/jitter", "runtime"},
		"it drives a Syncer that it declares itself, so that workers and transaction can be used separately"},

	{"runtime/foreign", nil, "a text is a value; whoever receives one bounds it"},
	{"runtime/foreign/lines", []string{"runtime/foreign"}, "it bounds what any logger writes"},
	{"runtime/cri", []string{"runtime", "runtime/foreign"}, "it is a connection to a runtime; its callers decide which calls they make"},
	{"runtime/cri/critest/conformance", nil, "it checks any runtime, so it knows CRI only"},
	{"runtime/cri/critest/agenttest/loopagent", []string{"runtime", "runtime/cri", "runtime/cri/critest/agenttest", "syncpod", "syncpod/agent", "syncpod/source"},
		"it is podsync's loop as an agent under test: the only package that imports both"},
	{"runtime/cri/critest/...", []string{"internal/spdy", "runtime/websocket", "runtime/cri/critest/..."},
		"it replaces a runtime; with code of podsync it would repeat podsync's mistakes"},
	{"runtime/image", []string{"backoff", "internal/lastknown", "internal/order", "internal/podfile", "runtime", "runtime/cri", "runtime/foreign", "runtime/image/keyring"},
		"images are pulled and removed without a sync of a pod"},
	{"runtime/image/keyring", []string{"internal/utf", "runtime/foreign"}, "it reads pull secrets and names of images; another package pulls"},
	{"runtime/pleg", []string{"runtime", "runtime/cri", "runtime/reader"}, "an event only starts an inspection; its callers act on the result"},
	{"runtime/logs", []string{"runtime/hostfs"}, "a log is a file; its writer and its pod do not matter"},
	{"syncpod/oom", nil, "it reads the kernel's log; its caller finds the containers"},
	{"runtime/logs/rotate", []string{"runtime", "runtime/cri", "runtime/hostfs", "runtime/logs"},
		"the containers determine the logs; the only call to the runtime reopens a log"},
	{"runtime/gc", []string{"runtime", "runtime/cri", "runtime/hostfs"},
		"garbage follows from the reported state; an interface says which pods may be removed"},

	{"sandbox", []string{"internal/linux", "internal/podresources", "runtime", "runtime/hostfs"},
		"the configuration of a sandbox is a value; another package creates the sandbox"},
	{"runtime/reader", []string{"runtime", "runtime/cri", "runtime/foreign"},
		"it converts CRI messages into types of package runtime, and decides nothing"},
	{"runtime/stats", []string{"internal/order", "runtime", "runtime/cri"}, "it reads the usage of the pods that a caller names; the caller acts on it"},
	{"sandbox/run", []string{"internal/deadline", "runtime", "runtime/cri", "runtime/cri/creation"},
		"it creates sandboxes from given configurations; containers come later"},
	{"syncpod/container", []string{"internal/linux", "internal/podresources", "runtime", "runtime/hostfs", "syncpod/container/env", "syncpod/podspec/qos"},
		"the configuration of a container is a value, and can be computed without the transaction"},
	{"syncpod/container/env", []string{"runtime"}, "an environment is resolved from a pod and its sources alone"},
	{"syncpod/container/start", []string{"actions", "internal/deadline", "runtime", "runtime/cri", "runtime/cri/creation", "runtime/hostfs", "runtime/image", "syncpod/container", "syncpod/container/env", "syncpod/device", "syncpod/lifecycle", "syncpod/lifecycle/handler", "syncpod/memory", "syncpod/podref"},
		"it starts the containers of a plan; its caller decides which, and when, and what follows from a failure"},
	{"syncpod/volume", []string{"runtime/hostfs/mounts"},
		"it declares what a program provides for volumes; other packages set them up and measure them"},
	{"syncpod/lifecycle", []string{"actions", "internal/deadline", "runtime", "runtime/cri", "syncpod/lifecycle/handler", "syncpod/memory", "syncpod/podref"},
		"it stops a container or a pod by a deadline; its callers know the reason, and report it"},
	{"syncpod/lifecycle/handler", []string{"runtime", "runtime/cri"}, "it runs a handler, for any caller"},
	{"syncpod/podref", []string{"actions"}, "it names pods and containers in events, logs and errors"},
	{"syncpod/cgroup", []string{"internal/podresources", "internal/quantities", "runtime", "runtime/hostfs", "syncpod/podspec/qos"},
		"the limits of a cgroup follow from the pod; another package creates the cgroup"},
	{"syncpod/cgroup/tree", []string{"internal/filetree", "internal/podfile", "runtime/cri", "syncpod/cgroup", "syncpod/podspec/qos"},
		"it writes the limits of package podcgroup; the only call to the runtime returns its cgroup driver"},
	{"syncpod/resize", []string{"internal/podfile", "syncpod/podref", "syncpod/podspec/qos", "syncpod/podspec/resources"},
		"allocated resources follow from pods and the node, and are stored in files; no runtime is needed"},
	{"syncpod/eviction", []string{"internal/podresources", "internal/quantities", "runtime", "syncpod/podspec/qos", "syncpod/podspec/resources"},
		"the decision follows from a policy, readings and pods; other packages measure, and stop pods"},
	{"syncpod/eviction/manager", []string{"internal/filetree", "internal/podfile", "runtime", "runtime/hostfs", "runtime/stats", "syncpod/eviction", "syncpod/podref", "syncpod/volume"},
		"it measures the free resources of the node, and calls the decision; an interface returns the pods"},
	{"syncpod/podspec", []string{"internal/quantities", "runtime"}, "defaults and validation concern a pod before anything is done for it"},
	{"syncpod/podspec/qos", nil, "a class follows from the spec alone; cgroups, configurations and statuses need it"},
	{"syncpod/status", []string{"actions", "internal/podresources", "internal/order", "runtime", "runtime/foreign", "syncpod/podspec/qos"},
		"a status follows from the observed state; whether a container restarts must agree with the plan, so both use the same pure rules"},
	{"syncpod/status/summary", []string{"runtime"}, "a line about a pod follows from its reported status"},
	{"syncpod/probe", []string{"actions", "internal/jitter", "runtime", "runtime/cri", "runtime/foreign", "syncpod/lifecycle/handler"},
		"a probe reports a result of package actions, which decides what follows; its checks run like the handlers of hooks"},
	{"syncpod/volume/local", []string{"internal/lastknown", "internal/podresources", "runtime/hostfs", "runtime/hostfs/mounts", "syncpod/container", "syncpod/container/env", "syncpod/volume"},
		"volumes are files of the node and need no runtime"},
	{"syncpod/poddir", []string{"internal/filetree", "runtime", "runtime/hostfs", "runtime/hostfs/mounts", "sandbox", "syncpod/container"},
		"a pod's directory consists of files of the node, and needs no runtime; an interface sets up the volumes"},
	{"syncpod/memory", []string{"actions", "backoff", "internal/statusjson", "runtime", "runtime/cri/creation", "syncpod/status"},
		"the memory of a pod is a value with rules; other packages lock, load and save it"},
	{"syncpod/memory/keeper", []string{"actions", "internal/podfile", "runtime", "runtime/cri", "syncpod/lifecycle", "syncpod/memory", "syncpod/status"},
		"it keeps the memory of pods under locks and in files; its caller reads statuses, and carries plans out"},
	{"syncpod", []string{"actions", "internal/lastknown", "internal/limiter", "internal/podresources", "internal/podfile", "runtime", "runtime/cri", "runtime/foreign", "runtime/foreign/lines", "runtime/hostfs", "runtime/image", "runtime/reader", "sandbox", "sandbox/run", "syncpod/cgroup", "syncpod/container", "syncpod/container/...", "syncpod/container/env", "syncpod/device", "syncpod/lifecycle", "syncpod/lifecycle/handler", "syncpod/memory", "syncpod/poddir", "syncpod/podref", "syncpod/resize", "syncpod/status", "syncpod/volume", "syncpod/volume/local"},
		"the transaction does not depend on its callers, the workers and the loop, and never on a fake runtime"},
	{"syncpod/worker", []string{"podworkers", "runtime", "runtime/cri", "syncpod"},
		"it joins the workers and the transaction, which do not know each other; a program with a loop of its own uses it"},
	{"syncpod/device", []string{"internal/podfile"}, "the devices of containers are stored in files; an interface allocates them"},
	{"syncpod/userns", []string{"runtime/hostfs"},
		"the IDs of a pod follow from those of other pods, and are stored in files; the only call to the runtime returns its features"},
	{"syncpod/shutdown", []string{"runtime"}, "the order follows from the pods and a policy; another package stops them"},
	{"syncpod/cpu", []string{"runtime", "syncpod/podspec/qos", "syncpod/topology"},
		"the CPUs of a container follow from the machine, a policy, the pod and the CPUs of other containers"},
	{"syncpod/numamemory", []string{"runtime", "syncpod/podspec/qos", "syncpod/topology"}, "which memory a container gets follows from the pod, the machine and the hint"},
	{"syncpod/topology", nil, "which NUMA nodes a container gets follows from hints, a policy and the machine"},
	{"syncpod/pinning", []string{"runtime", "runtime/hostfs", "syncpod", "syncpod/cpu", "syncpod/numamemory", "syncpod/podref", "syncpod/podspec/qos", "syncpod/topology"},
		"it admits pods for a loop, whose rejections it returns, and stores what they have; the decisions are in three pure packages"},
	{"syncpod/source", []string{"internal/lastknown", "internal/quantities", "internal/utf", "runtime", "runtime/foreign", "runtime/hostfs", "sandbox", "syncpod/container/env", "syncpod/podspec", "syncpod/volume"},
		"a source works without the code that keeps its pods running"},
	{"syncpod/credentialprovider", []string{"runtime/hostfs", "runtime/image/keyring", "syncpod/source", "syncpod/volume"},
		"credentials are pull secrets; another package pulls"},
	{"syncpod/loop", []string{"actions", "internal/order", "podworkers", "runtime", "runtime/cri", "runtime/foreign", "runtime/foreign/lines", "runtime/pleg", "runtime/reader", "sandbox/run", "syncpod", "syncpod/podref", "syncpod/podspec", "syncpod/shutdown", "syncpod/source", "syncpod/status", "syncpod/store", "syncpod/volume", "syncpod/worker"},
		"it keeps pods running; other parts of an agent use it through an interface; it never imports a fake runtime"},
	{"syncpod/agent", []string{"actions", "podworkers", "runtime", "runtime/cri", "runtime/foreign/lines", "runtime/gc", "runtime/image", "runtime/logs", "runtime/logs/rotate", "runtime/pleg", "runtime/stats", "sandbox", "syncpod", "syncpod/eviction", "syncpod/eviction/manager", "syncpod/loop", "syncpod/oom", "syncpod/podref", "syncpod/probe", "syncpod/source", "syncpod/store", "syncpod/userns"},
		"it is the top: it adds the parts of a kubelet to a loop, and never imports a fake runtime"},

	{"syncpod/server", []string{"internal/spdy", "runtime/websocket", "runtime", "runtime/cri", "runtime/foreign", "runtime/foreign/lines", "runtime/hostfs", "runtime/logs", "runtime/stats", "syncpod/loop", "syncpod/volume"},
		"it shows what an agent does, and decides nothing; only the types of the loop's answers and of the usage of volumes are needed"},

	{"syncpod/recorder", []string{"actions", "runtime", "runtime/hostfs", "syncpod/loop"},
		"it writes decisions in the background, as a part of a loop"},
	{"syncpod/page", []string{"podworkers", "runtime", "runtime/foreign", "runtime/pleg", "syncpod", "syncpod/agent", "syncpod/loop", "syncpod/source", "syncpod/status/summary"},
		"it shows what a loop reports; the embedder passes handlers for history and metrics"},
	{"syncpod/timeline", []string{"actions", "podworkers", "runtime/image", "syncpod", "syncpod/agent", "syncpod/probe"},
		"it records the calls of observers; no other package needs it"},

	{"runtime/cri/creation", []string{"runtime/cri"}, "it finds out whether a creation without an answer has succeeded, for sandboxes and containers"},
	{"internal/deadline", nil, "it compares a context with the clock, for any package"},
	{"internal/podresources", []string{"runtime"}, "it adds up what a pod requests, for builders that link CRI and for those that do not"},
	{"internal/linux", []string{"internal/podresources"},
		"it turns API fields into CRI fields for builders of any kind; which containers are sidecars the package runtime defines"},
	{"runtime/hostfs", nil, "it opens, replaces and names files that others may write, for any package"},
	{"internal/filetree", []string{"runtime/hostfs", "runtime/hostfs/mounts"},
		"it walks and empties directories that containers may have filled, and enters no mount"},
	{"internal/quantities", nil, "it limits the length of a number's text, from any source"},
	{"runtime/hostfs/mounts", nil, "it lists mounts, for packages that delete files"},
	{"internal/jitter", nil, "it adds jitter to times, for any package"},
	{"syncpod/podspec/resources", []string{"internal/podresources"}, "it compares the requests of pods with the allocatable resources, for any package"},
	{"internal/order", nil, "it sorts values of any kind"},
	{"internal/limiter", nil, "it limits concurrent work of any kind"},
	{"internal/spdy", nil, "it carries streams of any content"},
	{"internal/lastknown", []string{"syncpod/container/env"}, "it remembers the answers of any source; only the source knows the errors of absence"},
	{"internal/utf", nil, "it decodes texts, for any package"},
	{"runtime/websocket", nil, "it carries messages of any content"},
	{"syncpod/store", []string{"internal/podfile", "internal/statusjson", "runtime"}, "a stored status is a file, for any agent"},
	{"internal/statusjson", []string{"runtime"}, "it encodes reported states, for packages that store them"},
	{"internal/podfile", []string{"runtime/hostfs"}, "it stores a file for each pod, with any content"},
	{"internal/rig/testnode", []string{"runtime", "runtime/cri", "runtime/cri/critest", "runtime/cri/critest/faults", "runtime/reader"},
		"it is the node that tests of all packages use"},
	{"internal/rig/plancheck", []string{"actions", "podworkers", "runtime", "syncpod", "syncpod/agent"},
		"it compares the calls of an agent with its plans, for any rig"},
	{"internal/rig/apisurface", nil, "it reads the module as the compiler does"},
	{"internal/rig/architecture", nil, "it reads the module from outside"},
	{"internal/rig/documents", nil, "it reads documents, and runs the go command"},
	{"internal/rig/licences", nil, "it reads the module cache"},
	{"internal/rig/conformance/...", []string{"..."}, "it compares decisions of all packages"},
	{"internal/rig/simulation/...", []string{"..."}, "it runs whole agents"},
	{"internal/rig/upgrade", []string{"..."}, "it reads files that earlier releases have written"},
	{"internal/rig/e2e/...", []string{"..."}, "it runs the library as a whole"},
	{"internal/rig/reports", []string{"..."}, "it runs whole agents"},
	{"internal/rig/scale", []string{"..."}, "it measures the library as a whole"},
	{"internal/rig/platforms", nil, "it reads all packages as source"},
	{"internal/rig/steady", nil, "it runs the tests of any package as programs"},
	{"examples/...", []string{"..."}, "an example may show anything"},
}

// A ban lists packages, of this module or others, that some packages of this module must not import.
type ban struct {
	in, except []string // packages of ours
	forbids    []string
	throughout bool // in all that they depend on, not only in their own files
	because    string
}

// library lists the packages that an embedder's program links. The packages below internal/rig run the library or check it.
var library = []string{".", "actions/...", "backoff/...", "internal/deadline", "internal/filetree", "internal/jitter", "internal/limiter", "internal/linux",
	"internal/order", "internal/podfile", "internal/podresources", "internal/quantities", "internal/spdy", "internal/statusjson", "internal/utf", "podworkers/...", "runtime/...", "sandbox/...", "syncpod/..."}

var bans = []ban{
	{
		in: []string{"..."}, throughout: true,
		forbids: []string{
			"k8s.io/client-go/...", "k8s.io/kubernetes/...", "k8s.io/kubelet/...", "k8s.io/apiserver/...", "k8s.io/component-base/...",
		},
		because: "an embedder chooses its own client and version of Kubernetes; client-go's types implement the small interfaces here",
	},
	{
		in: []string{"actions/...", "backoff", "podworkers/...", "runtime", "runtime/hostfs/...", "syncpod/cgroup", "syncpod/container/env", "syncpod/cpu", "syncpod/device", "syncpod/eviction", "syncpod/numamemory",
			"syncpod/podref", "syncpod/podspec/...", "syncpod/shutdown", "syncpod/status/...", "syncpod/store", "syncpod/topology", "syncpod/volume"}, throughout: true,
		forbids: []string{"google.golang.org/grpc/...", "k8s.io/cri-api/..."},
		because: "decisions can be run, printed and tested without a runtime",
	},
	{
		in: []string{"backoff"}, throughout: true,
		forbids: []string{"k8s.io/...", "sigs.k8s.io/...", "google.golang.org/...", "golang.org/x/...", "github.com/..."},
		because: "back-off is useful outside Kubernetes, so it needs the standard library only",
	},
	{
		in:      []string{"actions/...", "backoff", "runtime", "syncpod/container", "syncpod/container/env", "syncpod/status/...", "syncpod/eviction", "syncpod/cgroup", "syncpod/cpu", "syncpod/podspec/...", "syncpod/numamemory", "syncpod/topology", "internal/jitter", "internal/linux", "internal/quantities", "runtime/hostfs"},
		forbids: []string{"google.golang.org/grpc/...", "github.com/go-logr/...", "os/exec", "net/http/..."},
		because: "decisions and configurations are values: their computation makes no call and logs nothing",
	},
	{
		in:      []string{"podworkers/..."},
		forbids: []string{"os/...", "net/..."},
		because: "only the Syncer acts for a pod",
	},
	{
		in:      library,
		forbids: []string{"k8s.io/klog/...", "log/..."},
		because: "log lines go to the logr.Logger that the embedder passes in; these write to a log that the whole process shares",
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
		because: "no program links package testing, with its flags and size, not even a program with a runtime in memory",
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
