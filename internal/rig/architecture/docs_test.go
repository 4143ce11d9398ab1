package architecture

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

var (
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	testName = regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
	// fuzzTarget is a target in a document, with the directory of its package.
	fuzzTarget = regexp.MustCompile("`(Fuzz\\w+)` \\(([\\w./]+)\\)")
	rowName    = regexp.MustCompile(`(?m)^\| ([A-Z][0-9]+)(?:, ([A-Z][0-9]+))? \|`)
)

// TestDocsNameTests holds the documents to what they promise: a deviation is shown
// by the test that its row names, and each failure has tests with its name.
func TestDocsNameTests(t *testing.T) {
	tests := testNames(t)
	for _, m := range testName.FindAllStringSubmatch(read(t, "docs/PARITY.md"), -1) {
		if !slices.Contains(tests, m[1]) {
			t.Errorf("docs/PARITY.md names %s, which is not there", m[1])
		}
	}
	rows := rowName.FindAllStringSubmatch(read(t, "docs/FAILURES.md"), -1)
	if len(rows) < 50 {
		t.Errorf("docs/FAILURES.md has %d rows", len(rows))
	}
	for _, m := range rows {
		if !slices.ContainsFunc(tests, func(name string) bool { return hasRow(name, m[1]) || m[2] != "" && hasRow(name, m[2]) }) {
			t.Errorf("docs/FAILURES.md has the row %s, and no test has its name", m[1])
		}
	}
}

// boundsPath is a file or directory of the repository in docs/BOUNDS.md.
var boundsPath = regexp.MustCompile("`((?:internal|modules|runtime|sandbox|syncpod)/[\\w./-]+)`")

// TestBoundsNameFiles: the files of docs/BOUNDS.md exist.
func TestBoundsNameFiles(t *testing.T) {
	paths := boundsPath.FindAllStringSubmatch(read(t, "docs/BOUNDS.md"), -1)
	if len(paths) < 40 {
		t.Errorf("docs/BOUNDS.md has %d paths", len(paths))
	}
	for _, m := range paths {
		if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
			t.Errorf("docs/BOUNDS.md: %v", err)
		}
	}
}

// opensFile matches a line of code that opens or reads a file, and readsAll one that reads to the end of a file or an answer.
var (
	opensFile = regexp.MustCompile(`\bos\.(Open|ReadFile)\(|\bhostfs\.(Read|Open)(Path)?\(|\bsyscall\.Open\(|\b(os|root|dir|mount|machine|in|inside|f|links)\.Open(File)?\(|\bReadFile\(`)
	readsAll  = regexp.MustCompile(`\bio\.ReadAll\(|\bos\.ReadFile\(|\.ReadDir\((-1|0)\)|\.Readdirnames\((-1|0)\)`)
)

// unlistedReads are the files that open files and are not in docs/BOUNDS.md, with the reason.
var unlistedReads = map[string]string{
	"runtime/hostfs/durable.go":                        "it creates the file that it opens",
	"runtime/hostfs/sync.go":                           "it opens a directory, and reads nothing",
	"runtime/hostfs/open_linux.go":                     "the type is checked by its callers' descriptor",
	"runtime/hostfs/open_other.go":                     "the type is checked by its callers' descriptor",
	"runtime/hostfs/regular.go":                        "names of a directory; the page has its callers",
	"modules/csi/local.go":                             "it creates the file that it opens",
	"modules/cluster/cmd/podsync-fleet/shapes.go":      "the program simulates nodes, and its user chooses the file",
	"modules/cluster/cmd/podsync-fleet/usage_linux.go": "the program simulates nodes, and the file is the kernel's",
	"modules/cluster/clustertest/apply.go":             "it is for tests",
	"modules/cluster/e2e/results/main.go":              "it is for tests",
	"runtime/cri/pipe_windows.go":                      "it connects to the runtime",
}

// TestReadsAreListed checks that docs/BOUNDS.md lists each file of the library and of podsync-node that opens files, and that no such
// file reads anything without a bound.
func TestReadsAreListed(t *testing.T) {
	page, opening := read(t, "docs/BOUNDS.md"), 0
	var listed []string
	for _, m := range boundsPath.FindAllStringSubmatch(page, -1) {
		listed = append(listed, m[1])
	}
	for _, name := range libraryFiles(t) {
		opens := false
		for line := range strings.Lines(read(t, name)) {
			line, _, _ = strings.Cut(line, "//")
			opens = opens || opensFile.MatchString(line) && !strings.Contains(line, `.Open(".")`)
			bounded := strings.Contains(line, "io.LimitReader(") || strings.Contains(line, "io.NewSectionReader(")
			if readsAll.MatchString(line) && !bounded && unlistedReads[name] == "" {
				t.Errorf("%s reads without a bound: %s", name, strings.TrimSpace(line))
			}
		}
		if !opens {
			continue
		}
		opening++
		if !slices.Contains(listed, name) && !slices.Contains(listed, path.Dir(name)) && unlistedReads[name] == "" {
			t.Errorf("docs/BOUNDS.md lists neither %s nor its directory", name)
		}
	}
	if opening < 40 {
		t.Errorf("%d files open files", opening)
	}
	for name := range unlistedReads {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Error(err)
		}
	}
}

