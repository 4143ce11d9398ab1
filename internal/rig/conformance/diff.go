package main

import (
	"encoding/json"
	"strconv"
)

// absent replaces a value that one side does not have.
type absent struct{}

// compareTrees returns a row for each leaf of two JSON values, by its path.
func compareTrees(path string, want, got any) []row {
	wantMap, ok1 := want.(map[string]any)
	gotMap, ok2 := got.(map[string]any)
	if ok1 && ok2 {
		return compareMaps(path, wantMap, gotMap)
	}
	wantList, ok1 := want.([]any)
	gotList, ok2 := got.([]any)
	if ok1 && ok2 {
		return compareLists(path, wantList, gotList)
	}
	return []row{{path, text(want), text(got)}}
}

func compareMaps(path string, want, got map[string]any) (rows []row) {
	for _, key := range keys(want, got) {
		rows = append(rows, compareTrees(path+"."+key, value(want, key), value(got, key))...)
	}
	return rows
}

func compareLists(path string, want, got []any) (rows []row) {
	for i := range max(len(want), len(got)) {
		rows = append(rows, compareTrees(path+"["+strconv.Itoa(i)+"]", element(want, i), element(got, i))...)
	}
	return rows
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
		return ""
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
