package architecture

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"testing"
)

// pure are the packages whose code decides or builds, and does nothing.
var pure = []string{"actions", "backoff", "podworkers", "runtime", "runtime/foreign", "sandbox", "syncpod/container", "sandbox/run", "syncpod/status", "syncpod/cgroup", "syncpod/cpu", "syncpod/eviction", "syncpod/memory", "syncpod/lifecycle", "syncpod/podspec/qos", "syncpod/resize", "syncpod/numamemory", "syncpod/shutdown", "syncpod/topology", "runtime/logs/rotate", "internal/jitter", "internal/linux"}

// edges are the files of pure packages that carry out the decisions of the other files.
var edges = map[string]string{
	"podworkers/desired.go":              "passes the pods of a source to the Workers, under a lock",
	"podworkers/workers.go":              "holds the lock, and gives each busy pod a goroutine",
	"podworkers/workers_ask.go":          "reads the shared Set under a lock",
	"podworkers/workers_config.go":       "takes a log",
	"podworkers/workers_drain.go":        "waits for all pods to stop",
	"podworkers/workers_job.go":          "calls the Syncer",
	"podworkers/workers_kill.go":         "waits for a pod to stop",
	"podworkers/workers_scheduler.go":    "holds the context of all work",
	"podworkers/workers_syncer.go":       "declares the interface whose methods take a context",
	"podworkers/workers_timers.go":       "wakes up when something is due",
	"podworkers/workers_work.go":         "makes the context of one work",
	"runtime/foreign/error.go":           "names well-known errors of packages that act",
	"runtime/cache.go":                   "lets a caller wait for a newer status",
	"runtime/logs/rotate/compress.go":    "compresses a file",
	"runtime/logs/rotate/files.go":       "renames and removes files as decided",
	"runtime/logs/rotate/owner_other.go": "replaces owner_unix.go on other platforms",
	"runtime/logs/rotate/owner_unix.go":  "reads the owner of a directory",
	"runtime/logs/rotate/rotator.go":     "lists logs, and lets the runtime reopen them",
	"sandbox/run/create.go":              "creates a sandbox over CRI",
	"sandbox/sandbox.go":                 "declares the interface that resolves runtime classes",
	"sandbox/handler.go":                 "reads the runtime handler of a class",
	"sandbox/run/runner.go":              "runs sandboxes over CRI",
	"sandbox/run/stop.go":                "stops and removes a sandbox over CRI",
	"syncpod/cpu/sysfs.go":               "reads the machine from sysfs",
	"syncpod/lifecycle/clear.go":         "stops the containers of a plan at once",
	"syncpod/lifecycle/container.go":     "stops a container over CRI",
	"syncpod/lifecycle/pod.go":           "stops the containers and the sandboxes of a pod",
	"syncpod/lifecycle/prestop.go":       "runs preStop handlers",
	"syncpod/lifecycle/stopper.go":       "calls the runtime",
	"syncpod/numamemory/sysfs.go":        "reads the machine from sysfs",
	"syncpod/topology/sysfs.go":          "reads the machine from sysfs",
	"syncpod/resize/allocator.go":        "stores allocated resources in files",
}

// impureImports are the imports that pure code must not have.
var impureImports = []struct {
	patterns []string
	because  string
}{
	{[]string{"context"}, "a decision does not wait"},
	{[]string{"os/...", "syscall/...", "io/fs", "golang.org/x/sys/..."}, "values that are read from the node are arguments"},
	{[]string{"net", "net/http/...", "net/rpc/...", "net/smtp", "google.golang.org/grpc/..."}, "a decision makes no call"},
	{[]string{"log/...", "github.com/go-logr/...", "k8s.io/klog/..."}, "a decision does not log: the result has all details"},
	{[]string{"math/rand/...", "crypto/rand", "k8s.io/apimachinery/pkg/util/rand", "k8s.io/apimachinery/pkg/util/uuid"}, "the same input gives the same result"},
	{[]string{"sync/...", "k8s.io/apimachinery/pkg/util/wait"}, "nothing is shared between goroutines"},
	{[]string{"k8s.io/utils/clock/..."}, "now is an argument"},
}

