package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/logs"
	"github.com/podsync/podsync/runtime/stats"
	"github.com/podsync/podsync/syncpod/loop"
)

// agent is what is served. A *loop.Loop is one.
type agent interface {
	Pods() []loop.Pod
	Health() loop.Health
	Cache() *runtime.Cache
	Explain(pod types.UID) string
}

// criRuntime is what is asked of the container runtime. A *cri.Client is one.
type criRuntime interface {
	cri.Execer
	stats.Runtime
	ContainerStatus(context.Context, *runtimeapi.ContainerStatusRequest, ...grpc.CallOption) (*runtimeapi.ContainerStatusResponse, error)
	Exec(context.Context, *runtimeapi.ExecRequest, ...grpc.CallOption) (*runtimeapi.ExecResponse, error)
	Attach(context.Context, *runtimeapi.AttachRequest, ...grpc.CallOption) (*runtimeapi.AttachResponse, error)
	PortForward(context.Context, *runtimeapi.PortForwardRequest, ...grpc.CallOption) (*runtimeapi.PortForwardResponse, error)
	CheckpointContainer(context.Context, *runtimeapi.CheckpointContainerRequest, ...grpc.CallOption) (*runtimeapi.CheckpointContainerResponse, error)
}

// Config is what a Server is made of.
type Config struct {
	// Agent is served. Required.
	Agent agent
	// Runtime is the agent's. Required.
	Runtime criRuntime
	// NodeName is the node of which Authorizer is asked, and that of /stats/summary.
	NodeName string

	// Authenticator says who asks, and Authorizer whether they may. Default: nobody
	// may anything.
	Authenticator Authenticator
	Authorizer    Authorizer

	// Stats reads what node and pods use. Default: one of Runtime, with the defaults of
	// package stats.
	Stats *stats.Reader
	// Metrics serves /metrics and /metrics/probes. What package modules/prometheus, a
	// module of its own, makes is one. Default: there are no such paths.
	Metrics http.Handler
	// Timeline serves /timeline: what happened to each pod. A *timeline.Timeline is one.
	// Default: there is no such path.
	Timeline http.Handler

	// Configz is what /configz answers, as JSON. It must hold no secrets. Default:
	// there is no such path.
	Configz any
	// NodeLogs is the directory of the node's own logs, an absolute path, which /logs
	// serves with all that is below it but links that lead out of it. Default: they
	// are not served.
	NodeLogs string
	// Checkpoints is the directory in which the runtime puts checkpoints of containers,
	// an absolute path. They have all that was in the memory of the container. Default:
	// none are made.
	Checkpoints string

	// NoDebugging answers all that acts in containers or prints their logs, and the lists and
	// files for debugging, with 405: exec, attach, portForward, run, containerLogs, runningpods,
	// configz, logs, timeline and explain. Default: they are served.
	NoDebugging bool
	// StreamIdleTimeout is the time after which a stream or a log that is followed ends if
	// nothing was sent or received. Default 4 h.
	StreamIdleTimeout time.Duration
	// StreamTransport is how the runtime's streaming server is reached. Default: over
	// TCP, and TLS with any certificate, as runtimes make one for themselves.
	StreamTransport http.RoundTripper
	// Log gets a line when a stream begins and when it has ended, with the user, its address, the
	// verb, the pod and the container and without the command. Of requests that are no streams,
	// requests that are refused, and failures that no answer can report, it gets at most one line per
	// user and kind of event every ten seconds, with the number of those that were left out. Default
	// silent.
	Log logr.Logger
}

// A Server answers the requests that a kubelet does. Make one with New; it may be used
// concurrently.
type Server struct {
	config Config
	logs   logs.Reader
	routes *http.ServeMux
	open   openStreams
	// answers are those that were not read yet. encoding has an element for each that is made.
	answers  answers
	encoding chan struct{}
	// lines are those that requests cause in the log.
	lines lines

	allStats, cpuAndMemory figures
}

// New returns a Server that does nothing until it is asked. The error names the field
// of the Config that is missing or wrong.
func New(c Config) (*Server, error) {
	switch {
	case c.Agent == nil:
		return nil, errors.New("server: Config.Agent is missing")
	case c.Runtime == nil:
		return nil, errors.New("server: Config.Runtime is missing")
	case (c.Authenticator == nil) != (c.Authorizer == nil):
		return nil, errors.New("server: of Config.Authenticator and Authorizer one is missing")
	case c.StreamIdleTimeout < 0:
		return nil, fmt.Errorf("server: Config.StreamIdleTimeout is negative: %v", c.StreamIdleTimeout)
	case c.NodeLogs != "" && !filepath.IsAbs(c.NodeLogs):
		return nil, errors.New("server: Config.NodeLogs is not an absolute path: " + c.NodeLogs)
	case c.Checkpoints != "" && !filepath.IsAbs(c.Checkpoints):
		return nil, errors.New("server: Config.Checkpoints is not an absolute path: " + c.Checkpoints)
	}
	c.StreamIdleTimeout = cmp.Or(c.StreamIdleTimeout, defaultStreamIdleTimeout)
	if c.StreamTransport == nil {
		c.StreamTransport = &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
			DialContext: (&net.Dialer{Timeout: reachTime}).DialContext, TLSHandshakeTimeout: reachTime,
			ResponseHeaderTimeout: openTime, MaxResponseHeaderBytes: maxRefusal,
		}
	}
	if c.Stats == nil {
		var err error
		if c.Stats, err = stats.New(stats.Config{Runtime: c.Runtime}); err != nil {
			return nil, err
		}
	}
	s := &Server{config: c, answers: answers{ofUser: map[string]int{}}, encoding: make(chan struct{}, maxEncoding)}
	failed := func(err error) { s.line("", "figures").Error(err, "Some of what is used cannot be read") }
	s.allStats = figures{read: c.Stats.Read, failed: failed}
	s.cpuAndMemory = figures{read: c.Stats.ReadCPUAndMemory, failed: failed}
	s.routes = s.newRoutes()
	return s, nil
}
