package oom

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// fakeLog has records, and errors in between.
type fakeLog struct {
	records chan any
	closed  chan struct{}
}

func (l *fakeLog) Read(p []byte) (int, error) {
	select {
	case <-l.closed:
		return 0, os.ErrClosed
	case r := <-l.records:
		if err, ok := r.(error); ok {
			return 0, err
		}
		return copy(p, r.(string)), nil
	}
}

func (l *fakeLog) Close() error { close(l.closed); return nil }

const record = "6,1,2,-;oom-kill:constraint=CONSTRAINT_NONE,cpuset=/,global_oom,task_memcg=/a,task=b,pid=42,uid=7"

// Records that were overwritten, or cannot be read at the moment, do not end it; the end of its
// context does at once.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &fakeLog{make(chan any, 10), make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		var told []Kill
		ended := make(chan error)
		go func() {
			w := &Watcher{open: func() (kernelLog, error) { return log, nil }}
			ended <- w.Run(ctx, func(k Kill) { told = append(told, k) })
		}()
		for _, r := range []any{record, syscall.EPIPE, "6,1,3,-;usb", syscall.EIO, strings.Replace(record, "pid=42", "pid=43", 1)} {
			log.records <- r
		}
		time.Sleep(time.Minute)
		cancel()
		if err := <-ended; err != nil || len(told) != 2 || told[1].PID != 43 {
			t.Errorf("%v, reported %v, want 2 kills, the second of PID 43, and no error", err, told)
		}
	})
}

func TestRunFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		none := func(Kill) {}
		denied := &Watcher{open: func() (kernelLog, error) { return nil, syscall.EPERM }}
		if err := denied.Run(t.Context(), none); !errors.Is(err, syscall.EPERM) {
			t.Errorf("opened: %v", err)
		}
		log := &fakeLog{make(chan any, 100), make(chan struct{})}
		for range 50 {
			log.records <- syscall.EIO
		}
		damaged := &Watcher{open: func() (kernelLog, error) { return log, nil }}
		if err := damaged.Run(t.Context(), none); !errors.Is(err, syscall.EIO) {
			t.Errorf("damaged: %v", err)
		}
		log = &fakeLog{make(chan any, 1), make(chan struct{})}
		log.records <- io.EOF
		if err := damaged.Run(t.Context(), none); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("ended: %v", err)
		}
	})
}

// The log of the system is followed until the context ends, where it may be read.
func TestRunOnTheSystem(t *testing.T) {
	log, err := openLog()
	if err != nil {
		t.Skip(err)
	}
	log.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- new(Watcher).Run(ctx, func(Kill) {}) }()
	time.Sleep(50 * time.Millisecond)
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the end of the context does not end it")
	}
}

// An agent that watches the log of the system runs in virtual time: an hour takes none.
func TestRunOnTheSystemInVirtualTime(t *testing.T) {
	log, err := openLog()
	if err != nil {
		t.Skip(err)
	}
	log.Close()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := new(Watcher).Run(ctx, func(Kill) {}); err != nil {
			t.Error(err)
		}
	})
}
