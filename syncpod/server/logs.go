package server

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/logs"
)

// serveLogs prints a container's log.
func (s *Server) serveLogs(w http.ResponseWriter, r *http.Request) error {
	options, err := logOptions(r.URL.Query())
	if err != nil {
		return err
	}
	pod, name, err := s.container(r)
	if err != nil {
		return err
	}
	id, err := instance(pod, name, options.Previous)
	if err != nil {
		return err
	}
	count := s.read
	if options.Follow {
		count = func(r *http.Request, name, id string) (func(), error) { return s.begin(r, "containerLogs", name, id) }
	}
	end, err := count(r, name, id.String())
	if err != nil {
		return err
	}
	defer end()
	path, err := s.logPath(r, id)
	if err != nil {
		return err
	}
	log := logs.Log{Path: path}
	if options.Follow {
		log.Ended = s.ended(pod.Pod.UID, id)
	}
	return s.printLog(w, r, log, options)
}

// logPath asks the runtime for an instance's log path.
func (s *Server) logPath(r *http.Request, id runtime.ContainerID) (string, error) {
	resp, err := s.config.Client.ContainerStatus(r.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: id.ID})
	if err != nil {
		return "", fromRuntime(err)
	}
	path := resp.GetStatus().GetLogPath()
	if path == "" {
		return "", notFound("container %s has no log", id)
	}
	return path, nil
}

// printLog prints a log. An error before the first output has an HTTP status; after that the
// connection is cut, so that no caller mistakes a part for the whole.
func (s *Server) printLog(w http.ResponseWriter, r *http.Request, log logs.Log, o *v1.PodLogOptions) error {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	out := s.newLogWriter(w, o.Follow)
	out.timer = time.AfterFunc(out.idle, cancel)
	defer out.timer.Stop()
	defer out.limit() // net/http sends the rest of its buffer after the return, and then clears the deadline
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if info, err := os.Lstat(log.Path); o.Follow && err == nil && info.Mode().IsRegular() {
		if err := out.begin(); err != nil {
			return err
		}
	}
	err := s.logs.Read(ctx, log, o, out, out)
	var damaged *logs.DamagedError
	switch {
	case err == nil, ctx.Err() != nil, out.failed:
		return nil
	case errors.As(err, &damaged) && out.begun:
		s.line(userOf(r), "damaged").Error(err, "A log is damaged", "path", log.Path)
		return nil
	case out.begun:
		s.line(userOf(r), "unreadable").Error(err, "A log cannot be read to its end", "path", log.Path)
		panic(http.ErrAbortHandler)
	case errors.Is(err, fs.ErrNotExist):
		return notFound("%w", err)
	}
	return err
}

// takeTime is how long a caller may stop reading a log that it does not follow, for example to page through it. Such a
// log counts as a stream.
const takeTime = 5 * time.Minute

// A logWriter writes to a caller. If the caller follows the log, each Write is sent at once.
type logWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	flush   bool
	begun   bool
	failed  bool
	// timer ends the reading when nothing was written for idle.
	timer *time.Timer
	idle  time.Duration
	// take is the time after which a Write fails if the caller does not read.
	take time.Duration
}

func (s *Server) newLogWriter(w http.ResponseWriter, follow bool) *logWriter {
	out := &logWriter{w: w, control: http.NewResponseController(w), flush: follow, idle: s.idle, take: s.idle}
	if !follow {
		out.take = min(takeTime, out.idle)
	}
	return out
}

// begin sends the header before there is output.
func (l *logWriter) begin() error {
	l.begun = true
	l.w.WriteHeader(http.StatusOK)
	return l.control.Flush()
}

// limit bounds the writes from now on. A writer without deadlines is bounded by its caller.
func (l *logWriter) limit() { _ = l.control.SetWriteDeadline(time.Now().Add(l.take)) }

func (l *logWriter) Write(b []byte) (int, error) {
	l.begun = true
	l.limit()
	defer func() { _ = l.control.SetWriteDeadline(time.Time{}) }()
	n, err := l.w.Write(b)
	if err == nil && l.flush {
		err = l.control.Flush()
	}
	if err == nil && l.timer.Stop() {
		l.timer.Reset(l.idle)
	}
	l.failed = err != nil
	return n, err
}
