package apisurface

import (
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

var identifier = regexp.MustCompile("`(?:\\[\\])?\\*?([a-z]+(?:/[a-z]+)*)\\.([A-Z]\\w*(?:\\.[A-Z]\\w*)*)`")

// missing returns the identifiers in backquotes, of the given packages, that a document
// names and no line is about. A package is named by its path or the last part of it.
func missing(document string, packages, lines []string) []string {
	var names []string
	for _, m := range identifier.FindAllStringSubmatch(document, -1) {
		known := slices.DeleteFunc(slices.Clone(packages), func(p string) bool { return p != m[1] && path.Base(p) != m[1] })
		is := func(line string) bool {
			name, _, _ := strings.Cut(line, " ")
			return slices.ContainsFunc(known, func(p string) bool { return name == p+"."+m[2] })
		}
		if len(known) > 0 && !slices.ContainsFunc(lines, is) {
			names = append(names, m[1]+"."+m[2])
		}
	}
	return names
}

// documents are the pages for users, without the change log, which names removed names.
func documents(t *testing.T) []string {
	t.Helper()
	files := must.Get(filepath.Glob(filepath.Join(root, "docs", "*.md")))(t)
	for _, name := range []string{"README.md", "SECURITY.md", "VERSIONING.md", "CONTRIBUTING.md"} {
		files = append(files, filepath.Join(root, name))
	}
	return files
}

// Documents name only names that exist.
func TestDocumentsNameExistingFiles(t *testing.T) {
	s := public(t)
	var packages []string
	for _, p := range s.packages {
		packages = append(packages, strings.TrimPrefix(p.ImportPath, "github.com/podsync/podsync/"))
	}
	for _, file := range documents(t) {
		for _, name := range missing(read(t, file), packages, s.lines) {
			t.Errorf("%s names %s, which is not there", file, name)
		}
	}
}

func TestMissing(t *testing.T) {
	packages, lines := []string{"runtime", "runtime/cri"}, []string{"runtime/cri.Config type struct", "runtime/cri.Config.Endpoint field string", "runtime.ID type string"}
	for document, want := range map[string]string{
		"`cri.Config.Endpoint`, `runtime/cri.Config` and `*runtime.ID`": "",
		"`cri.Config.Endpont` and `runtime.Config`":                     "cri.Config.Endpont runtime.Config",
		"cri.Nothing, `v1.Pod`, `cri.go`, `Config.None`":                "",
	} {
		if got := strings.Join(missing(document, packages, lines), " "); got != want {
			t.Errorf("%s: %q, want %q", document, got, want)
		}
	}
}
