package architecture

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	// promisedTests maps each sentence under "Promises" of SECURITY.md, and each row of docs/BOUNDS.md, to its tests.
	promisedTests = "internal/rig/promises/tests"
	// securityTable is the same as a table, with the directories of the tests.
	securityTable = "docs/results/security.txt"
)

// A claim is a sentence of a promise, or a row of bounds.
type claim struct{ of, text string }

func (c claim) String() string { return c.of + ": " + c.text }

var (
	promise = regexp.MustCompile(`(?s)^\*\*(.+?)\.\*\* (.*)$`)
	// sentenceEnd is between two sentences.
	sentenceEnd = regexp.MustCompile("[.] (?:[A-Z`/])")
)

// claimsOf returns the sentences under "Promises" of a page.
func claimsOf(t *testing.T, page string) (claims []claim) {
	t.Helper()
	_, promised, _ := strings.Cut(page, "\n## Promises\n")
	promised, _, _ = strings.Cut(promised, "\n## ")
	for _, item := range strings.Split(promised, "\n- ")[1:] {
		item, _, _ = strings.Cut(item, "\n#")
		m := promise.FindStringSubmatch(strings.TrimSpace(item))
		if m == nil {
			t.Errorf("a promise without a title: %s", item)
			continue
		}
		text := strings.Join(strings.Fields(m[2]), " ")
		for text != "" {
			sentence, rest := text, ""
			if at := sentenceEnd.FindStringIndex(text); at != nil {
				sentence, rest = text[:at[0]+1], text[at[0]+2:]
			}
			claims, text = append(claims, claim{m[1], sentence}), rest
		}
	}
	return claims
}

// rowsOf returns the first cells of the tables of a page, without their heads.
func rowsOf(page, name string) (claims []claim) {
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "| ---") {
			claims = claims[:len(claims)-1]
		} else if cell, ok := strings.CutPrefix(line, "| "); ok {
			cell, _, _ = strings.Cut(cell, " |")
			claims = append(claims, claim{name, cell})
		}
	}
	return claims
}

// testsOf reads the tests of each claim.
func testsOf(text string) map[string][]string {
	tests, of := map[string][]string{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch name, indented := strings.CutPrefix(line, "\t"); {
		case line == "" || strings.HasPrefix(line, "#"):
		case indented:
			tests[of] = append(tests[of], name)
		default:
			of = line
			tests[of] = nil
		}
	}
	return tests
}

// TestSecurityNamesTests: each sentence that SECURITY.md promises, and each row of docs/BOUNDS.md, has tests that exist, and the table of
// them is written anew with -rewrite. Whoever changes a sentence so has to look at what shows it.
func TestSecurityNamesTests(t *testing.T) {
	claims := claimsOf(t, read(t, "SECURITY.md"))
	if len(claims) < 50 {
		t.Errorf("SECURITY.md has %d sentences", len(claims))
	}
	claims = append(claims, rowsOf(read(t, "docs/BOUNDS.md"), "docs/BOUNDS.md")...)
	shown, all := testsOf(read(t, promisedTests)), allTests(t)
	table := "promise\tsentence or row\ttests\n"
	for _, c := range claims {
		names, ok := shown[c.String()]
		if !ok || len(names) == 0 && c.text != "answers of the API server" {
			t.Errorf("%s has no tests of\n%s", promisedTests, c)
			continue
		}
		delete(shown, c.String())
		var found []string
		for _, name := range names {
			at := slices.IndexFunc(all, func(test testFunction) bool { return test.name == name })
			if at < 0 {
				t.Errorf("%s does not exist, of\n%s", name, c)
				continue
			}
			found = append(found, fmt.Sprintf("%s (%s)", name, all[at].dir))
		}
		table += c.of + "\t" + c.text + "\t" + strings.Join(found, ", ") + "\n"
	}
	for c := range shown {
		t.Errorf("%s has tests of a sentence or row that is not there:\n%s", promisedTests, c)
	}
	if *rewrite {
		if err := os.WriteFile(filepath.Join(root, securityTable), []byte(table), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if before, _ := os.ReadFile(filepath.Join(root, securityTable)); string(before) != table {
		t.Errorf("%s differs; go test ./internal/rig/architecture -run TestSecurityNamesTests -rewrite writes it anew", securityTable)
	}
}

func TestClaims(t *testing.T) {
	page := "# A\n\n## Promises\n\nIntro.\n\n### B\n\n- **T.** One sentence of a\n  b. Two (e.g. x) of `c`.\n- **U.** `d` is. /e is.\n\n### C\n\n- **V.** f.\n\n## Not promised\n\n- **W.** g.\n"
	want := "[T: One sentence of a b. T: Two (e.g. x) of `c`. U: `d` is. U: /e is. V: f.]"
	if got := fmt.Sprint(claimsOf(t, page)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := fmt.Sprint(rowsOf("text\n| a | b |\n| --- | --- |\n| c | d |\n| e | f |\n", "p")); got != "[p: c p: e]" {
		t.Errorf("%s", got)
	}
}
