// Package plancheck compares the calls with which an agent changes the runtime with its
// plans: each call must belong to a step of the last plan for its pod, in the order
// of the plan, and each step must be carried out. A start whose image is being pulled may belong to an earlier plan of the
// same work.
//
// A [Checker] watches one run of an agent.Agent, on any runtime. Two kinds of calls belong to no plan: those of
// housekeeping, which removes exited containers, and those that stop a pod. Neither may
// create, start or resize anything.
package plancheck

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
)

// Checker judges one run of an agent. Its methods may be called concurrently.
type Checker struct {
	mu         sync.Mutex
	pods       map[types.UID]*pod
	containers map[string]*container
	sandboxes  map[string]types.UID
	judged     int
	broken     []string
}

// New returns a Checker that has seen nothing.
func New() *Checker {
	return &Checker{pods: map[types.UID]*pod{}, containers: map[string]*container{}, sandboxes: map[string]types.UID{}}
}

// Watch makes the Checker observe the calls and the plans of an agent with this config,
// whose Client must be set. The agent gets its own Client, on the same connection.
func (c *Checker) Watch(cfg *nodeagent.Config) {
	own := *cfg.Client
	own.RuntimeServiceClient = client{own.RuntimeServiceClient, c}
	cfg.Client = &own
	cfg.Observe(nodeagent.Observers{Sync: planObserver{c: c}, Workers: workObserver{c: c}})
}

// Verdict returns the number of judged calls and works, and the violations.
func (c *Checker) Verdict() (judged int, broken []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.judged, c.broken
}

// Check has the Checker watch an agent that a test makes with the config, and fails the test in
// the end if a call or a plan was wrong.
func Check(t testing.TB, cfg *nodeagent.Config) {
	c := New()
	c.Watch(cfg)
	t.Cleanup(func() {
		if _, broken := c.Verdict(); len(broken) > 0 {
			t.Errorf("not as planned:\n%s", strings.Join(broken, "\n"))
		}
	})
}

func (c *Checker) wrong(uid types.UID, format string, args ...any) {
	c.broken = append(c.broken, fmt.Sprintf("pod %s at %s: ", uid, time.Now().Format("15:04:05.000"))+fmt.Sprintf(format, args...))
}

// pod must be called with mu held.
func (c *Checker) pod(uid types.UID) *pod {
	if c.pods[uid] == nil {
		c.pods[uid] = &pod{failedPulls: map[string]bool{}}
	}
	return c.pods[uid]
}

type planObserver struct {
	syncpod.NopObserver
	c *Checker
}

func (o planObserver) PlanMade(p *v1.Pod, plan actions.Plan) {
	o.c.planMade(p, plan)
}

func (o planObserver) ImagePulled(p *v1.Pod, container actions.ContainerRef, image string, took time.Duration, err error) {
	o.c.pulled(p.UID, image, err)
}

type workObserver struct {
	podworkers.NopObserver
	c *Checker
}

func (o workObserver) SyncStarted(w podworkers.Work) {
	o.c.workBegan(w.UID, w.Type)
}

func (o workObserver) SyncEnded(w podworkers.Work, took time.Duration, err error) {
	o.c.workEnded(w.UID, err)
}

func (c *Checker) workBegan(uid types.UID, work podworkers.WorkType) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pod(uid)
	p.progress = progress{begun: map[string]bool{}}
	p.ends = work != podworkers.SyncPod
}

func (c *Checker) planMade(of *v1.Pod, plan actions.Plan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pod(of.UID)
	p.progress = progress{of: of, plan: &plan, begun: map[string]bool{}, inFlight: p.stillInFlight(plan), stopping: p.stopsBegun(), hooked: p.hooksBegun()}
	if plan.Sandbox.ID != "" {
		p.sandbox = plan.Sandbox.ID
	}
	for id := range p.removals() {
		if c.containers[id] == nil { // the agent has a record of it, and the runtime has not listed it
			c.containers[id] = &container{pod: of.UID}
		}
	}
}

func (c *Checker) pulled(uid types.UID, image string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pod(uid).failedPulls[image] = err != nil
}

// workEnded reports steps of a plan that were not carried out although no call failed.
func (c *Checker) workEnded(uid types.UID, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pod(uid)
	if p.plan != nil && err == nil {
		c.judged++
		if left := p.left(); left != "" {
			c.wrong(uid, "the work has ended without an error, but not carried out: %s\nof the plan\n%v", left, *p.plan)
		}
	}
	p.progress = progress{}
}
