package reports

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The areas of reports.
var areas = []string{
	"lifecycle", "probes", "hooks", "status", "init", "resize", "images", "logs", "volumes", "restarts",
	"clocks", "static pods", "configuration", "streaming", "stats", "eviction", "devices", "shutdown",
}

var (
	referenceForm = regexp.MustCompile(`^[\w.-]+/[\w.-]+#[0-9]+$`)
	// passes: the test passed when it was written. mended: it failed, and passes since. Other verdicts have a reason.
	verdictForm = regexp.MustCompile(`^(passes|mended|fails: .+|not applicable: .+)$`)
	testForm    = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
)

// Each report has a reference of its own, an area, its mechanism, the right behaviour, a verdict and a test that exists.
func TestReportsAreComplete(t *testing.T) {
	tests := declared(t)
	text, err := os.ReadFile("reports.tsv")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if want := "reference\tarea\tmechanism\tright\tverdict\ttest"; lines[0] != want {
		t.Errorf("the first line is %q, want %q", lines[0], want)
	}
	seen := map[string]bool{}
	for i, line := range lines[1:] {
		fields := strings.Split(line, "\t")
		if len(fields) != 6 || slices.Contains(fields, "") {
			t.Errorf("line %d: want six fields, none of them empty: %q", i+2, line)
			continue
		}
		reference, area, verdict, test := fields[0], fields[1], fields[4], fields[5]
		if !referenceForm.MatchString(reference) || seen[reference] {
			t.Errorf("line %d: reference %q is malformed, or not the first", i+2, reference)
		}
		seen[reference] = true
		if !slices.Contains(areas, area) {
			t.Errorf("line %d: area %q is not known", i+2, area)
		}
		if !verdictForm.MatchString(verdict) {
			t.Errorf("line %d: verdict %q is not known", i+2, verdict)
		}
		if tests[test] != 1 && !(test == "-" && !strings.HasPrefix(verdict, "passes") && verdict != "mended") {
			t.Errorf("line %d: %d tests are called %q, want one", i+2, tests[test], test)
		}
	}
}

// declared counts the tests of the repository by name.
func declared(t *testing.T) map[string]int {
	tests := map[string]int{}
	err := filepath.WalkDir(filepath.Join("..", "..", ".."), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range testForm.FindAllSubmatch(text, -1) {
			tests[string(m[1])]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}
