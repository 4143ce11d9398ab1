package server

import (
	"io"
	"net/http"
)

// serveExplain answers what happens to a pod next, why, and what that waits for.
func (s *Server) serveExplain(w http.ResponseWriter, r *http.Request) error {
	pod, err := s.pod(r)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, err = io.WriteString(w, s.config.Agent.Explain(pod.Pod.UID))
	return err
}
