package server

import (
	"io"
	"net/http"
)

// serveExplain returns what happens to a pod next, why, and what that waits for.
func (s *Server) serveExplain(a *answer, r *http.Request) error {
	pod, err := s.pod(r)
	if err != nil {
		return err
	}
	a.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, err = io.WriteString(a, s.config.Agent.Explain(pod.Pod.UID))
	return err
}
