package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
)

const (
	// defaultPoll is the interval at which a kubelet reads its staticPodURL.
	defaultPoll = 20 * time.Second
	// listTimeout limits a call to List, listGrace how long List may take to return after that.
	listTimeout = 30 * time.Second
	listGrace   = time.Second
)

// PollConfig configures a [Poll].
type PollConfig struct {
	// Name is the source's name. It must not be used by another source, nor runtime.ConfigSourceAPI.
	// Required.
	Name string
	// List returns all pods that should run. Each needs a UID; podspec.Static sets the UID for a pod without one. List
	// must return soon after its context has ended, which happens after 30 s at the latest. Required.
	List func(ctx context.Context) ([]*v1.Pod, error)
	// Interval is the time between List's return and the next call. Default 20 s.
	Interval time.Duration
}

// Poll is a [Source] for static pods that a function returns, for example by reading them from a
// server.
//
// If List fails, or does not return in time, the Snapshot contains the error, and the last
// result's pods keep running. Until the first result the snapshots are incomplete, so that no pod
// from an earlier agent is stopped. If a pod is invalid, its previous version keeps running; the
// other pods are updated.
type Poll struct {
	config PollConfig
	push   *Push // defaults, validates and remembers the pods
}

var _ Source = (*Poll)(nil)

// NewPoll returns a Poll. It does not call List before Run.
func NewPoll(c PollConfig) (*Poll, error) {
	switch {
	case c.Name == "":
		return nil, errors.New("source: PollConfig.Name is missing")
	case c.Name == runtime.ConfigSourceAPI:
		return nil, fmt.Errorf("source: PollConfig.Name is %q, which is reserved for the pods of an API server", c.Name)
	case c.List == nil:
		return nil, errors.New("source: PollConfig.List is missing")
	case c.Interval < 0:
		return nil, fmt.Errorf("source: PollConfig.Interval is %v: it must not be negative", c.Interval)
	case c.Interval == 0:
		c.Interval = defaultPoll
	}
	return &Poll{config: c, push: NewStaticPush(c.Name)}, nil
}

// Name returns the source's name.
func (p *Poll) Name() string { return p.config.Name }

// Run calls List and delivers its pods until ctx ends. It returns nil, after List's last call has returned.
func (p *Poll) Run(ctx context.Context, deliver func(Snapshot)) error {
	last := Snapshot{Incomplete: true}
	changed := func(s Snapshot) {
		if ctx.Err() == nil && !same(s, last) {
			last = s
			deliver(s)
		}
	}
	failed := func(err error) {
		s := last
		s.Errors = []error{fmt.Errorf("source %s: %w", p.config.Name, err)}
		changed(s)
	}
	for ctx.Err() == nil {
		pods, err := p.list(ctx, failed)
		if err != nil {
			failed(err)
		} else {
			p.take(pods, changed)
		}
		select {
		case <-ctx.Done():
		case <-time.After(p.config.Interval):
		}
	}
	return nil
}

// list calls List. It reports a call that ignores its context's end at once, and then waits for its answer.
func (p *Poll) list(ctx context.Context, late func(error)) ([]*v1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var pods []*v1.Pod
	var err error
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		pods, err = p.config.List(ctx)
	}()
	select {
	case <-returned:
		return pods, err
	case <-time.After(listTimeout + listGrace):
		late(fmt.Errorf("the call of List has not returned %v after the end of its context", listGrace))
	}
	<-returned
	return pods, err
}

// take delivers List's answer.
func (p *Poll) take(pods []*v1.Pod, deliver func(Snapshot)) {
	errs := p.push.set(pods)
	unknown := func(pod *v1.Pod) bool { return pod == nil || p.push.pods[pod.UID] == nil }
	incomplete := slices.ContainsFunc(pods, unknown) // an earlier agent may run its version
	for _, s := range p.push.snapshots() {
		s.Errors, s.Incomplete = errs, incomplete
		deliver(s)
	}
}
