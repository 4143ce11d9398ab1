package server

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/podsync/podsync/syncpod/loop"
)

// A check is one part of the agent's health.
type check struct {
	name string
	fail func(loop.Health) error
}

// checks are the health checks of a kubelet. Problems of single pods do not count.
var checks = []check{
	{"ping", func(loop.Health) error { return nil }},
	{"log", func(loop.Health) error { return nil }}, // the embedder writes the log
	{"syncloop", syncLoop},
}

// syncLoop returns the problem that keeps the agent from syncing any pod.
func syncLoop(h loop.Health) error {
	if h.Runtime.Err != nil && !h.Runtime.Since.IsZero() {
		return fmt.Errorf("runtime: since %s: %w", h.Runtime.Since.UTC().Format(time.RFC3339), h.Runtime.Err)
	}
	if h.Runtime.Err != nil {
		return fmt.Errorf("runtime: %w", h.Runtime.Err)
	}
	if h.Runtime.ListErr != nil {
		return fmt.Errorf("runtime: pods cannot be listed: %w", h.Runtime.ListErr)
	}
	var errs []error
	for _, s := range h.Sources {
		if s.Failed != nil {
			errs = append(errs, fmt.Errorf("source %s: %w", s.Name, s.Failed))
		}
	}
	return errors.Join(errs...)
}

// serveHealth reports whether the agent is healthy. It returns no details, because every caller may call
// it.
func (s *Server) serveHealth(w http.ResponseWriter, _ *http.Request) error {
	var text strings.Builder
	failed := false
	health := s.config.Agent.Health()
	for _, c := range checks {
		if c.fail(health) == nil {
			fmt.Fprintf(&text, "[+]%s ok\n", c.name)
			continue
		}
		failed = true
		fmt.Fprintf(&text, "[-]%s failed: reason withheld\n", c.name)
	}
	if failed {
		return errors.New(text.String() + "healthz check failed")
	}
	_, _ = io.WriteString(w, "ok") // a disconnected caller does not need it
	return nil
}

// serveCheck reports whether one part is healthy, and the failure.
func (s *Server) serveCheck(w http.ResponseWriter, r *http.Request) error {
	for _, c := range checks {
		if c.name != r.PathValue("check") {
			continue
		}
		if err := c.fail(s.config.Agent.Health()); err != nil {
			return err
		}
		_, _ = io.WriteString(w, "ok")
		return nil
	}
	return notFound("there is no check %q", r.PathValue("check"))
}
