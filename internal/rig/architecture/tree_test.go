package architecture

import (
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// top is what may stand at the top of the repository, next to dotfiles.
var top = []string{
	"LICENSE", "README.md", "doc.go", "docs", "go.mod", "go.sum",
	"CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "VERSIONING.md", // where readers and tools look for them
	"actions", "backoff", "examples", "internal", "modules", "podworkers", "runtime", "sandbox", "syncpod",
}

// misplaced returns what else stands at the top, of files given by their paths.
func misplaced(files []string) []string {
	var broken []string
	for _, file := range files {
		first, _, _ := strings.Cut(file, "/")
		if !strings.HasPrefix(first, ".") && !slices.Contains(top, first) {
			broken = append(broken, first+" at the top of the repository: a reader must see the packages there, and little else")
		}
	}
	slices.Sort(broken)
	return slices.Compact(broken)
}

var vague = []string{"common", "helper", "helpers", "misc", "shared", "util", "utils"}

// vaguelyNamed returns the Go files and packages whose name says nothing.
func vaguelyNamed(files []string) []string {
	var broken []string
	for _, file := range files {
		base, isGo := strings.CutSuffix(path.Base(file), ".go")
		if !isGo || strings.Contains(file, "testdata/") {
			continue
		}
		base = strings.TrimSuffix(base, "_test")
		if slices.Contains(vague, base) || slices.Contains(vague, path.Base(path.Dir(file))) {
			broken = append(broken, file+": a name must describe the contents")
		}
	}
	return broken
}

// repositoryFiles are the files that git tracks, so that other
// files of a developer do not count. Without a repository they are all files.
func repositoryFiles(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("git", "-C", root, "ls-files", "-z").Output()
	if files := strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 }); err == nil && slices.Contains(files, "go.mod") {
		return files
	}
	var files []string
	must.Do(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, name)
		files = append(files, filepath.ToSlash(rel))
		return err
	}))
	return files
}

func TestTree(t *testing.T) {
	files := repositoryFiles(t)
	if !slices.Contains(files, "go.mod") {
		t.Errorf("go.mod is not among the %d files of the repository", len(files))
	}
	for _, b := range slices.Concat(misplaced(files), vaguelyNamed(files)) {
		t.Error(b)
	}
}

func TestTreeRules(t *testing.T) {
	for _, tt := range []struct {
		rule  func([]string) []string
		files []string
		want  int
	}{
		{misplaced, []string{"go.mod", "doc.go", ".ci/run", ".gitignore", "docs/a.md", "actions/a.go", "internal/a/a.go", "internal/rig/b/b.go"}, 0},
		{misplaced, []string{"main.go", "Makefile", "pkg/a/a.go", "pkg/b/b.go", "NOTES.md"}, 4},
		{vaguelyNamed, []string{"actions/utility.go", "docs/util.md", "runtime/common.proto", "a/testdata/util.go"}, 0},
		{vaguelyNamed, []string{"actions/util.go", "actions/helpers_test.go", "internal/common/a.go", "internal/utils/utils.go"}, 4},
	} {
		if got := tt.rule(tt.files); len(got) != tt.want {
			t.Errorf("%v: %q, want %d", tt.files, got, tt.want)
		}
	}
}
