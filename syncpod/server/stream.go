package server

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
)

// streams are the requested streams of a process, from the request's parameters.
type streams struct{ stdin, stdout, stderr, tty bool }

func streamsOf(q url.Values) (streams, error) {
	st := streams{stdin: isOne(q, "input"), stdout: isOne(q, "output"), stderr: isOne(q, "error"), tty: isOne(q, "tty")}
	if !st.stdin && !st.stdout && !st.stderr {
		return st, badRequest("you must specify at least 1 of input, output, error")
	}
	st.stderr = st.stderr && !st.tty // a terminal has one output
	return st, nil
}

// serveExec connects the caller to a command that is run in a container.
func (s *streamer) serveExec(w http.ResponseWriter, r *http.Request) error {
	st, c, err := s.stream(r)
	if err != nil {
		return err
	}
	command := r.URL.Query()["command"]
	if len(command) == 0 {
		return badRequest("command is missing")
	}
	end, err := s.begin(r, "exec", r.PathValue("container"), c.String())
	if err != nil {
		return err
	}
	defer end()
	resp, err := s.runtime.Exec(r.Context(), &runtimeapi.ExecRequest{
		ContainerId: c.ID, Cmd: command, Tty: st.tty, Stdin: st.stdin, Stdout: st.stdout, Stderr: st.stderr,
	})
	if err != nil {
		return fromRuntime(err)
	}
	return s.connect(w, r, resp.GetUrl(), st)
}

// serveAttach connects the caller to a container's process.
func (s *streamer) serveAttach(w http.ResponseWriter, r *http.Request) error {
	st, c, err := s.stream(r)
	if err != nil {
		return err
	}
	end, err := s.begin(r, "attach", r.PathValue("container"), c.String())
	if err != nil {
		return err
	}
	defer end()
	resp, err := s.runtime.Attach(r.Context(), &runtimeapi.AttachRequest{
		ContainerId: c.ID, Tty: st.tty, Stdin: st.stdin, Stdout: st.stdout, Stderr: st.stderr,
	})
	if err != nil {
		return fromRuntime(err)
	}
	return s.connect(w, r, resp.GetUrl(), st)
}

// stream validates a request and returns its streams and container, before the runtime is called.
func (s *streamer) stream(r *http.Request) (streams, runtime.ContainerID, error) {
	st, err := streamsOf(r.URL.Query())
	if err != nil {
		return st, runtime.ContainerID{}, err
	}
	if err := upgrades(r); err != nil {
		return st, runtime.ContainerID{}, err
	}
	c, err := s.findContainer(r)
	return st, c, err
}

// servePortForward connects the caller to a pod's ports.
func (s *streamer) servePortForward(w http.ResponseWriter, r *http.Request) error {
	if err := upgrades(r); err != nil {
		return err
	}
	ports, err := portsOf(r)
	if err != nil {
		return err
	}
	sandbox, err := s.findSandbox(r)
	if err != nil {
		return err
	}
	end, err := s.begin(r, "portForward", "", sandbox)
	if err != nil {
		return err
	}
	defer end()
	resp, err := s.runtime.PortForward(r.Context(), &runtimeapi.PortForwardRequest{PodSandboxId: sandbox, Port: ports})
	if err != nil {
		return fromRuntime(err)
	}
	if len(tunnelled(r)) > 0 {
		return s.tunnel(w, r, resp.GetUrl())
	}
	return s.proxy(w, r, resp.GetUrl())
}

// portsOf returns the requested ports. Over SPDY, each connection names its port later.
func portsOf(r *http.Request) (ports []int32, err error) {
	if !isWebSocket(r) || len(tunnelled(r)) > 0 {
		return nil, nil
	}
	for _, text := range r.URL.Query()["port"] {
		for one := range strings.SplitSeq(text, ",") {
			port, err := strconv.ParseUint(one, 10, 16)
			if err != nil || port == 0 {
				return nil, badRequest("port: %q is no port", one)
			}
			ports = append(ports, int32(port))
		}
	}
	if len(ports) == 0 {
		return nil, badRequest("port is missing")
	}
	return ports, nil
}

// upgrades returns an error for a request that cannot become a stream.
func upgrades(r *http.Request) error {
	for _, values := range r.Header["Connection"] {
		for token := range strings.SplitSeq(values, ",") {
			if strings.EqualFold(strings.TrimSpace(token), "Upgrade") && r.Header.Get("Upgrade") != "" {
				return nil
			}
		}
	}
	return badRequest("Upgrade request required")
}

func isWebSocket(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}