// impureNames are names that pure code must not use, of packages that it may import.
var impureNames = []struct {
	from    string
	names   []string
	because string
}{
	{"time", []string{"Now", "Since", "Until"}, "now is an argument"},
	{"time", []string{"After", "AfterFunc", "NewTicker", "NewTimer", "Sleep", "Tick"}, "a decision does not wait"},
	{"time", []string{"Local", "LoadLocation"}, "the result must not depend on the node's time zone"},
	{"k8s.io/apimachinery/pkg/apis/meta/v1", []string{"Now", "NowMicro"}, "now is an argument"},
	{"fmt", []string{"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"}, "a decision is a value; its caller prints it"},
}

// impurities returns what keeps a file from being pure.
func impurities(f *sourceFile) []string {
	broken := variables(f, sentinel, "a package-level variable is state that no argument shows")
	for _, spec := range f.ast.Imports {
		broken = append(broken, impureImport(f, spec)...)
	}
	names := f.imports()
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			broken = append(broken, f.broken(n, "go statement", "a decision is made when the call returns"))
		case *ast.ChanType:
			broken = append(broken, f.broken(n, "channel", "a decision is made when the call returns"))
		case *ast.SelectorExpr:
			broken = append(broken, impureName(f, n, names)...)
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "print" || id.Name == "println") {
				broken = append(broken, f.broken(n, id.Name, "it writes to standard error"))
			}
		}
		return true
	})
	return broken
}

func impureImport(f *sourceFile, spec *ast.ImportSpec) []string {
	imported, _ := strconv.Unquote(spec.Path.Value)
	if spec.Name != nil && spec.Name.Name == "." {
		return []string{f.broken(spec, "import . "+imported, "what comes from where must be seen")}
	}
	for _, i := range impureImports {
		if matchAny(i.patterns, imported) {
			return []string{f.broken(spec, "import of "+imported, i.because)}
		}
	}
	return nil
}

func impureName(f *sourceFile, s *ast.SelectorExpr, imports map[string]string) []string {
	id, ok := s.X.(*ast.Ident)
	if !ok {
		return nil
	}
	for _, i := range impureNames {
		if imports[id.Name] == i.from && slices.Contains(i.names, s.Sel.Name) {
			return []string{f.broken(s, id.Name+"."+s.Sel.Name, i.because)}
		}
	}
	return nil
}

// variables returns the package-level variables that are not of an allowed form.
func variables(f *sourceFile, allowed func(name string, value ast.Expr) bool, because string) []string {
	var broken []string
	for _, d := range f.ast.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, s := range g.Specs {
			spec := s.(*ast.ValueSpec)
			for i, name := range spec.Names {
				var value ast.Expr
				if len(spec.Values) == len(spec.Names) {
					value = spec.Values[i]
				}
				if name.Name != "_" && !allowed(name.Name, value) {
					broken = append(broken, f.broken(name, "var "+name.Name, because))
				}
			}
		}
	}
	return broken
}

// sentinel is true of an error to compare with.
func sentinel(_ string, value ast.Expr) bool {
	call, ok := value.(*ast.CallExpr)
	return ok && calls(call, "errors", "New")
}

func calls(call *ast.CallExpr, pkg, name string) bool {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	id, ok := s.X.(*ast.Ident)
	return ok && id.Name == pkg
}

func TestPureCode(t *testing.T) {
	found := map[string]int{}
	for _, f := range moduleSources(t) {
		if f.test() || !slices.Contains(pure, f.dir()) {
			continue
		}
		found[f.dir()]++
		broken := impurities(f)
		switch edge := edges[f.path]; {
		case edge != "" && len(broken) == 0:
			t.Errorf("%s is listed as an edge (%q), but it is pure: take it from the list", f.path, edge)
		case edge == "":
			for _, b := range broken {
				t.Error(b)
			}
		}
	}
	for _, dir := range []string{"actions", "backoff", "podworkers", "runtime", "sandbox", "syncpod/status", "syncpod/container"} {
		if found[dir] < 2 {
			t.Errorf("%d files of %s were looked at, there must be more", found[dir], dir)
		}
	}
}

