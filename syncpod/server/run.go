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

// maxRunOutput is the room reserved for a command's output before it runs, in bytes: as much as a
// cri.Client receives, and a chunk for the text before it.
const maxRunOutput = 1<<20 + answerPart

// serveRun returns a command's output. If there is no room for the output, the command does not run.
func (s *Server) serveRun(a *answer, r *http.Request) error {
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
	if !a.reserve(maxRunOutput) {
		return errHeld
	}
	resp, err := s.config.Client.ExecSync(r.Context(), &runtimeapi.ExecSyncRequest{ContainerId: c.ID.ID, Cmd: command})
	if err != nil {
		return fromRuntime(err)
	}
	code := resp.GetExitCode()
	if code == 0 {
		a.Header().Set("Content-Type", "application/octet-stream")
	} else {
		a.Header().Set("Content-Type", "text/plain; charset=utf-8")
		a.Header().Set("X-Content-Type-Options", "nosniff")
		a.WriteHeader(http.StatusInternalServerError)
		_, err = fmt.Fprintf(a, "command terminated with exit code %d: ", code)
	}
	for _, text := range [][]byte{resp.GetStdout(), resp.GetStderr()} {
		if err == nil {
			_, err = a.Write(text)
		}
	}
	return err
}

// serveCheckpoint makes the runtime write a container checkpoint, and returns its path.
func (s *Server) serveCheckpoint(a *answer, r *http.Request) error {
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
	// The names are those of an existing pod, and contain no separator.
	name := fmt.Sprintf("checkpoint-%s_%s-%s-%s.tar", r.PathValue("pod"), r.PathValue("namespace"), c.Name, time.Now().UTC().Format(time.RFC3339))
	location := filepath.Join(s.config.Checkpoints, filepath.Base(name))
	end, err := s.begin(r, "checkpoint", c.Name, c.ID.String())
	if err != nil {
		return err
	}
	defer end()
	_, err = s.config.Client.CheckpointContainer(r.Context(), &runtimeapi.CheckpointContainerRequest{ContainerId: c.ID.ID, Location: location, Timeout: timeout})
	if err != nil {
		return fromRuntime(err)
	}
	return s.writeJSON(a, r, map[string][]string{"items": {location}})
}
