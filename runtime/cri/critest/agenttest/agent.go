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

// Agent is the agent under test: a program that keeps pods running on a CRI runtime. Its methods
// are called one after the other, except Kill.
type Agent interface {
	// Start starts the agent, again after a Stop or Kill. It need not wait until the
	// agent does anything.
	Start() error
	// SetPods sets the pods that should run, all of them. It is called while the agent runs and while
	// it does not: then the agent gets the pods when it starts. The pods belong to the caller and
	// do not change.
	SetPods(pods []*v1.Pod) error
	// Stop ends the agent in peace. Its pods run on.
	Stop() error
	// Kill ends it as a crash does: from its return on the agent makes no call. It may be
	// called while the runtime answers one, and at any time between Start and Stop.
	Kill() error
}

// Node is what an agent is given: a runtime, and directories of its own.
type Node struct {
	// Root is for what the agent keeps, Logs for the logs of containers. They are the same
	// for all lives of an agent in one scenario, and removed with it.
	Root, Logs string

	runtime *critest.Runtime
	listen  *listening
	report  func(types.UID, v1.PodStatus)
}

// listening is the runtime's socket, which is created when it is first needed.
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

// Dial connects to the runtime without a socket. The caller closes the connection.
func (n Node) Dial(opts ...grpc.DialOption) (*grpc.ClientConn, error) { return n.runtime.Dial(opts...) }

// Report receives statuses of pods, for an agent that reports them: each that it would write to an
// API server. It may be called concurrently. An agent that never calls it is judged by its calls
// and by the processes that ran.
func (n Node) Report(uid types.UID, status v1.PodStatus) { n.report(uid, status) }

// Config configures a test of an agent.
type Config struct {
	// Agent makes the agent of one scenario. It starts nothing. Required.
	Agent func(Node) (Agent, error)
	// Scenarios are those that are played. Default: Scenarios().
	Scenarios []Scenario
	// Notice is how long it may take until a running agent has the pods of SetPods. Default
	// 5 s; an agent that looks at a folder now and then needs that time, and a second.
	Notice time.Duration
	// Patience bounds how long an agent may take, once all trouble is over, until pods are
	// as they should be. Default 12 min: back-offs of 5 min fit in.
	Patience time.Duration
	// Parallel is how many scenarios Judge plays at a time. Default 1.
	Parallel int
	// Dir is where the directories of scenarios are made. Default os.TempDir(). Its path
	// should be short, for the sake of the sockets in it.
	Dir string
	// Progress is called at the start and the end of a scenario, one call at a time. Nil for none.
	Progress func(Progress)
}

// Progress is where a run stands.
type Progress struct {
	Scenario string
	// Ended is false when the scenario begins.
	Ended bool
	// Err is what kept the scenario from being played.
	Err error
	// Broken are the names of the promises that were not kept in it.
	Broken []string
	// Took is how long it took by the clock that it was played by.
	Took time.Duration
	// Done of All have ended.
	Done, All int
	// Report is on the scenarios that have ended, if Ended is set. A program that keeps it
	// has a report also if it is killed.
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
