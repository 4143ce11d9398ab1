package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podsync/podsync/runtime/foreign"
	"github.com/podsync/podsync/syncpod/status/summary"
)

// row is a pod's line in a table.
type row = summary.Summary

func rowsOf(pods []v1.Pod) []row {
	rows := make([]row, 0, len(pods))
	for i := range pods {
		rows = append(rows, summary.Of(&pods[i]))
	}
	return rows
}

// tableOf returns the lines in a table under kubectl's headings, none for no rows.
func tableOf(rows []row, now time.Time) []string {
	if len(rows) == 0 {
		return nil
	}
	namespaces := slices.ContainsFunc(rows, func(r row) bool { return r.Namespace != "default" })
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	print := func(namespace string, cells ...string) {
		if namespaces {
			cells = slices.Insert(cells, 0, namespace)
		}
		for i, cell := range cells {
			cells[i] = foreign.Line(cell)
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	print("NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE")
	for _, r := range rows {
		print(r.Namespace, r.Name, r.Readiness(), r.Status, restarts(r, now), age(r.Began, now))
	}
	t.Flush()
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

// restarts returns kubectl's RESTARTS, and whether the last exit was for lack of memory.
func restarts(r row, now time.Time) string {
	if r.Restarts == 0 || r.LastEnd.IsZero() {
		return fmt.Sprint(r.Restarts)
	}
	why := ""
	if r.Killed {
		why = "OOMKilled "
	}
	return fmt.Sprintf("%d (%s%s ago)", r.Restarts, why, age(r.LastEnd, now))
}

func age(from, now time.Time) string {
	if from.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(from))
}

// fit truncates lines to the terminal's size, because scrolled lines cannot be redrawn. A size of zero is unknown.
func fit(lines []string, width, height int) []string {
	if most := height - 1; height > 1 && len(lines) > most {
		more := fmt.Sprintf("and %d more", len(lines)-most+1)
		lines = append(slices.Clone(lines[:most-1]), more)
	}
	cut := make([]string, len(lines))
	for i, line := range lines {
		if runes := []rune(line); width > 0 && len(runes) > width {
			line = string(runes[:width])
		}
		cut[i] = line
	}
	return cut
}

// linesOf returns how many lines of the terminal the text occupies. The text was truncated to an earlier width; a
// narrower terminal has wrapped it.
func linesOf(text []string, width int) int {
	count := len(text)
	for _, line := range text {
		if n := utf8.RuneCountInString(line); width > 0 && n > width {
			count += (n - 1) / width
		}
	}
	return count
}
