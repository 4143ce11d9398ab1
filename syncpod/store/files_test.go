package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// setStatus stores a status that a Loop has reported.
func setStatus(ctx context.Context, s *Files, pod *v1.Pod, status v1.PodStatus) error {
	return s.SetStatus(ctx, Status{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Status: status})
}

func storeIn(t testing.TB, dir string) *Files {
	t.Helper()
	s := must.Get(NewFiles(dir))(t)
	return s
}

func podOf(uid types.UID) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod-" + string(uid), UID: uid}}
}

func statusOf(phase v1.PodPhase) v1.PodStatus {
	started := metav1.NewTime(time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC))
	return v1.PodStatus{Phase: phase, StartTime: &started, ContainerStatuses: []v1.ContainerStatus{{Name: "c", RestartCount: 3}}}
}

func TestFilesRemembers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "pods")
	ctx := t.Context()
	s := storeIn(t, dir)
	if records, err := s.Load(ctx); err != nil || len(records) != 0 {
		t.Errorf("of no directory: %v, %v", records, err)
	}
	for _, err := range []error{
		setStatus(ctx, s, podOf("b"), statusOf(v1.PodRunning)),
		setStatus(ctx, s, podOf("b"), statusOf(v1.PodFailed)),
		setStatus(ctx, s, podOf("a"), statusOf(v1.PodPending)),
		setStatus(ctx, s, podOf("d"), statusOf(v1.PodRunning)),
		s.Delete(ctx, "d"), s.Delete(ctx, "d"), s.Delete(ctx, "never"),
	} {
		must.Do(t, err)
	}
	want := []Status{
		{Namespace: "ns", Name: "pod-a", UID: "a", Status: statusOf(v1.PodPending)},
		{Namespace: "ns", Name: "pod-b", UID: "b", Status: statusOf(v1.PodFailed)},
	}
	// The next agent's store.
	s = storeIn(t, dir)
	got := must.Get(s.Load(ctx))(t)
	for i := range got {
		if st := got[i].Status.StartTime; st != nil {
			st.Time = st.UTC()
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestFilesWritesChangesOnly(t *testing.T) {
	dir := t.TempDir()
	s := storeIn(t, dir)
	set := func(s *Files) os.FileInfo {
		t.Helper()
		must.Do(t, setStatus(t.Context(), s, podOf("a"), statusOf(v1.PodSucceeded)))
		info := must.Get(os.Stat(filepath.Join(dir, "a.json")))(t)
		return info
	}
	// Each write makes a new file.
	first := set(s)
	if !os.SameFile(first, set(s)) || !os.SameFile(first, set(storeIn(t, dir))) {
		t.Error("written again")
	}
	must.Do(t, setStatus(t.Context(), s, podOf("a"), statusOf(v1.PodFailed)))
	second, err := os.Stat(filepath.Join(dir, "a.json"))
	if err != nil || os.SameFile(first, second) {
		t.Errorf("written in place, where an agent that is killed leaves half of it: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("there are %v, %v", entries, err)
	}
}

func TestFilesSkipsBrokenEntries(t *testing.T) {
	dir := t.TempDir()
	s := storeIn(t, dir)
	for _, uid := range []types.UID{"a", "b", "c"} {
		must.Do(t, setStatus(t.Context(), s, podOf(uid), statusOf(v1.PodRunning)))
	}
	write := func(name, text string) {
		t.Helper()
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("a.json", "")
	write("c.json", `{"uid":"b","status":{"phase":"Failed"}}`)
	write("d.json", `{"uid":"d","status":`)
	write(".e.tmp", `{"uid":`)
	write("README", "not ours")
	must.Do(t, os.Mkdir(filepath.Join(dir, "f.json"), 0o700))
	s = storeIn(t, dir)
	records, err := s.Load(t.Context())
	if len(records) != 1 || records[0].UID != "b" {
		t.Errorf("records are %+v", records)
	}
	for _, uid := range []string{"pod a", "pod c", "pod d"} {
		if err == nil || !strings.Contains(err.Error(), uid) {
			t.Errorf("the error says nothing about %s: %v", uid, err)
		}
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != 3 {
		t.Errorf("%d errors: %v, want 3", n, err)
	}
	if !errors.Is(err, ErrLost) {
		t.Errorf("the status of a deleted file can still be read: %v", err)
	}
	// The next status repairs it.
	must.Do(t, setStatus(t.Context(), s, podOf("a"), statusOf(v1.PodRunning)))
	if records, _ := storeIn(t, dir).Load(t.Context()); len(records) != 2 {
		t.Errorf("records are %+v", records)
	}
}

func TestFilesStaysInItsDirectory(t *testing.T) {
	root := t.TempDir()
	s := storeIn(t, filepath.Join(root, "a", "b"))
	for _, uid := range []types.UID{"", ".", "..", "../x", "/x", "a/../../x", `..\x`, "a\x00", ".a", "a.tmp/"} {
		if setStatus(t.Context(), s, podOf(uid), v1.PodStatus{}) == nil || s.Delete(t.Context(), uid) == nil {
			t.Errorf("UID %q is taken", uid)
		}
	}
	if entries, _ := os.ReadDir(root); len(entries) != 0 {
		t.Errorf("there are %v", entries)
	}
	if _, err := NewFiles(""); err == nil {
		t.Error("no directory is taken")
	}
}

func TestFilesNamesTheFailedEntry(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	s := storeIn(t, file) // no directory
	if err := setStatus(t.Context(), s, podOf("a"), statusOf(v1.PodRunning)); err == nil || !strings.Contains(err.Error(), "pod a") {
		t.Errorf("the error is %v", err)
	}
	if _, err := s.Load(t.Context()); err == nil {
		t.Error("a file was listed")
	}
	// The same status is written again.
	must.Do(t, os.Remove(file))
	must.Do(t, setStatus(t.Context(), s, podOf("a"), statusOf(v1.PodRunning)))
	if records, err := s.Load(t.Context()); err != nil || len(records) != 1 {
		t.Errorf("records are %v, %v", records, err)
	}
}

func TestFilesConcurrently(t *testing.T) {
	dir := t.TempDir()
	s := storeIn(t, dir)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			pod := podOf(types.UID(fmt.Sprint("p", i)))
			for n := range 10 {
				status := statusOf(v1.PodRunning)
				status.ContainerStatuses[0].RestartCount = int32(n)
				if err := setStatus(t.Context(), s, pod, status); err != nil {
					t.Error(err)
				}
			}
			if i%2 == 0 {
				if err := s.Delete(t.Context(), pod.UID); err != nil {
					t.Error(err)
				}
			}
			if _, err := s.Load(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if records, err := s.Load(t.Context()); err != nil || len(records) != 10 || len(s.pods) != 10 {
		t.Errorf("%d records, %d in memory, %v", len(records), len(s.pods), err)
	}
}

func BenchmarkFileStore(b *testing.B) {
	s := storeIn(b, b.TempDir())
	pod, n := podOf("a"), int32(0)
	for phase, change := range map[string]int32{"changed": 1, "unchanged": 0} {
		b.Run(phase, func(b *testing.B) {
			for b.Loop() {
				n += change
				status := statusOf(v1.PodRunning)
				status.ContainerStatuses[0].RestartCount = n
				must.Do(b, setStatus(b.Context(), s, pod, status))
			}
		})
	}
}

// The runtime's part can be read again from the runtime, so damage to it does not lose the status.
func TestStoredStatusWithoutUnreadableFields(t *testing.T) {
	for _, runtime := range []string{`"odd"`, `{"sandboxes":{}}`, `{"containers":[{"id":3}]}`, `null`} {
		var stored Status
		err := json.Unmarshal([]byte(`{"namespace":"default","name":"web","uid":"u","status":{"phase":"Succeeded"},"runtime":`+runtime+`}`), &stored)
		if err != nil || stored.UID != "u" || stored.Name != "web" || stored.Namespace != "default" || stored.Status.Phase != v1.PodSucceeded || stored.Runtime != nil {
			t.Errorf("%s: it is read as %+v, %v", runtime, stored, err)
		}
	}
	var stored Status
	if err := json.Unmarshal([]byte(`{"uid":"u","status":{"phase":3},"runtime":{}}`), &stored); err == nil {
		t.Errorf("a status that is none is read as %+v", stored)
	}
}
