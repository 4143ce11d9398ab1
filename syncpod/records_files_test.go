package syncpod_test

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod"
)

func TestFileRecords(t *testing.T) {
	records := syncpod.FileRecords{Dir: filepath.Join(t.TempDir(), "records")}
	const want = `{"version":1,"everStarted":["app"]}`
	for range 2 {
		must(t, records.SaveRecord(t.Context(), "a", []byte(want)))
	}
	if got, err := records.LoadRecord(t.Context(), "a"); err != nil || string(got) != want {
		t.Errorf("read %s, %v, want %s", got, err, want)
	}
	if all, err := records.ListRecords(t.Context()); err != nil || len(all) != 1 || all[0] != "a" {
		t.Errorf("records of %v, %v, want one of a", all, err)
	}
	if entries, err := os.ReadDir(records.Dir); err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v, %v, want one file", entries, err)
	}
	for range 2 {
		must(t, records.DeleteRecord(t.Context(), "a"))
	}
	if got, err := records.LoadRecord(t.Context(), "a"); err != nil || got != nil {
		t.Errorf("read %s, %v after it was deleted", got, err)
	}
}

// A record that exists and cannot be read, listed or deleted is an error: the pod is not one without a record.
func TestFileRecordsThatFail(t *testing.T) {
	records := syncpod.FileRecords{Dir: t.TempDir()}
	must(t, os.MkdirAll(filepath.Join(records.Dir, "a.json", "full"), 0o700))
	if _, err := records.LoadRecord(t.Context(), "a"); err == nil {
		t.Error("loaded")
	}
	if err := records.DeleteRecord(t.Context(), "a"); err == nil {
		t.Error("deleted")
	}
	must(t, os.WriteFile(filepath.Join(records.Dir, "file"), nil, 0o600))
	if _, err := (syncpod.FileRecords{Dir: filepath.Join(records.Dir, "file")}).ListRecords(t.Context()); err == nil {
		t.Error("listed")
	}
}

func TestFileRecordsStayInTheirDirectory(t *testing.T) {
	for _, uid := range []types.UID{"", "..", "../x", "a/b", `a\b`, ".record-1"} {
		if err := (syncpod.FileRecords{Dir: t.TempDir()}).SaveRecord(t.Context(), uid, nil); err == nil {
			t.Errorf("UID %q was accepted", uid)
		}
	}
	if _, err := (syncpod.FileRecords{}).LoadRecord(t.Context(), "a"); err == nil {
		t.Error("no directory is no error")
	}
}
