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

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/loop"
)

const uid types.UID = "5d1c8e0a-7f7e-4a58-9c39-1f0a6f1f2b11"

func releases(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join("testdata", "v*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("%d releases, %v, want some dirs and no error", len(dirs), err)
	}
	slices.Sort(dirs)
	return dirs
}

// notYet are the fields of records that a release did not have yet, by the release.
var notYet = map[string][]string{"v0.0": {"crashBackOffs"}}

// Read and written again, the files of each release say the same: records as the newest
// release writes them, of which each older one has the same to say.
func TestFilesAreReadAndKept(t *testing.T) {
	dirs := releases(t)
	newest := dirs[len(dirs)-1]
	for _, dir := range dirs {
		record, stored := load(t, dir)
		again := t.TempDir()
		if err := (syncpod.FileRecords{Dir: filepath.Join(again, "records")}).SaveRecord(t.Context(), uid, record); err != nil {
			t.Fatal(err)
		}
		store, err := loop.NewFileStore(filepath.Join(again, "statuses"))
		if err != nil {
			t.Fatal(err)
		}
		if err := store.SetStoredStatus(t.Context(), stored); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"records", "statuses"} {
			file := filepath.Join(kind, string(uid)+".json")
			old := filepath.Join(dir, file)
			if kind == "records" {
				old = filepath.Join(newest, file)
			}
			was, is := parse(t, old), parse(t, filepath.Join(again, file))
			if kind == "records" {
				for _, field := range notYet[filepath.Base(dir)] {
					delete(was.(map[string]any), field)
				}
			}
			if !reflect.DeepEqual(was, is) {
				t.Errorf("%s has\n%v, and is written as\n%v", filepath.Join(dir, file), was, is)
			}
		}
	}
}

// What a later release has added is passed over: a program that is set back to an
// earlier release does not lose the rest.
func TestFieldsOfALaterReleaseArePassedOver(t *testing.T) {
	for _, dir := range releases(t) {
		later := t.TempDir()
		for _, kind := range []string{"records", "statuses"} {
			value := parse(t, filepath.Join(dir, kind, string(uid)+".json"))
			value.(map[string]any)["later"] = map[string]any{"than": []any{"this"}}
			text, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(filepath.Join(later, kind), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(later, kind, string(uid)+".json"), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		record, stored := load(t, dir)
		gotRecord, gotStored := load(t, later)
		if !reflect.DeepEqual(gotRecord, record) || !reflect.DeepEqual(gotStored, stored) {
			t.Errorf("%s with a field more is\n%+v\n%+v", dir, gotRecord, gotStored)
		}
	}
}

// The files of the last release that changed them have every field that there is, so
// that the other tests are about all of them.
func TestFilesHaveAllFields(t *testing.T) {
	dirs := releases(t)
	record, stored := load(t, dirs[len(dirs)-1])
	for _, v := range []any{record, record.Exited[0], record.Exited[0].ID, record.Exited[0].Resources, stored, stored.Runtime.Sandboxes[0], stored.Runtime.Containers[0]} {
		if empty := unset(reflect.Indirect(reflect.ValueOf(v))); len(empty) > 0 {
			t.Errorf("%T has fields that the files in %s do not have: %q. If that is released, add a directory with all fields for the next release", v, dirs[len(dirs)-1], empty)
		}
	}
	for _, resources := range record.Resources {
		if resources == (runtime.ContainerResources{}) {
			t.Error("the resources are empty")
		}
	}
	if last := record.Exited[0]; last.State != runtime.ContainerExited || last.ExitCode != 137 {
		t.Errorf("a container that has exited with 137 is read as %s, %d", last.State, last.ExitCode)
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

func load(t *testing.T, dir string) (syncpod.Record, loop.StoredStatus) {
	t.Helper()
	record, err := syncpod.FileRecords{Dir: filepath.Join(dir, "records")}.LoadRecord(t.Context(), uid)
	if err != nil {
		t.Fatal(err)
	}
	store, err := loop.NewFileStore(filepath.Join(dir, "statuses"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := store.Load(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("%s: %d statuses, %v, want 1 of them and no error", dir, len(all), err)
	}
	return record, all[0]
}

func parse(t *testing.T, name string) any {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := json.NewDecoder(strings.NewReader(string(text))).Decode(&value); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return value
}
