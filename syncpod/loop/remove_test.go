package loop_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// slowRecords is a store whose delete calls time out after its own limit.
type slowRecords struct {
	mu    sync.Mutex
	tries int
}

func (*slowRecords) LoadRecord(context.Context, types.UID) ([]byte, error) { return nil, nil }
func (*slowRecords) SaveRecord(context.Context, types.UID, []byte) error   { return nil }
func (*slowRecords) ListRecords(context.Context) ([]types.UID, error)      { return nil, nil }

func (r *slowRecords) DeleteRecord(context.Context, types.UID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries++
	return fmt.Errorf("records: %w", context.DeadlineExceeded)
}

func (r *slowRecords) tried() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tries
}

// Only a directory that takes longer than a minute to remove keeps a new pod with the UID waiting. A
// timeout of the embedder's store is an error as any other, and does not.
func TestNewPodDoesNotWaitForATimeoutOfTheStore(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		records, src := &slowRecords{}, source.NewStaticPush("file")
		n.start([]source.Source{src}, func(c *nodeagent.Config) { c.Sync.Parts.Records = records })
		set(t, src, once(pod("file", "web", "u", deaf)))
		time.Sleep(time.Minute)
		set(t, src)
		time.Sleep(2 * time.Second)
		set(t, src, once(pod("file", "web", "u", forever)))
		time.Sleep(time.Minute)
		if records.tried() == 0 {
			t.Fatal("the record was not deleted: the test tests nothing")
		}
		n.wantRunning(1, "u")
	})
}
