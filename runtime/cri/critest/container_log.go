package critest

import (
	"bytes"
	"context"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maxLogLine is the length at which a runtime splits a line into partial entries.
const maxLogLine = 16 << 10

// A containerLog writes a container's output in the format of CRI logs:
//
//	2006-01-02T15:04:05.000000000Z stdout F line
type containerLog struct {
	host *host
	// dir is the sandbox's log directory, name the log's name in it. Without either,
	// output is discarded.
	dir, name string

	mu      sync.Mutex
	out     io.WriteCloser
	streams []*logStream
}

func (l *containerLog) open() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dir == "" || l.name == "" {
		return nil
	}
	out, err := l.host.openLog(l.dir, l.name)
	if err != nil {
		return err
	}
	if l.out != nil {
		_ = l.out.Close() // the rotated file is complete
	}
	l.out = out
	return nil
}

// close writes an unfinished line as a partial entry, as runtimes do.
func (l *containerLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out == nil {
		return nil
	}
	for _, s := range l.streams {
		if len(s.rest) > 0 {
			s.line(runtimeapi.LogTagPartial, s.rest)
			s.rest = nil
		}
	}
	err := l.out.Close()
	l.out = nil
	return err
}

func (l *containerLog) stream(name string) io.Writer {
	s := &logStream{log: l, name: name}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams = append(l.streams, s)
	return s
}

type logStream struct {
	log  *containerLog
	name string
	rest []byte // of a line not yet ended
}

// Write never fails: a process does not notice that its log cannot be written.
func (s *logStream) Write(b []byte) (int, error) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if s.log.out == nil {
		return len(b), nil
	}
	s.rest = append(s.rest, b...)
	for {
		line, rest, ended := bytes.Cut(s.rest, []byte{'\n'})
		switch {
		case len(line) > maxLogLine:
			s.line(runtimeapi.LogTagPartial, line[:maxLogLine])
			s.rest = s.rest[maxLogLine:]
		case ended:
			s.line(runtimeapi.LogTagFull, line)
			s.rest = rest
		default:
			return len(b), nil
		}
	}
}

// line must be called with the log's mu held.
func (s *logStream) line(tag runtimeapi.LogTag, text []byte) {
	entry := time.Now().UTC().AppendFormat(nil, "2006-01-02T15:04:05.000000000Z07:00")
	entry = append(entry, ' ')
	entry = append(entry, s.name...)
	entry = append(entry, ' ')
	entry = append(entry, tag...)
	entry = append(entry, ' ')
	entry = append(entry, text...)
	_, _ = s.log.out.Write(append(entry, '\n')) // see Write
}

// ReopenContainerLog creates the log file of a running container again after the agent has renamed
// the old one. Further output goes to the new file.
func (s service) ReopenContainerLog(_ context.Context, req *runtimeapi.ReopenContainerLogRequest) (*runtimeapi.ReopenContainerLogResponse, error) {
	c := s.container(req.GetContainerId())
	if c == nil {
		return nil, s.cfg.Like.errNoContainer(req.GetContainerId())
	}
	s.mu.Lock()
	running := c.state == runtimeapi.ContainerState_CONTAINER_RUNNING
	s.mu.Unlock()
	if !running {
		return nil, status.Error(codes.Unknown, "container is not running")
	}
	if err := c.log.open(); err != nil {
		return nil, status.Errorf(codes.Unknown, "failed to create and open log file: %v", err)
	}
	return &runtimeapi.ReopenContainerLogResponse{}, nil
}
