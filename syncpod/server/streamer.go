package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	loglines "github.com/podsync/podsync/runtime/foreign/lines"
)

// StreamRuntime returns Stream URLs, as a CRI runtime does. A backend that is no runtime serves the URLs with the
// streaming server of k8s.io/cri-streaming, or any other server of the protocols, and may do so in process: [HandlerTransport].
type StreamRuntime interface {
	Exec(context.Context, *runtimeapi.ExecRequest, ...grpc.CallOption) (*runtimeapi.ExecResponse, error)
	Attach(context.Context, *runtimeapi.AttachRequest, ...grpc.CallOption) (*runtimeapi.AttachResponse, error)
	PortForward(context.Context, *runtimeapi.PortForwardRequest, ...grpc.CallOption) (*runtimeapi.PortForwardResponse, error)
}

// A Path names a container or a pod. UID is empty if the caller of the API named none, and Container for a port-forward.
type Path struct{ Namespace, Pod, UID, Container string }

// StreamPods finds what a stream connects to. An error is answered with 404 and its text.
type StreamPods interface {
	// RunningContainer returns the ID of the running instance of a container.
	RunningContainer(ctx context.Context, p Path) (runtime.ContainerID, error)
	// ReadySandbox returns the runtime's ID of a pod's sandbox.
	ReadySandbox(ctx context.Context, p Path) (string, error)
}

// StreamsConfig configures a Streams.
type StreamsConfig struct {
	// Runtime returns Stream URLs, and Pods finds containers. Required.
	Runtime StreamRuntime
	Pods    StreamPods
	// IdleTimeout and Transport are Config.StreamIdleTimeout and Config.StreamTransport, with the same defaults.
	IdleTimeout time.Duration
	Transport   http.RoundTripper
	// Log receives a line at the start and end of each stream, as Config.Log. Default: no log.
	Log logr.Logger
}

// Streams serves exec, attach and port-forward for any pods: the paths /exec, /attach and /portForward of a Server, with its
// protocols and limits, and without an agent. It authenticates nobody: its caller does, and passes the user with [WithUser], which
// limits and log lines use.
type Streams struct {
	streamer
	routes *http.ServeMux
}

// NewStreams returns a Streams that does nothing before the first request.
func NewStreams(c StreamsConfig) (*Streams, error) {
	switch {
	case c.Runtime == nil:
		return nil, errors.New("server: StreamsConfig.Runtime is missing")
	case c.Pods == nil:
		return nil, errors.New("server: StreamsConfig.Pods is missing")
	case c.IdleTimeout < 0:
		return nil, fmt.Errorf("server: StreamsConfig.IdleTimeout is negative: %v", c.IdleTimeout)
	}
	s := &Streams{routes: http.NewServeMux(), streamer: streamer{runtime: c.Runtime, transport: c.Transport, idle: c.IdleTimeout, log: loglines.Bound(c.Log)}}
	s.setDefaults()
	s.findContainer = func(r *http.Request) (id runtime.ContainerID, err error) {
		if id, err = c.Pods.RunningContainer(r.Context(), pathOf(r)); err != nil {
			err = notFound("%w", err)
		}
		return id, err
	}
	s.findSandbox = func(r *http.Request) (id string, err error) {
		if id, err = c.Pods.ReadySandbox(r.Context(), pathOf(r)); err != nil {
			err = notFound("%w", err)
		}
		return id, err
	}
	s.handle(inContainer("GET /exec", "POST /exec"), s.serveExec)
	s.handle(inContainer("GET /attach", "POST /attach"), s.serveAttach)
	s.handle(inPod("GET /portForward", "POST /portForward"), s.servePortForward)
	return s, nil
}

func (s *Streams) handle(patterns []string, serve func(http.ResponseWriter, *http.Request) error) {
	for _, pattern := range patterns {
		s.routes.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			err := s.checkOrigin(r, true)
			if err == nil {
				err = serve(w, r)
			}
			if err != nil {
				writeError(w, err)
			}
		})
	}
}

// ServeHTTP answers a request.
func (s *Streams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !isClean(r.URL.Path) {
		writeError(w, notFound("there is no path %q", r.URL.Path))
		return
	}
	s.routes.ServeHTTP(w, r)
}

// WithUser returns a request from a user whom the caller has authenticated.
func WithUser(r *http.Request, user User) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), userKey{}, user))
}

func pathOf(r *http.Request) Path {
	return Path{Namespace: r.PathValue("namespace"), Pod: r.PathValue("pod"), UID: r.PathValue("uid"), Container: r.PathValue("container")}
}

// streamer serves streams, for a Server and for a Streams.
type streamer struct {
	runtime       StreamRuntime
	findContainer func(*http.Request) (runtime.ContainerID, error)
	findSandbox   func(*http.Request) (string, error)
	transport     http.RoundTripper
	// idle is the time without data after which a stream ends.
	idle time.Duration
	log  logr.Logger
	open openStreams
	// lines limits the log request lines.
	lines lines
}

func (s *streamer) setDefaults() {
	s.idle = cmp.Or(s.idle, defaultStreamIdleTimeout)
	if s.transport == nil {
		s.transport = &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
			DialContext: (&net.Dialer{Timeout: reachTime}).DialContext, TLSHandshakeTimeout: reachTime,
			ResponseHeaderTimeout: openTime, MaxResponseHeaderBytes: maxRefusal,
		}
	}
}
