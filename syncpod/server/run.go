package server

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// serveRun answers with what a command prints.
func (s *Server) serveRun(w http.ResponseWriter, r *http.Request) error {
	command := strings.Fields(r.URL.Query().Get("cmd"))
	if len(command) == 0 {
		return badRequest("cmd is missing")
	}
	c, err := s.running(r)
	if err != nil {
		return err
	}
	end, err := s.begin(r, "run", c.Name, c.ID.String())
	if err != nil {
		return err
	}
	defer end()
	resp, err := s.config.Runtime.ExecSync(r.Context(), &runtimeapi.ExecSyncRequest{ContainerId: c.ID.ID, Cmd: command})
	if err != nil {
		return fromRuntime(err)
	}
	output := append(resp.GetStdout(), resp.GetStderr()...)
	if code := resp.GetExitCode(); code != 0 {
		return fmt.Errorf("command terminated with exit code %d: %s", code, output)
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(output) // whoever has gone does not read the error either
	return nil
}

// serveCheckpoint has the runtime write a checkpoint of a container, and answers with
// its path.
func (s *Server) serveCheckpoint(w http.ResponseWriter, r *http.Request) error {
	if s.config.Checkpoints == "" {
		return disabled("checkpoints")
	}
	timeout := int64(0)
	if text := r.URL.Query().Get("timeout"); text != "" {
		var err error
		if timeout, err = strconv.ParseInt(text, 10, 64); err != nil || timeout < 0 {
			return badRequest("timeout: %q is no number of seconds", text)
		}
	}
	c, err := s.running(r)
	if err != nil {
		return err
	}
	// The names are those of a pod that is there, which are no paths.
	name := fmt.Sprintf("checkpoint-%s_%s-%s-%s.tar", r.PathValue("pod"), r.PathValue("namespace"), c.Name, time.Now().UTC().Format(time.RFC3339))
	location := filepath.Join(s.config.Checkpoints, filepath.Base(name))
	end, err := s.begin(r, "checkpoint", c.Name, c.ID.String())
	if err != nil {
		return err
	}
	defer end()
	_, err = s.config.Runtime.CheckpointContainer(r.Context(), &runtimeapi.CheckpointContainerRequest{ContainerId: c.ID.ID, Location: location, Timeout: timeout})
	if err != nil {
		return fromRuntime(err)
	}
	return writeJSON(w, map[string][]string{"items": {location}})
}
