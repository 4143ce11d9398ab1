package documents

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// root is the absolute path of the repository.
func root(t *testing.T) string {
	t.Helper()
	dir := must.Get(filepath.Abs(filepath.Join("..", "..", "..")))(t)
	return dir
}

// documents returns the text of each Markdown file, by its path in the repository.
func documents(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	files := os.DirFS(root(t))
	must.Do(t, fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(name) != ".md" {
			return err
		}
		text, err := fs.ReadFile(files, name)
		all[name] = string(text)
		return err
	}))
	if len(all) < 20 {
		t.Fatalf("%d documents, want at least 20", len(all))
	}
	return all
}

func TestLinks(t *testing.T) {
	all := documents(t)
	links := 0
	for name, text := range all {
		for _, l := range Links(text) {
			links++
			target := name
			if l.File != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(name), l.File))
			}
			if _, err := os.Stat(filepath.Join(root(t), target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, l.File)
				continue
			}
			if l.Anchor != "" && !Anchors(all[target])[l.Anchor] {
				t.Errorf("%s links to %s#%s, and %s has no such heading", name, l.File, l.Anchor, target)
			}
		}
	}
	if links < 100 {
		t.Errorf("%d links, want at least 100", links)
	}
}

// Each document is reachable from README by links of documents.
func TestReachable(t *testing.T) {
	all := documents(t)
	reached := map[string]bool{}
	var visit func(string)
	visit = func(name string) {
		if reached[name] {
			return
		}
		reached[name] = true
		for _, l := range Links(all[name]) {
			if target := filepath.ToSlash(filepath.Join(filepath.Dir(name), l.File)); l.File != "" {
				if _, isDir := all[target+"/README.md"]; isDir {
					target += "/README.md"
				}
				if _, known := all[target]; known {
					visit(target)
				}
			}
		}
	}
	visit("README.md")
	for name := range all {
		if !reached[name] && !strings.HasPrefix(name, "internal/") {
			t.Errorf("no link leads from README to %s", name)
		}
	}
}

// The Go code of all documents compiles.
func TestCode(t *testing.T) {
	names := must.Get(Packages(root(t)))(t)
	blocks, packages := 0, map[string][]Package{}
	for name, text := range documents(t) {
		var whole Package
		for _, b := range Blocks(name, text) {
			blocks++
			if err := b.Formatted(); err != nil {
				t.Errorf("%s:%d: %v", name, b.Line, err)
			}
			source, err := b.Source(names)
			switch {
			case err != nil:
				t.Errorf("%s:%d: %v", name, b.Line, err)
			case b.Whole():
				whole = append(whole, source)
			default:
				dir := moduleOf(source)
				packages[dir] = append(packages[dir], Package{source})
			}
		}
		if whole != nil {
			packages["."] = append(packages["."], whole)
		}
	}
	if blocks < 15 {
		t.Errorf("%d blocks of Go code, want at least 15", blocks)
	}
	for dir, all := range packages {
		if dir != "." && os.Getenv("PODSYNC_DOCUMENTS") != "all" {
			continue // compiles only with the dependencies of that module
		}
		if err := Compile(root(t), dir, all, t.TempDir()); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestAnchors(t *testing.T) {
	got := Anchors("# A `b.C` of [it](x.md)!\n\n```\n# no\n```\n## Twice\n## Twice\n### 3. It ends, and why?\n")
	for _, want := range []string{"a-bc-of-it", "twice", "twice-1", "3-it-ends-and-why"} {
		if !got[want] {
			t.Errorf("no anchor %q in %v", want, got)
		}
	}
	if got["no"] {
		t.Error("a comment in code is a heading")
	}
}

func TestSource(t *testing.T) {
	packages := map[string]string{"fmt": "fmt", "context": "context"}
	for text, want := range map[string]bool{
		"package p\n":                      true,
		"func f() { fmt.Println(ctx) }":    true,
		"x := 1\nfmt.Println(ctx)":         true,
		"return ctx.Err()":                 true,
		"fmt.Println(":                     false,
		"Field: 1,":                        false,
		"fmt.Printn(1)":                    false,
		"unknown.Call()":                   false,
		"func f() { var x int = \"text\"}": false,
	} {
		source, err := Block{File: "x.md", Line: 7, Text: text}.Source(packages)
		if err == nil {
			err = Compile(root(t), ".", []Package{{source}}, t.TempDir())
		}
		if compiles := err == nil; compiles != want {
			t.Errorf("%q compiles: %t, want %t: %v", text, compiles, want, err)
		}
		if err != nil && text == "fmt.Printn(1)" && !strings.Contains(err.Error(), "x.md:8") {
			t.Errorf("the error does not name the line: %v", err)
		}
	}
}
