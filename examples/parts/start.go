package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/runtime/logs"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/container/start"
	"github.com/podsync/podsync/syncpod/lifecycle"
	"github.com/podsync/podsync/syncpod/lifecycle/handler"
	"github.com/podsync/podsync/syncpod/memory"
	"github.com/podsync/podsync/syncpod/status"
)

const postStartTimeout = 2 * time.Minute

// startAll starts the containers of the plan in order. Their images are pulled at the same time.
func (p *pass) startAll(ctx context.Context, unstopped map[string]error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type pulled struct {
		image *image.Image
		err   error
	}
	pulls := map[string]chan pulled{}
	for _, step := range p.plan.Start {
		if unstopped[step.Container.Name] == nil && !step.Hold.Holds() {
			c, result := step.Container.Spec(p.pod), make(chan pulled, 1)
			pulls[c.Name] = result
			go func() {
				img, err := p.images.EnsureImageExists(ctx, image.Request{
					Image: c.Image, Policy: c.ImagePullPolicy, PodUID: p.uid, PodAnnotations: p.pod.Annotations, Sandbox: p.sandbox,
				})
				result <- pulled{img, err}
			}()
		}
	}
	var errs []error
	for _, step := range p.plan.Start {
		c := step.Container.Spec(p.pod)
		if step.Hold.Reason == actions.CrashBackOff {
			p.lock.Lock()
			p.problems[c.Name] = status.Problem{Reason: "CrashLoopBackOff", Message: step.Hold.Message}
			p.lock.Unlock()
		}
		if pulls[c.Name] == nil {
			continue
		}
		got := <-pulls[c.Name]
		why, err := status.Reason(image.ErrImagePull), got.err
		if e, ok := errors.AsType[*image.Error](err); ok {
			why = status.Reason(e.Reason)
			p.wait(e.RetryAt)
		} else if err == nil && ctx.Err() == nil {
			why, err = p.start(ctx, step, got.image)
			got.image.Release()
		}
		if err != nil {
			errs = append(errs, p.failed(ctx, memory.KeyOf(c), c.Name, status.Problem{Reason: why, Message: err.Error()}, err))
			continue
		}
		p.lock.Lock()
		p.failures.Succeeded(memory.KeyOf(c))
		delete(p.problems, c.Name)
		p.lock.Unlock()
	}
	return errors.Join(errs...)
}

// start creates and starts one container, and runs its postStart handler.
func (p *pass) start(ctx context.Context, step actions.StartStep, img *image.Image) (status.Reason, error) {
	c := step.Container.Spec(p.pod)
	ranAfterAll := false
	attempts, err := logs.Attempts(filepath.Join(p.sandbox.LogDirectory, c.Name))
	attempt := step.Attempt
	p.do(func(m *memory.Pod) {
		if last := p.status.Latest(c.Name); last != nil && last.State == runtime.ContainerExited {
			m.Crashes.Crashed(c, last, time.Now())
		}
		ranAfterAll = m.Containers.HasRunSince(p.status, c.Name)
		if len(attempts) > 0 {
			attempt = max(attempt, attempts[len(attempts)-1]+1)
		}
		attempt = m.Containers.Attempt(c.Name, attempt)
	})
	if err != nil || ranAfterAll {
		return "CreateContainerError", errors.Join(err, fmt.Errorf("container %s has run after all: %t", c.Name, ranAfterAll))
	}
	found := container.Image{Ref: img.ID, UID: img.UID, Username: img.Username}
	if err := container.VerifyRunAsNonRoot(p.pod, c, found); err != nil {
		return "CreateContainerConfigError", err
	}
	vars, err := env.MakeEnvironment(ctx, env.Input{Pod: p.pod, Container: c.Name, PodIPs: p.ips}, env.Sources{})
	if err != nil {
		return "CreateContainerConfigError", err
	}
	config, err := container.GenerateContainerConfig(container.Input{Pod: p.pod, Name: c.Name, Attempt: attempt, Image: found, Env: vars, Node: p.node, Labels: cri.Owner{}.Mark(nil)})
	if err == nil {
		err = makeLogs(p.sandbox.LogDirectory, c.Name)
	}
	if err != nil {
		return "CreateContainerConfigError", err
	}
	id, err := p.starts.Create(ctx, start.Request{SandboxID: p.id, Sandbox: p.sandbox, Config: config, Attempts: p.podState})
	if err != nil {
		return "CreateContainerError", err
	}
	hooked := c.Lifecycle != nil && c.Lifecycle.PostStart != nil
	p.do(func(m *memory.Pod) {
		m.Containers.Used(c.Name, attempt)
		m.Containers.SetEverStarted(c.Name, true)
		m.Instances.Mark(id, memory.StartRequested) // the answer may be lost
		if hooked {
			m.Instances.Mark(id, memory.PostStartPending)
		}
	})
	if err := p.starts.Start(ctx, id); err != nil {
		if !cri.Ambiguous(err) {
			p.Unmark(id, memory.StartRequested)
		}
		return "RunContainerError", err // the next pass inspects the container
	}
	started := runtime.ContainerStatus{
		Name: c.Name, ID: runtime.ContainerID{Type: p.runtimeName, ID: id}, Attempt: attempt, State: runtime.ContainerRunning, StartedAt: time.Now(),
		SandboxID: p.id, SpecHash: runtime.HashContainer(c), Image: c.Image,
	}
	p.do(func(m *memory.Pod) {
		m.Instances.Unmark(id, memory.StartRequested)
		m.Containers.Started(started)
	})
	if hooked {
		return "PostStartHookError", p.postStart(ctx, step.Container, started.ID)
	}
	return "", nil
}

// postStart runs a postStart handler. If it fails, the container is stopped.
func (p *pass) postStart(ctx context.Context, ref actions.ContainerRef, id runtime.ContainerID) error {
	c := ref.Spec(p.pod)
	hooking, cancel := context.WithTimeout(ctx, postStartTimeout)
	defer cancel()
	_, err := p.hooks.Run(hooking, handler.Request{Handler: c.Lifecycle.PostStart, Container: c.Name, ContainerID: id.ID, Ports: c.Ports, PodIP: handler.Address(p.pod, p.ips), HTTPFallback: true})
	if err != nil && ctx.Err() != nil {
		return err // it runs again, or the container is stopped
	}
	if err != nil {
		err = errors.Join(err, p.stopper.KillContainer(ctx, lifecycle.Container{
			Pod: p.pod, Ref: &ref, Memory: p.podState, IPs: p.ips, Status: &runtime.ContainerStatus{Name: c.Name, ID: id, State: runtime.ContainerRunning},
			Deadline: time.Now().Add(lifecycle.PodGrace(p.pod, nil)), Message: "FailedPostStartHook",
		}))
	}
	p.Unmark(id.ID, memory.PostStartPending)
	return err
}
