package agenttest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest"
)

// Agent is the agent under test: a program that keeps pods running on a CRI runtime. Its methods are
// called one after the other, except Kill.
type Agent interface {
	// Start starts the agent for the first time, or again after a Stop or Kill. It may return before
	// the agent has done anything.
	Start() error
	// SetPods sets all pods that should run. If it is called while the agent does not run, the agent
	// gets the pods when it starts. The pods belong to the caller and do not change.
	SetPods(pods []*v1.Pod) error
	// Stop ends the agent gracefully. Its pods keep running.
	Stop() error
	// Kill ends the agent as a crash does: after Kill has returned, the agent makes no call. Kill
	// may be called while the runtime responds to a call, and at any time between Start and Stop.
	Kill() error
}

// Node is an agent's node: a runtime, and directories that only this agent uses.
type Node struct {
	// Root is for the agent's own files, Logs for container logs. All lives of an agent in one
	// scenario share them; they are removed when the scenario ends.
	Root, Logs string

	runtime *critest.Runtime
	listen  *listening
	report  func(types.UID, v1.PodStatus)
}

// listening is the runtime's socket. It is created at its first use.
type listening struct {
	sync.Once
	endpoint string
	err      error
}

// Endpoint returns the runtime's endpoint: unix:///path. In virtual time use Dial, because a socket
// cannot be part of a bubble of testing/synctest.
func (n Node) Endpoint() (string, error) {
	n.listen.Do(func() { n.listen.endpoint, n.listen.err = n.runtime.Listen(filepath.Join(n.Root, "cri.sock")) })
	return n.listen.endpoint, n.listen.err
}

// Dial connects to the runtime without a socket. The caller must close the connection.
func (n Node) Dial(opts ...grpc.DialOption) (*critest.Conn, error) { return n.runtime.Dial(opts...) }

// Report records a pod status that the agent would write to an API server. An agent that reports
// statuses calls it for each of them, also concurrently. An agent that never calls it is judged by its
// calls and by the processes that ran.
func (n Node) Report(uid types.UID, status v1.PodStatus) { n.report(uid, status) }

// Config configures an agent test.
type Config struct {
	// Agent creates one scenario's agent, without starting it. Required.
	Agent func(Node) (Agent, error)
	// Scenarios are the scenarios to run. Default: Scenarios().
	Scenarios []Scenario
	// Notice is the maximum time until a running agent has noticed SetPods' pods. Default 5 s. An
	// agent that polls a folder needs its interval and one second more.
	Notice time.Duration
	// Patience is the maximum time from the end of all faults until the agent has brought all pods
	// to their desired state. Default 12 min, which is longer than back-offs of 5 min.
	Patience time.Duration
	// Parallel is the number of scenarios that Judge runs at a time. Default 1.
	Parallel int
	// Dir is the parent of the scenarios' directories. Default os.TempDir(). Its path should be
	// short, because socket paths are limited.
	Dir string
	// Progress is called when a scenario starts and ends, one call at a time. Nil for none.
	Progress func(Progress)
}

// Progress is a run's progress.
type Progress struct {
	Scenario string
	// Ended is false when the scenario begins.
	Ended bool
	// Err is why the scenario could not be run, nil if it could.
	Err error
	// Broken are the names of the promises that the agent broke in this scenario.
	Broken []string
	// Took is the scenario's duration, by its own clock.
	Took time.Duration
	// Done is the number of scenarios that have ended, and All the number of all scenarios.
	Done, All int
	// Report covers the scenarios that have ended, if Ended is set. A program that stores it has a
	// report even if it is killed.
	Report *Report
}

const (
	defaultNotice   = 5 * time.Second
	defaultPatience = 12 * time.Minute
)

func (c Config) withDefaults() (Config, error) {
	if c.Agent == nil {
		return c, errors.New("agenttest: Config.Agent is missing")
	}
	if c.Notice < 0 || c.Patience < 0 || c.Parallel < 0 {
		return c, errors.New("agenttest: Config.Notice, Config.Patience and Config.Parallel must not be negative")
	}
	if c.Scenarios == nil {
		c.Scenarios = Scenarios()
	}
	for _, s := range c.Scenarios {
		if err := s.validate(); err != nil {
			return c, fmt.Errorf("agenttest: Config.Scenarios: %w", err)
		}
	}
	if c.Notice == 0 {
		c.Notice = defaultNotice
	}
	if c.Patience == 0 {
		c.Patience = defaultPatience
	}
	if c.Parallel == 0 {
		c.Parallel = 1
	}
	if c.Dir == "" {
		c.Dir = os.TempDir()
	}
	if c.Progress == nil {
		c.Progress = func(Progress) {}
	}
	return c, nil
}
