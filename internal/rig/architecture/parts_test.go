package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// partRow is a row of docs/PARTS.md: its package, its names and, in the first table, its example, and what an import links:
// packages, modules, and whether gRPC.
var partRow = regexp.MustCompile("(?m)^\\|[^|`]*\\| `([a-z/]+)` \\| ((?:`[\\w.]+`(?:, )?)+) \\|(?: `(Example\\w*)` \\| (\\d+ \\| \\d+) \\| (yes|no) \\|)?$")

var partName = regexp.MustCompile("`([\\w.]+)`")

// TestPartsAreThere: docs/PARTS.md names packages, exported names and examples that exist, and says what each package links.
func TestPartsAreThere(t *testing.T) {
	g := moduleGraph(t)
	exported := map[string]bool{}
	for line := range strings.Lines(read(t, "docs/api/next.txt")) {
		name, _, _ := strings.Cut(line, " ")
		exported[name] = true
	}
	adds := read(t, "docs/results/imports.txt")
	rows := partRow.FindAllStringSubmatch(read(t, "docs/PARTS.md"), -1)
	if first := len(partRow.FindAllString(strings.SplitN(read(t, "docs/PARTS.md"), "## The functions that articles", 2)[0], -1)); first != 25 || len(rows) < 60 {
		t.Errorf("docs/PARTS.md has %d rows, %d of them in the first table: want at least 60, and 25", len(rows), first)
	}
	for _, row := range rows {
		pkg, names, example, counts, grpc := row[1], row[2], row[3], row[4], row[5]
		for _, name := range partName.FindAllStringSubmatch(names, -1) {
			if !exported[pkg+"."+name[1]] {
				t.Errorf("docs/PARTS.md: %s does not export %s", pkg, name[1])
			}
		}
		if grpc == "" {
			continue
		}
		links := "no"
		for _, p := range g.closure([]string{module + "/" + pkg}) {
			if strings.HasPrefix(p.ImportPath, "google.golang.org/grpc") {
				links = "yes"
			}
		}
		if links != grpc {
			t.Errorf("docs/PARTS.md: %s links gRPC: %s, and the page says %s", pkg, links, grpc)
		}
		if !strings.Contains(adds, "| `"+pkg+"` | "+counts+" |") {
			t.Errorf("docs/PARTS.md: %s links %s, and docs/results/imports.txt says otherwise", pkg, counts)
		}
		if !hasFunction(t, pkg, example) {
			t.Errorf("docs/PARTS.md: %s has no %s", pkg, example)
		}
	}
}

// hasFunction reports whether the tests of a package declare a function.
func hasFunction(t *testing.T, pkg, name string) bool {
	t.Helper()
	files := must.Get(filepath.Glob(filepath.Join(root, pkg, "*_test.go")))(t)
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		if strings.Contains(string(text), "\nfunc "+name+"()") {
			return true
		}
	}
	return false
}
