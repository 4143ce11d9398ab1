package documents

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// resultsRow is a row of the table in docs/CONFORMANCE.md: the suite, the number of tests, and the totals of podsync-node and of
// the kubelet.
var resultsRow = regexp.MustCompile(`(?m)^\| \[(\w+)\]\(results/(\w+)\.tsv\) \| (\d+) \| (\d+, \d+, \d+) \| (\d+, \d+, \d+) \|$`)

// totals returns the number of tests in a file of docs/results, and how many passed, failed and were skipped, by agent.
func totals(text string) (tests int, of map[string]string) {
	var agents []string
	counts := map[string][3]int{}
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		switch {
		case strings.HasPrefix(line, "# "):
		case agents == nil:
			agents = fields[1:]
		default:
			tests++
			for i, result := range fields[1:] {
				if at := slices.Index([]string{"passed", "failed", "skipped"}, result); at >= 0 {
					c := counts[agents[i]]
					c[at]++
					counts[agents[i]] = c
				}
			}
		}
	}
	of = map[string]string{}
	for agent, c := range counts {
		of[agent] = fmt.Sprintf("%d, %d, %d", c[0], c[1], c[2])
	}
	return tests, of
}

// The totals of docs/CONFORMANCE.md are those of the files in docs/results, and the page has all of the files.
func TestTotalsOfResults(t *testing.T) {
	page := documents(t)["docs/CONFORMANCE.md"]
	files := must.Get(filepath.Glob(filepath.Join(root(t), "docs", "results", "*.tsv")))(t)
	rows := resultsRow.FindAllStringSubmatch(page, -1)
	if len(rows) != len(files) || len(rows) < 5 {
		t.Errorf("the page has %d suites, and docs/results %d files", len(rows), len(files))
	}
	for _, row := range rows {
		text, err := os.ReadFile(filepath.Join(root(t), "docs", "results", row[2]+".tsv"))
		if err != nil {
			t.Error(err)
			continue
		}
		tests, of := totals(string(text))
		if fmt.Sprint(tests) != row[3] || of["podsync-node"] != row[4] {
			t.Errorf("%s: the page has %s tests, %s for podsync-node, and the file %d, %s", row[1], row[3], row[4], tests, of["podsync-node"])
		}
		if kubelet, ok := of["kubelet"]; ok && kubelet != row[5] {
			t.Errorf("%s: the page has %s for the kubelet, and the file %s", row[1], row[5], kubelet)
		}
	}
}
