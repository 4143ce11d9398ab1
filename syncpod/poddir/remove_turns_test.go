package poddir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod/container"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/hostfs/mounts"
)

// noted are volumes that record which pods they tore down.
type noted struct {
	mu   sync.Mutex
	torn map[types.UID]bool
}

func (*noted) SetUp(context.Context, *v1.Pod, string) error { return nil }

func (*noted) Mounts(context.Context, container.MountRequest, string) (container.Mounts, error) {
	return container.Mounts{}, nil
}

func (n *noted) TearDown(_ context.Context, uid types.UID, _ string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.torn[uid] = true
	return nil
}

func (*noted) Refresh(context.Context, *v1.Pod, string) (next time.Time, err error) { return next, nil }

// More directories than slots take hours to remove. They do not delay the
// unmounting of other pods' volumes, and delay the removal of other directories only briefly. All are
// removed in the end.
func TestHugeDirectoriesAreRemovedInTurns(t *testing.T) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		volumes := &noted{torn: map[types.UID]bool{}}
		d := must.Get(New(Config{Root: root, Volumes: volumes}))(t)
		const huge = 2 * parallelRemovals
		var mu sync.Mutex
		left := map[string]time.Duration{}
		for i := range huge {
			left[fmt.Sprintf("huge%d", i)] = time.Hour
		}
		d.empty = func(ctx context.Context, dir string) error {
			mu.Lock()
			needs := left[filepath.Base(dir)]
			mu.Unlock()
			began := time.Now()
			select {
			case <-time.After(needs):
				return nil
			case <-ctx.Done():
				mu.Lock()
				defer mu.Unlock()
				left[filepath.Base(dir)] = needs - time.Since(began)
				return fmt.Errorf("volumes: %w", ctx.Err())
			}
		}
		var removals sync.WaitGroup
		remove := func(uid string) {
			must.Do(t, os.MkdirAll(filepath.Join(root, "pods", uid), 0o750))
			removals.Go(func() {
				if err := d.RemovePod(t.Context(), types.UID(uid)); err != nil {
					t.Error(err)
				}
			})
		}
		for i := range huge {
			remove(fmt.Sprintf("huge%d", i))
		}
		time.Sleep(time.Minute)
		remove("small")
		synctest.Wait()
		volumes.mu.Lock()
		if len(volumes.torn) != huge+1 {
			t.Errorf("the volumes of %d pods are torn down, want %d", len(volumes.torn), huge+1)
		}
		volumes.mu.Unlock()
		time.Sleep(3 * removalTurn)
		if _, err := os.Stat(filepath.Join(root, "pods", "small")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a small directory waits for large ones: %v", err)
		}
		removals.Wait()
		if pods, err := d.Pods(); err != nil || len(pods) > 0 {
			t.Errorf("%v are left, %v", pods, err)
		}
	})
}

// A container that makes the table of mounts too long for the kernel keeps no directory of another pod. Any
// other error of the table does.
func TestRemovalWhereNoMountsAreListed(t *testing.T) {
	d := must.Get(New(Config{Root: t.TempDir()}))(t)
	dir := filepath.Join(d.pods, "u-1")
	must.Do(t, os.MkdirAll(dir, 0o750))
	d.mounted = func(string) ([]string, error) { return nil, syscall.EIO }
	if err := d.RemovePod(t.Context(), "u-1"); !errors.Is(err, syscall.EIO) {
		t.Errorf("%v, want %v", err, syscall.EIO)
	}
	d.mounted = func(string) ([]string, error) { return nil, fmt.Errorf("read: %w", mounts.ErrTooLong) }
	must.Do(t, d.RemovePod(t.Context(), "u-1"))
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want no directory", err)
	}
}
