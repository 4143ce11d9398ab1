package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	question = regexp.MustCompile(`(?m)^## \d+\. `)
	// fence matches a manifest, whose first line is a comment with the name of its file, or the expected output.
	fence = regexp.MustCompile("(?s)```(yaml|text)\n(.*?)```")
	// podUID is the UID of a static pod in a message.
	podUID = regexp.MustCompile(`\([0-9a-f]{32}\)`)
)

// TestQuestions runs all manifests of docs/QUESTIONS.md, and compares the output with the page.
func TestQuestions(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "QUESTIONS.md"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(question.FindAll(page, -1)); n != 10 {
		t.Errorf("the page has %d questions, and says ten", n)
	}
	a := startAgent(t, "-node", "edge")
	var seen []string
	for _, m := range fence.FindAllStringSubmatch(string(page), -1) {
		if m[1] == "yaml" {
			name, _, _ := strings.Cut(strings.TrimPrefix(m[2], "# "), "\n")
			a.write(name, m[2])
		} else {
			seen = append(seen, strings.Split(strings.TrimSpace(m[2]), "\n")...)
		}
	}
	if len(seen) < 10 {
		t.Fatalf("only %d lines are seen", len(seen))
	}
	missing, said := seen, []string(nil)
	for deadline := time.Now().Add(time.Minute); len(missing) > 0 && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		said = a.lines()
		missing = slices.DeleteFunc(slices.Clone(seen), func(line string) bool { return slices.Contains(said, line) })
	}
	if len(missing) > 0 {
		t.Errorf("missing answers\n%s\ngot\n%s", strings.Join(missing, "\n"), strings.Join(said, "\n"))
	}
	a.end()
}

// lines returns the output of the agent without times and column widths, with /etc/pods as the folder and UID for UIDs.
func (a *started) lines() []string {
	a.t.Helper()
	text, err := os.ReadFile(a.out)
	if err != nil {
		a.t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(strings.ReplaceAll(string(text), a.manifests, "/etc/pods")) {
		_, line, _ = strings.Cut(line, " ")
		lines = append(lines, podUID.ReplaceAllString(strings.Join(strings.Fields(line), " "), "(UID)"))
	}
	return lines
}
