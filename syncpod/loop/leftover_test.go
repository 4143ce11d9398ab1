package loop_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// stickyRecords cannot delete anything before a time.
type stickyRecords struct {
	mu   sync.Mutex
	from time.Time
	all  map[types.UID][]byte
}

func (r *stickyRecords) LoadRecord(_ context.Context, pod types.UID) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[pod], nil
}

func (r *stickyRecords) SaveRecord(_ context.Context, pod types.UID, record []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[pod] = record
	return nil
}

func (r *stickyRecords) DeleteRecord(_ context.Context, pod types.UID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Now().Before(r.from) {
		return errors.New("input/output error")
	}
	delete(r.all, pod)
	return nil
}

func (r *stickyRecords) ListRecords(context.Context) ([]types.UID, error) { return nil, nil }

func (r *stickyRecords) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

// W11: the record of a removed pod is deleted, even if the first attempt fails.
func TestW11_RecordThatCouldNotBeDeleted(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		records := &stickyRecords{from: time.Now().Add(2 * time.Minute), all: map[types.UID][]byte{}}
		push := source.NewPush()
		n.start([]source.Source{push}, func(c *nodeagent.Config) { c.Sync.Parts.Records = records })
		set(t, push, pod("api", "web", "u", forever))
		time.Sleep(time.Minute)
		set(t, push)
		time.Sleep(30 * time.Second)
		if n := records.count(); n != 1 {
			t.Fatalf("%d records, want that of the pod: the test tests nothing", n)
		}
		time.Sleep(5 * time.Minute)
		if n := records.count(); n != 0 {
			t.Errorf("%d records are left", n)
		}
	})
}
