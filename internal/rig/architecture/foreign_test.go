package architecture

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
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
	{"modules/csi/registration/registration.go", "", `foreign\.Cut`, "errors of plugins that register; packages csi and dra bound those of drivers"},
	{"modules/csi/disk.go", "", `foreign\.CutText`, "outputs of programs that read disks"},
	{"modules/devices/plugin.go", "", `shorten\(err\)`, "errors of plugins"},
	{"modules/devices/register.go", "modules/devices/limit.go", `foreign\.Cut`, "it only tests whether a socket is served"},
	{"modules/systemd/systemd.go", "", `connection to D-Bus`, "systemd and logind are trusted, and messages of others are dropped"},
	{"modules/cluster/certificates/transport.go", "", `utilnet\.SetTransportDefaults`, "the API server is trusted"},
	{"modules/cluster/cmd/podsync-node/address.go", "", `"udp"`, "nothing is sent or received"},
	{"modules/cluster/cmd/podsync-node/userns.go", "", `getsubids|program`, "a program of the administrator"},
}

// opensWay matches the calls and values with which bytes of others enter.
var opensWay = regexp.MustCompile(`^(grpc\.(NewClient|Dial|DialContext)|net\.(Dial|DialTimeout|DialUnix|DialTCP|Dialer)|http\.(Client|Transport|Get|Post|ReadResponse)|exec\.(Command|CommandContext)|tls\.(Dial|Client)|dbus\.(Dial|SystemBusPrivate)|runtimeapi\.(NewRuntimeServiceClient|NewImageServiceClient))$`)

// plainErrors maps functions of these files that format an error as it is to the reason why that has no text of others.
var plainErrors = map[string]string{
	"runtime/cri/dial.go:Dial":                                  "the connection bounds errors of calls",
	"runtime/cri/dial.go:readVersion":                           "the connection bounds errors of calls",
	"runtime/websocket/handshake.go:Accept":                     "it has the protocols of the caller",
	"syncpod/probe/grpc.go:grpc":                                "the address of the pod is invalid",
	"syncpod/lifecycle/handler/hook.go:Run":                     "http.go and package cri bound it",
	"syncpod/lifecycle/handler/http.go:send":                    "a dial that fails has the text of the system",
	"syncpod/server/proxy.go:holdRefusal":                       "only the log has it, which is bounded",
	"modules/csi/disk.go:makeFS":                                "a file of the node",
	"modules/csi/disk.go:run":                                   "the status of the program, whose output is bounded beside it",
	"modules/csi/registration/registration.go:Run":              "a directory of the node",
	"modules/csi/registration/registration.go:register":         "the system's error about a path that has at most 107 bytes",
	"modules/csi/registration/registration.go:shorten":          "it bounds the text",
	"modules/devices/limit.go:shorten":                          "it bounds the text",
	"modules/devices/plugin.go:dial":                            "the system's error about a path of the node",
	"modules/devices/plugin.go:disconnect":                      "watch has bounded it",
	"modules/devices/register.go:serve":                         "errors of listening",
	"modules/devices/register.go:listen":                        "files of the node",
	"modules/devices/register.go:notServed":                     "the system's error about a path of the node",
	"modules/devices/register.go:Register":                      "the answer to the plugin, whose texts are bounded in it",
	"modules/systemd/systemd.go:dial":                           "systemd and logind are trusted",
	"modules/cluster/cmd/podsync-node/address.go:findAddress":   "the system's error",
	"modules/cluster/cmd/podsync-node/userns.go:namespaces":     "the configuration of the node",
	"modules/cluster/cmd/podsync-node/userns.go:subordinateIDs": "the status of the program",
}

// formatted returns the functions of a file that format an error as it is, with a call such as fmt.Errorf("%w", err).
func formatted(f *sourceFile) (functions []string) {
	for _, decl := range f.ast.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if ok && formats(call) && !slices.Contains(functions, fn.Name.Name) {
				functions = append(functions, fn.Name.Name)
			}
			return true
		})
	}
	return functions
}

// formats reports whether a call formats an error that no function has bounded.
func formats(call *ast.CallExpr) bool {
	name := ""
	switch f := call.Fun.(type) {
	case *ast.Ident:
		name = f.Name
	case *ast.SelectorExpr:
		name = f.Sel.Name
		if of, ok := f.X.(*ast.Ident); ok && name == "Error" && len(call.Args) == 0 && isError(of) {
			return true
		}
	}
	return slices.Contains([]string{"Errorf", "Join", "failed", "Sprint", "Sprintf", "New"}, name) && slices.ContainsFunc(call.Args, isError)
}

func isError(x ast.Expr) bool {
	of, ok := x.(*ast.Ident)
	return ok && slices.Contains([]string{"err", "cause", "failure"}, of.Name)
}

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
	used, found := map[string]bool{}, map[string]bool{}
	sources := moduleSources(t)
	for _, f := range sources {
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
		for _, f := range sources {
			if f.path != w.file && f.path != in {
				continue
			}
			for _, fn := range formatted(f) {
				if key := f.path + ":" + fn; plainErrors[key] == "" {
					t.Errorf("%s formats an error as it is: bound its text with package foreign, or add the function with a reason", key)
				}
				found[f.path+":"+fn] = true
			}
		}
		text := must.Get(os.ReadFile(filepath.Join(root, in)))(t)
		if !regexp.MustCompile(w.bounded).Match(text) {
			t.Errorf("%s: %s has no %s (%s)", w.file, in, w.bounded, w.because)
		}
	}
	for key := range plainErrors {
		if !found[key] {
			t.Errorf("%s formats no error as it is: remove it from the table", key)
		}
	}
}

func TestFormattedErrorsRule(t *testing.T) {
	for body, want := range map[string]bool{
		`return fmt.Errorf("%w: %w", ErrNoAnswer, err)`: true, `return failed("%v", err)`: true, `return errors.New(err.Error())`: true, `return errors.Join(err, c.Close())`: true,
		`return fmt.Errorf("%w", systemError(err, "x"))`: false, `return foreign.Error(err)`: false, `return failed("%v", status.Code(err))`: false,
	} {
		f := must.Get(parseSource("p.go", "package p\nfunc f() error { "+body+" }"))(t)
		if got := len(formatted(f)) > 0; got != want {
			t.Errorf("%s: %v, want %v", body, got, want)
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
		f := must.Get(parseSource("p.go", src))(t)
		if got := opened(f); len(got) != want {
			t.Errorf("%s: %v, want %d", src, got, want)
		}
	}
}
