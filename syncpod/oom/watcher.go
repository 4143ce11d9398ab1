package oom

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"
)

// kernelLog is the kernel's log: each Read is one record. Close ends a Read that waits.
type kernelLog io.ReadCloser

// A Watcher reports killed processes. The zero Watcher reads /dev/kmsg.
type Watcher struct {
	// open opens the log after its last record. Default: /dev/kmsg.
	open func() (kernelLog, error)
}

const (
	// maxRecord is larger than any record of the kernel.
	maxRecord = 8 << 10
	// damagedPause is the pause after a read error.
	damagedPause = time.Second
	// maxDamaged is the number of consecutive read errors after which Run ends.
	maxDamaged = 10
)

// Run calls report for each process that is killed from now on, in their order, and waits for report to return. It
// returns nil when ctx ends. It returns an error if the log cannot be opened or is not a log, and
// errors.ErrUnsupported if the system has no log.
func (w *Watcher) Run(ctx context.Context, report func(Kill)) error {
	open := w.open
	if open == nil {
		open = openLog
	}
	log, err := open()
	if err != nil {
		return fmt.Errorf("oom: %w", err)
	}
	var once sync.Once
	shut := func() { once.Do(func() { log.Close() }) }
	defer shut()
	defer context.AfterFunc(ctx, shut)()
	err = follow(ctx, log, report)
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("oom: the kernel's log: %w", err)
}

// follow reads records until the log ends.
func follow(ctx context.Context, log kernelLog, report func(Kill)) error {
	record := make([]byte, maxRecord)
	for damaged := 0; ; {
		n, err := log.Read(record)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, syscall.EPIPE): // records were overwritten: the next Read returns the oldest one left
			continue
		case err == io.EOF:
			return io.ErrUnexpectedEOF
		case err != nil:
			if damaged++; damaged > maxDamaged {
				return err
			}
			select {
			case <-time.After(damagedPause):
			case <-ctx.Done():
			}
			continue
		}
		damaged = 0
		if k, ok := Parse(string(record[:n])); ok {
			report(k)
		}
	}
}
