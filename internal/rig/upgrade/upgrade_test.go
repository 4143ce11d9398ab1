package upgrade

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	statusstore "github.com/podsync/podsync/syncpod/store"
)

const uid types.UID = "5d1c8e0a-7f7e-4a58-9c39-1f0a6f1f2b11"

func releases(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join("testdata", "v*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("%d releases, %v, want at least one", len(dirs), err)
	}
	slices.Sort(dirs)
	return dirs
}

// Read and written again, the statuses of each release have the same contents.
func TestFilesAreReadAndKept(t *testing.T) {
	for _, dir := range releases(t) {
		again := t.TempDir()
		store := must.Get(statusstore.NewFiles(again))(t)
		must.Do(t, store.SetStatus(t.Context(), load(t, filepath.Join(dir, "statuses"))))
		file := string(uid) + ".json"
		was, is := parse(t, filepath.Join(dir, "statuses", file)), parse(t, filepath.Join(again, file))
		if !reflect.DeepEqual(was, is) {
			t.Errorf("%s has\n%v, and is written as\n%v", dir, was, is)
		}
	}
}

// Fields that a later release has added are ignored: a program that returns to an earlier release keeps the others.
func TestFieldsOfALaterReleaseAreIgnored(t *testing.T) {
	for _, dir := range releases(t) {
		dir := filepath.Join(dir, "statuses")
		later := t.TempDir()
		value := parse(t, filepath.Join(dir, string(uid)+".json"))
		value.(map[string]any)["later"] = map[string]any{"than": []any{"this"}}
		text := must.Get(json.Marshal(value))(t)
		must.Do(t, os.WriteFile(filepath.Join(later, string(uid)+".json"), text, 0o600))
		if got, want := load(t, later), load(t, dir); !reflect.DeepEqual(got, want) {
			t.Errorf("%s with one more field is\n%+v, want\n%+v", dir, got, want)
		}
	}
}

// The files of the last release that changed them have every field, so
// that the other tests cover all of them.
func TestFilesHaveAllFields(t *testing.T) {
	dirs := releases(t)
	stored := load(t, filepath.Join(dirs[len(dirs)-1], "statuses"))
	for _, v := range []any{stored, stored.Runtime.Sandboxes[0], stored.Runtime.Containers[0]} {
		if empty := unset(reflect.Indirect(reflect.ValueOf(v))); len(empty) > 0 {
			t.Errorf("%T has fields that the files in %s do not have: %q. If that is released, add a directory with all fields for the next release", v, dirs[len(dirs)-1], empty)
		}
	}
}

// unset are the fields of a struct that are zero.
func unset(v reflect.Value) []string {
	var names []string
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			names = append(names, v.Type().Field(i).Name)
		}
	}
	return names
}

func load(t *testing.T, dir string) statusstore.Status {
	t.Helper()
	store := must.Get(statusstore.NewFiles(dir))(t)
	all, err := store.Load(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("%s: %d statuses, %v, want one", dir, len(all), err)
	}
	return all[0]
}

func parse(t *testing.T, name string) any {
	t.Helper()
	text := must.Get(os.ReadFile(name))(t)
	var value any
	if err := json.NewDecoder(strings.NewReader(string(text))).Decode(&value); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return value
}
