package architecture

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A wayIn is a file in which bytes of others become values of the agent: it connects to another program, or runs one.
// Errors of these connections and programs have a text that the other side chooses.
type wayIn struct {
	file string
	// bounded matches, in boundedIn, or in the file itself if that is empty, what bounds the texts.
	boundedIn, bounded string
	because            string
}

var waysIn = []wayIn{
	{"runtime/cri/dial.go", "", `NewRuntimeServiceClient\(bounded\)\s+ImageServiceClient: +runtimeapi\.NewImageServiceClient\(bounded\)|bounded := boundedConn\{conn\}`, "all calls of the runtime, the registries and images behind it"},
	{"syncpod/probe/grpc.go", "", `status\.Code\(err\)`, "of an error only the code is used"},
	{"syncpod/lifecycle/handler/http.go", "", `readError\(err\)`, "errors of endpoints have fixed texts, and those of the system the agent's own addresses"},
	{"syncpod/lifecycle/handler/hook.go", "syncpod/lifecycle/handler/http.go", `readError\(err\)`, "it has the dialer of http.go"},
	{"syncpod/probe/checker.go", "", `Dial`, "a dial that fails has the text of the system"},
	{"syncpod/credentialprovider/plugin.go", "", `Its errors contain nothing of the output`, "errors contain nothing of the output"},
	{"syncpod/server/streamer.go", "syncpod/server/proxy.go", `foreign\.`, "refusals of the runtime's streaming server"},
	{"syncpod/server/inprocess.go", "syncpod/server/proxy.go", `foreign\.`, "refusals of a streaming server in the same process"},
	{"runtime/websocket/handshake.go", "", `io\.LimitReader`, "a client for tests and programs; the server has no use for it"},
	{"modules/csi/driver.go", "", `foreign\.Cut`, "errors of drivers"},
	{"modules/csi/disk.go", "", `foreign\.CutText`, "outputs of programs that read disks"},
	{"modules/devices/plugin.go", "", `shorten\(err\)`, "errors of plugins"},
	{"modules/devices/register.go", "modules/devices/limit.go", `foreign\.Cut`, "it only tests whether a socket is served"},
	{"modules/cluster/certificates/transport.go", "", `utilnet\.SetTransportDefaults`, "the API server is trusted"},
	{"modules/cluster/cmd/podsync-node/address.go", "", `"udp"`, "nothing is sent or received"},
	{"modules/cluster/cmd/podsync-node/userns.go", "", `getsubids|program`, "a program of the administrator"},
}

// opensWay matches the calls and values with which bytes of others enter.
var opensWay = regexp.MustCompile(`^(grpc\.(NewClient|Dial|DialContext)|net\.(Dial|DialTimeout|DialUnix|DialTCP|Dialer)|http\.(Client|Transport|Get|Post|ReadResponse)|exec\.(Command|CommandContext)|tls\.Dial|runtimeapi\.(NewRuntimeServiceClient|NewImageServiceClient))$`)

// opened returns what a file opens.
func opened(f *sourceFile) (names []string) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if pkg, ok := s.X.(*ast.Ident); ok && opensWay.MatchString(pkg.Name+"."+s.Sel.Name) && f.imports()[pkg.Name] != "" {
			names = append(names, pkg.Name+"."+s.Sel.Name)
		}
		return true
	})
	return names
}

// notForeign run or check the library, replace others in tests, or show readers how to use it.
var notForeign = []string{"internal/rig/...", "runtime/cri/critest/...", "examples/...", "modules/cluster/e2e/...", "modules/cluster/clustertest/...", "modules/cluster/internal/fleet/...", "modules/csi/csitest/...", "modules/cluster/cmd/podsync-fleet/..."}

// TestForeignTextsAreBoundedWhereTheyEnter: a file that connects to another program, or runs one, is in the table, and
// what bounds the texts is where the table says. Only package cri makes clients of a runtime, because its connection bounds
// the texts of all calls.
func TestForeignTextsAreBoundedWhereTheyEnter(t *testing.T) {
	used := map[string]bool{}
	for _, f := range moduleSources(t) {
		names := opened(f)
		if f.test() || len(names) == 0 || matchAny(notForeign, f.dir()) {
			continue
		}
		at := slices.IndexFunc(waysIn, func(w wayIn) bool { return w.file == f.path })
		if at < 0 {
			t.Errorf("%s uses %s: bound the texts of the other side with package foreign, and add the file to the table", f.path, strings.Join(names, ", "))
			continue
		}
		used[f.path] = true
		if f.path != "runtime/cri/dial.go" && slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "runtimeapi.") }) {
			t.Errorf("%s makes a client of the runtime: use cri.NewClient, which bounds the texts of its errors", f.path)
		}
	}
	for _, w := range waysIn {
		if !used[w.file] {
			t.Errorf("%s opens nothing: remove it from the table", w.file)
			continue
		}
		in := w.file
		if w.boundedIn != "" {
			in = w.boundedIn
		}
		text, err := os.ReadFile(filepath.Join(root, in))
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(w.bounded).Match(text) {
			t.Errorf("%s: %s has no %s (%s)", w.file, in, w.bounded, w.because)
		}
	}
}

func TestWayInRule(t *testing.T) {
	for src, want := range map[string]int{
		"package p\nimport \"net\"\nvar d = net.Dialer{}":                                                               1,
		"package p\nimport \"google.golang.org/grpc\"\nfunc f() { grpc.NewClient(\"\"); grpc.NewServer() }":             1,
		"package p\nimport \"os/exec\"\nfunc f() { exec.Command(\"a\").Run() }":                                         1,
		"package p\nvar net struct{ Dialer int }\nvar d = net.Dialer":                                                   0,
		"package p\nimport runtimeapi \"k8s.io/cri-api/pkg/apis/runtime/v1\"\nvar c = runtimeapi.NewImageServiceClient": 1,
	} {
		f, err := parseSource("p.go", src)
		if err != nil {
			t.Fatal(err)
		}
		if got := opened(f); len(got) != want {
			t.Errorf("%s: %v, want %d", src, got, want)
		}
	}
}