func TestPureRule(t *testing.T) {
	for _, tt := range []struct {
		name, src string
		want      []string
	}{
		{"clean", `import ("errors"; "time"; "net/netip"; "io")
			var ErrA, errB = errors.New("a"), errors.New("b")
			var _ io.Reader = (*T)(nil)
			type T struct{}
			func (T) Read(p []byte) (int, error) { t := time.Unix(0, 0).Add(time.Second); _ = t.After(t); return 0, nil }
			func Addr() netip.Addr { return netip.Addr{} }`, nil},
		{"context", `import "context"`, []string{"p/p.go:2: import of context: a decision does not wait"}},
		{"files", `import "os/exec"`, []string{"p/p.go:2: import of os/exec: values that are read from the node are arguments"}},
		{"log", `import "log/slog"`, []string{"p/p.go:2: import of log/slog: a decision does not log: the result has all details"}},
		{"network", `import "net"`, []string{"p/p.go:2: import of net: a decision makes no call"}},
		{"random", `import "math/rand/v2"`, []string{"p/p.go:2: import of math/rand/v2: the same input gives the same result"}},
		{"locks", `import "sync/atomic"`, []string{"p/p.go:2: import of sync/atomic: nothing is shared between goroutines"}},
		{"dot", `import . "time"`, []string{"p/p.go:2: import . time: what comes from where must be seen"}},
		{"clock", `import "time"; var _ = time.Now().Unix()`, []string{"p/p.go:2: time.Now: now is an argument"}},
		{"clock under another name", `import clock "time"; func f() { clock.Sleep(1) }`, []string{"p/p.go:2: clock.Sleep: a decision does not wait"}},
		{"clock as a value", `import "time"; func f() { g(time.After) }`, []string{"p/p.go:2: time.After: a decision does not wait"}},
		{"clock of apimachinery", `import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"; var _ = metav1.Now()`, []string{"p/p.go:2: metav1.Now: now is an argument"}},
		{"zone", `import "time"; func f(t time.Time) { t.In(time.Local) }`, []string{"p/p.go:2: time.Local: the result must not depend on the node's time zone"}},
		{"output", `import "fmt"; func f() { fmt.Println(); println() }`, []string{
			"p/p.go:2: fmt.Println: a decision is a value; its caller prints it", "p/p.go:2: println: it writes to standard error",
		}},
		{"goroutine", `func f() { go f() }`, []string{"p/p.go:2: go statement: a decision is made when the call returns"}},
		{"channel", `func f(c chan<- int) {}`, []string{"p/p.go:2: channel: a decision is made when the call returns"}},
		{"variables", `var a int; var b = map[string]int{}; var c, _ = f()`, []string{
			"p/p.go:2: var a: a package-level variable is state that no argument shows",
			"p/p.go:2: var b: a package-level variable is state that no argument shows",
			"p/p.go:2: var c: a package-level variable is state that no argument shows",
		}},
		{"a variable in a function", `func f() { var a int; _ = a }`, nil},
		{"a constant", `const a = 1`, nil},
	} {
		if got := impurities(sourceOf(t, "package p\n"+tt.src)); !slices.Equal(got, tt.want) {
			t.Errorf("%s:\n%q, want\n%q", tt.name, got, tt.want)
		}
	}
}

func TestPackageName(t *testing.T) {
	for imported, want := range map[string]string{
		"time": "time", "math/rand/v2": "rand", "k8s.io/klog/v2": "klog", "a.io/v1/vx": "vx", "a.io/v": "v",
		"k8s.io/apimachinery/pkg/apis/meta/v1": "meta",
	} {
		if got := packageName(imported); got != want {
			t.Errorf("%s: %s, want %s", imported, got, want)
		}
	}
}
