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
		resident.ReleaseAfterStart(ctx, logr.Discard())
		if took := time.Since(began); took != time.Second {
			t.Errorf("it returned after %v, want %v", took, time.Second)
		}
	})
}
