package resident_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/podsync/podsync/modules/cluster/internal/resident"
)

// A program that ends while it starts does not wait.
func TestEndDuringTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := resident.ReleaseAfterStart(ctx, logr.Discard()); err != nil || time.Since(began) != time.Second {
			t.Errorf("it returned %v after %v, want nil after %v", err, time.Since(began), time.Second)
		}
	})
}
