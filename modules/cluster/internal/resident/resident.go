// Package resident reduces a program's resident memory after its start.
//
// The start of a Go program reads many pages of its file once, to initialize packages and to register types, and the kernel
// maps their neighbours with them. The kernel keeps these pages as long as it has free memory.
package resident

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
)

// startTime is the time that a program has for its start.
const startTime = 2 * time.Minute

// ReleaseAfterStart waits until the program has started. Then it gives the unused pages of its heap and the pages of its file
// back to the kernel, once. If ctx ends first, it gives nothing back. If the kernel refuses, it logs the error.
func ReleaseAfterStart(ctx context.Context, log logr.Logger) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(startTime):
	}
	debug.FreeOSMemory()
	if err := release(); err != nil {
		log.V(1).Info("Pages of the program are not released", "err", err)
	}
}
