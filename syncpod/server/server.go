package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	loglines "github.com/podsync/podsync/runtime/foreign/lines"
	"github.com/podsync/podsync/runtime/logs"
	"github.com/podsync/podsync/runtime/stats"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/volume"
)

// An Agent has the pods that a Server serves. An *agent.Agent implements it, and a *loop.Loop, whose methods these are.
type Agent interface {
	Pods() []loop.Pod
	Health() loop.Health
	Cache() *runtime.Cache
	Explain(pod types.UID) string
}

// Config configures a Server. A zero field means its default.
type Config struct {
	// Agent is the agent to serve. Required.
	Agent Agent
	// Client is the agent's connection to the runtime. Required.
	Client *cri.Client
	// NodeName is the node's name for the Authorizer and for /stats/summary.
	NodeName string

	// Authenticator identifies users, Authorizer decides what they may do. Default: every request
	// is rejected.
	Authenticator Authenticator
	Authorizer    Authorizer

	// Stats reads the resource usage of the node, its pods and containers; use Agent.Stats of package
	// agent. Default: a reader that uses Client and reports the file system of the root directory as
	// the node's.
	Stats *stats.Reader
	// VolumeStats returns the last known usage of each mounted volume for /stats/summary, such as the method of a
	// *csi.Manager. It must return soon, also if a volume does not respond, and when ctx ends. Default: volumes are not
	// reported.
	VolumeStats func(ctx context.Context) []volume.Stats
	// Metrics serves /metrics and /metrics/probes. Package modules/prometheus, its own module,
	// provides one. Default: the paths do not exist.
	Metrics http.Handler
	// Timeline serves /timeline, each pod's history. A *timeline.Timeline implements it. Default: the
	// path does not exist.
	Timeline http.Handler
	// Plan serves POST /plan: what the manifests in the request would change. It must not change anything, and must bound
	// what it reads. Default: the path does not exist.
	Plan http.Handler

	// Drain serves POST /drain: it stops the pods. Its answer may report the progress as it comes. Default: the path does
	// not exist.
	Drain http.Handler

	// Configz is the response of /configz, as JSON. It must not contain secrets. Default: the path does
	// not exist.
	Configz any
	// NodeLogs is the absolute path of the directory of the node's own logs, which /logs serves,
	// except links that lead out of it. Default: not served.
	NodeLogs string
	// Checkpoints is the absolute path of the directory for container checkpoints. They contain the
	// container's memory. Default: no checkpoints.
	Checkpoints string

	// NoDebugging rejects, with 405, everything that acts in containers or prints their logs, and
	// the debugging endpoints: exec, attach, portForward, run, containerLogs, runningpods, configz,
	// logs, timeline, plan, drain and explain. Default: they are served.
	NoDebugging bool
	// StreamIdleTimeout is the time without data after which a stream or a followed log ends.
	// Default 4 h.
	StreamIdleTimeout time.Duration
	// StreamTransport connects to the runtime's streaming server. Default: TCP, and TLS with any
	// certificate, because runtimes create their own. HandlerTransport connects to a handler in this process.
	StreamTransport http.RoundTripper
	// Log receives a line at the start and end of each stream, with the user, its address, the
	// verb, the pod and the container, but not the command. For other requests, rejected requests,
	// and failures that no response can report, it receives at most one line for each user and kind
	// of event every ten seconds, with the number of lines dropped. Default: no log.
	Log logr.Logger
}

// A Server answers the requests that a kubelet answers. Create one with New. Its methods may be called concurrently.
type Server struct {
	config Config
	logs   logs.Reader
	routes *http.ServeMux
	streamer
	// answers are the responses that were not read yet. encoding has an element for each encoding
	// in progress.
	answers  answers
	encoding chan struct{}

	allStats, cpuAndMemory figures[stats.Stats]
	details                figures[[]stats.Detail]
}

// New returns a Server that does nothing before the first request. The error names the missing or invalid field
// of the Config.
func New(c Config) (*Server, error) {
	switch {
	case c.Agent == nil:
		return nil, errors.New("server: Config.Agent is missing")
	case c.Client == nil:
		return nil, errors.New("server: Config.Client is missing")
	case (c.Authenticator == nil) != (c.Authorizer == nil):
		return nil, errors.New("server: of Config.Authenticator and Authorizer one is missing")
	case c.StreamIdleTimeout < 0:
		return nil, fmt.Errorf("server: Config.StreamIdleTimeout is negative: %v", c.StreamIdleTimeout)
	case c.NodeLogs != "" && !filepath.IsAbs(c.NodeLogs):
		return nil, errors.New("server: Config.NodeLogs is not an absolute path: " + c.NodeLogs)
	case c.Checkpoints != "" && !filepath.IsAbs(c.Checkpoints):
		return nil, errors.New("server: Config.Checkpoints is not an absolute path: " + c.Checkpoints)
	}
	c.Log = loglines.Bound(c.Log)
	if c.Stats == nil {
		var err error
		if c.Stats, err = stats.New(stats.Config{Runtime: c.Client}); err != nil {
			return nil, err
		}
	}
	s := &Server{config: c, answers: answers{ofUser: map[string]int{}}, encoding: make(chan struct{}, maxEncoding), streamer: streamer{
		runtime: c.Client, transport: c.StreamTransport, idle: c.StreamIdleTimeout, log: c.Log,
	}}
	s.streamer.setDefaults()
	s.findContainer, s.findSandbox = s.runningID, s.sandboxID
	failed := func(err error) { s.line("", "figures").Error(err, "Some figures of usage cannot be read") }
	s.allStats = figures[stats.Stats]{read: c.Stats.Read, failed: failed}
	s.cpuAndMemory = figures[stats.Stats]{read: c.Stats.ReadCPUAndMemory, failed: failed}
	s.details = figures[[]stats.Detail]{read: c.Stats.ReadDetails, failed: failed}
	s.routes = s.newRoutes()
	return s, nil
}
