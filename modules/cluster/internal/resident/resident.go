// Package resident returns the memory to the kernel that only the start of a program has used: pages of its file, and free
// pages of its heap.
//
// Most of a large Go program runs once: packages are initialized, types are registered, and tables of functions are
// checked. The kernel maps what these read together with its neighbours, nearly the whole file, and has no reason to drop
// it while memory is free. The pages that the program uses afterwards are read again.
package resident

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
)

// started is the time after which a program has started.
const started = 2 * time.Minute

// ReleaseAfterStart waits until the program has started, and returns free pages once. It returns nil, also if ctx ends before.
// The program runs with more memory if the kernel refuses; the error is logged.
func ReleaseAfterStart(ctx context.Context, log logr.Logger) error {
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(started):
	}
	debug.FreeOSMemory()
	if err := Release(); err != nil {
		log.V(1).Info("Pages of the program are not released", "err", err)
	}
	return nil
}
