package memory_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/memory"
)

// releases are the record files of releases, the newest release last. Package upgrade tests the status files in the same
// directories.
func releases(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../internal/rig/upgrade/testdata/v*/records/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v, want at least one", len(files), err)
	}
	slices.Sort(files)
	return files
}

// Read and written again, the record of each release has the same contents.
func TestRecordsOfReleasesAreReadAndKept(t *testing.T) {
	for _, file := range releases(t) {
		again := must.Get(json.Marshal(record(t, text(t, file))))(t)
		if got, want := parse(t, again), parse(t, text(t, file)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is written as\n%v, want\n%v", file, got, want)
		}
	}
}

// Fields that a later release has added are ignored: a program that returns to an earlier release keeps the others.
func TestFieldsOfALaterReleaseAreIgnored(t *testing.T) {
	for _, file := range releases(t) {
		value := parse(t, text(t, file))
		value["later"] = map[string]any{"than": []any{"this"}}
		later := must.Get(json.Marshal(value))(t)
		if got, want := record(t, later), record(t, text(t, file)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s with one more field is\n%+v, want\n%+v", file, got, want)
		}
	}
}

// The file of the last release that changed the format has every field, so that the other tests cover all of them.
func TestRecordOfTheNewestReleaseHasAllFields(t *testing.T) {
	files := releases(t)
	newest := files[len(files)-1]
	r := record(t, text(t, newest))
	for _, v := range []any{r, r.Exited[0], r.Exited[0].ID, r.Exited[0].Resources, r.Exited[0].CPUSet} {
		value := reflect.Indirect(reflect.ValueOf(v))
		for i := range value.NumField() {
			if value.Field(i).IsZero() {
				t.Errorf("%T has the field %s, which %s does not have. If that is released, add a directory with all fields for the next release", v, value.Type().Field(i).Name, newest)
			}
		}
	}
	for _, resources := range r.Resources {
		if resources == (runtime.ContainerResources{}) {
			t.Error("the resources are empty")
		}
	}
	if last := r.Exited[0]; last.State != runtime.ContainerExited || last.ExitCode != 137 {
		t.Errorf("a container that has exited with 137 is read as %s, %d", last.State, last.ExitCode)
	}
}

func text(t *testing.T, file string) []byte {
	t.Helper()
	text := must.Get(os.ReadFile(file))(t)
	return text
}

func record(t *testing.T, text []byte) (r memory.Record) {
	t.Helper()
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return r
}

func parse(t *testing.T, text []byte) (value map[string]any) {
	t.Helper()
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}
