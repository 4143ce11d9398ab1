package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	testName = regexp.MustCompile("`(Test\\w+)`")
	rowName  = regexp.MustCompile(`(?m)^\| ([A-Z][0-9]+)(?:, ([A-Z][0-9]+))? \|`)
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

func hasRow(test, row string) bool { return strings.HasPrefix(test, "Test"+row+"_") }

func testNames(t *testing.T) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