// libraryFiles returns the files of the library and of podsync-node: neither tests, nor examples, nor runtimes and drivers in memory.
func libraryFiles(t *testing.T) (names []string) {
	t.Helper()
	for _, top := range []string{"actions", "backoff", "internal", "modules", "podworkers", "runtime", "sandbox", "syncpod"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && slices.Contains([]string{"critest", "csitest", "dratest", "csidriver", "testdata", "tracked", "hours", "rig"}, d.Name()) {
				return filepath.SkipDir
			}
			if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				name, err := filepath.Rel(root, path)
				names = append(names, filepath.ToSlash(name))
				return err
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return names
}

// TestProofNamesFuzzTargets: the table of fuzz targets names exactly those that exist, by package. A parser without a
// target is a row that is missing.
func TestProofNamesFuzzTargets(t *testing.T) {
	const table = "docs/results/fuzz-targets.txt"
	var named, targets []string
	for _, m := range fuzzTarget.FindAllStringSubmatch(read(t, table), -1) {
		named = append(named, m[1]+" of "+m[2])
	}
	for _, test := range allTests(t) {
		if strings.HasPrefix(test.name, "Fuzz") {
			targets = append(targets, test.name+" of "+test.dir)
		}
	}
	if len(targets) < 40 {
		t.Errorf("%d fuzz targets are found", len(targets))
	}
	for _, name := range named {
		if !slices.Contains(targets, name) {
			t.Errorf("%s names %s, which does not exist", table, name)
		}
	}
	for _, name := range targets {
		if !slices.Contains(named, name) {
			t.Errorf("%s does not name %s", table, name)
		}
	}
}

// manyFiles is the number of files from which on the doc.go of a package must list its files, so that a reader
// finds the file of each rule.
const manyFiles = 8

var fileName = regexp.MustCompile(`[a-z0-9_*]+\.go\b`)

// mapFaults returns the errors in a package's list of files in doc.go. A doc.go that names no file has no list.
func mapFaults(doc string, files []string) []string {
	names := slices.DeleteFunc(fileName.FindAllString(doc, -1), func(name string) bool { return strings.HasSuffix(name, "_test.go") })
	if len(names) == 0 && len(files) < manyFiles {
		return nil
	}
	var broken []string
	stands := func(name, file string) bool { ok, _ := path.Match(name, file); return ok }
	for _, file := range files {
		if file != "doc.go" && !slices.ContainsFunc(names, func(name string) bool { return stands(name, file) }) {
			broken = append(broken, "does not describe "+file)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(files, func(file string) bool { return stands(name, file) }) {
			broken = append(broken, "names "+name+", which is not there")
		}
	}
	return broken
}

func TestDocsNameFiles(t *testing.T) {
	files := map[string][]string{}
	for _, f := range moduleSources(t) {
		if !f.test() && matchAny(library, f.dir()) {
			files[f.dir()] = append(files[f.dir()], path.Base(f.path))
		}
	}
	for dir, names := range files {
		if !slices.Contains(names, "doc.go") {
			continue
		}
		for _, b := range mapFaults(read(t, path.Join(dir, "doc.go")), names) {
			t.Errorf("%s/doc.go %s", dir, b)
		}
	}
}

func TestMapRule(t *testing.T) {
	for _, tt := range []struct {
		doc, files string
		want       int
	}{
		{"no map", "doc.go a.go", 0},
		{"no map", "doc.go a.go b.go c.go d.go e.go f.go g.go", 7},
		{"a.go, b_*.go", "doc.go a.go b_linux.go b_other.go", 0},
		{"a.go", "doc.go a.go b.go", 1},
		{"a.go, b.go", "doc.go a.go", 1},
		{"a.go, and a_test.go", "doc.go a.go", 0},
	} {
		if got := mapFaults(tt.doc, strings.Fields(tt.files)); len(got) != tt.want {
			t.Errorf("%q of %s: %q, want %d", tt.doc, tt.files, got, tt.want)
		}
	}
}

func hasRow(test, row string) bool { return strings.HasPrefix(test, "Test"+row+"_") }

func testNames(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, test := range allTests(t) {
		names = append(names, test.name)
	}
	return names
}

// A testFunction is a test or a fuzz target, with the directory of its package.
type testFunction struct{ name, dir string }

// allTests returns those of all modules.
func allTests(t *testing.T) []testFunction {
	t.Helper()
	var all []testFunction
	must.Do(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		dir, _ := filepath.Rel(root, filepath.Dir(path)) // both are below root
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			all = append(all, testFunction{m[1], filepath.ToSlash(dir)})
		}
		return err
	}))
	return all
}

func read(t *testing.T, name string) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(root, name)))(t)
	return string(text)
}
