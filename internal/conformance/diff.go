package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// sideBySide returns a row for each place where two JSON values differ: its
// path, what was recorded, and what podsync says. Absent values show as "-".
func sideBySide(want, got any) string { return rows("", want, got, true, true) }

func rows(path string, want, got any, hasWant, hasGot bool) string {
	wantMap, ok1 := want.(map[string]any)
	gotMap, ok2 := got.(map[string]any)
	if ok1 && ok2 {
		return mapRows(path, wantMap, gotMap)
	}
	wantList, ok1 := want.([]any)
	gotList, ok2 := got.([]any)
	if ok1 && ok2 {
		return listRows(path, wantList, gotList)
	}
	wantText, gotText := text(want, hasWant), text(got, hasGot)
	if wantText == gotText {
		return ""
	}
	return row(path, wantText, gotText)
}

func mapRows(path string, want, got map[string]any) string {
	keys := map[string]bool{}
	for key := range want {
		keys[key] = true
	}
	for key := range got {
		keys[key] = true
	}
	var out string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		w, hasWant := want[key]
		g, hasGot := got[key]
		out += rows(path+"."+key, w, g, hasWant, hasGot)
	}
	return out
}

func listRows(path string, want, got []any) string {
	var out string
	for i := range max(len(want), len(got)) {
		w, hasWant := at(want, i)
		g, hasGot := at(got, i)
		out += rows(path+"["+strconv.Itoa(i)+"]", w, g, hasWant, hasGot)
	}
	return out
}

func at(list []any, i int) (any, bool) {
	if i < len(list) {
		return list[i], true
	}
	return nil, false
}

func text(v any, present bool) string {
	if !present {
		return "-"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func row(path, want, got string) string {
	return fmt.Sprintf("  %-50s recorded %-30s podsync %s\n", path, want, got)
}
