package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// absent stands for a value that one side does not have.
type absent struct{}

// sideBySide returns a row for each place where two JSON values differ: its
// path, what was recorded, and what podsync says. Absent values show as "-".
func sideBySide(want, got any) string { return rows("", want, got) }

func rows(path string, want, got any) string {
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
	if text(want) == text(got) {
		return ""
	}
	return row(path, text(want), text(got))
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
		out += rows(path+"."+key, value(want, key), value(got, key))
	}
	return out
}

func listRows(path string, want, got []any) string {
	var out string
	for i := range max(len(want), len(got)) {
		out += rows(path+"["+strconv.Itoa(i)+"]", element(want, i), element(got, i))
	}
	return out
}

func value(m map[string]any, key string) any {
	if v, ok := m[key]; ok {
		return v
	}
	return absent{}
}

func element(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return absent{}
}

func text(v any) string {
	if v == (absent{}) {
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
