package oom

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

const kernelLogPath = "/dev/kmsg"

// pollInterval is the time between two reads of a log that has no new record. With a shorter one, these reads would be much of
// the work of an idle node.
const pollInterval = 5 * time.Second

// openLog opens the kernel's log behind its last record.
func openLog() (kernelLog, error) {
	fd, err := syscall.Open(kernelLogPath, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", kernelLogPath, err)
	}
	if _, err := syscall.Seek(fd, 0, io.SeekEnd); err != nil {
		return nil, errors.Join(fmt.Errorf("seek %s: %w", kernelLogPath, err), syscall.Close(fd))
	}
	return &polledLog{fd: fd, closed: make(chan struct{})}, nil
}

// A polledLog is read at intervals while it has no new record. A Read that waited for the kernel would
// stop the virtual time of each test with an agent, because a wait for the kernel is not a wait
// within the test.
type polledLog struct {
	closed chan struct{}

	mu sync.Mutex
	fd int // -1 once it is closed
}

func (l *polledLog) Read(p []byte) (int, error) {
	for {
		n, err := l.read(p)
		if !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR) {
			return n, err
		}
		timer := time.NewTimer(pollInterval)
		select {
		case <-timer.C:
		case <-l.closed:
			timer.Stop()
		}
	}
}

func (l *polledLog) read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fd < 0 {
		return 0, os.ErrClosed
	}
	n, err := syscall.Read(l.fd, p)
	switch {
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

func (l *polledLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fd < 0 {
		return os.ErrClosed
	}
	fd := l.fd
	l.fd = -1
	close(l.closed)
	return syscall.Close(fd)
}
