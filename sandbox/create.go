package sandbox

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
)

// Created is a sandbox that is ready.
type Created struct {
	ID string
	// Attempt is that of the sandbox, which may be higher than the one asked for.
	Attempt uint32
	// Adopted is set if an earlier Create had made it, whose answer was lost.
	Adopted bool
}

// Create runs a sandbox for a pod. The attempt in config is the lowest that may
// be used; a higher one is used if that one has been. config is not written to,
// and the owner's mark is added to a copy.
//
// When Create fails, what it had begun is removed, in a context of its own, since
// the usual reason to fail is that the given one has ended. Where the answer
// leaves open what happened (the time ran out, the runtime went away, the name is
// reserved: containerd #9947, cri-o #7010), Create looks at what is there:
//
//   - the sandbox is there and ready: it is adopted, or removed if ctx has ended;
//   - it is there and not ready: it is removed;
//   - it is not there: it may come later. The next Create looks again before it
//     asks for anything, and asks for the same attempt, because some runtimes keep
//     a sandbox that was made too late and hand it over when asked again. Only
//     when that was in vain RunnerConfig.ReservedTries times, refused or without
//     an answer, is the attempt given up.
//
// A pod that is ended while an attempt is in doubt may still get that sandbox: as
// with anything that comes up late, whoever looks at all pods of the runtime stops
// it.
//
// Errors of the runtime have a class of package cri. Try again after a pause.
func (r *Runner) Create(ctx context.Context, config *runtimeapi.PodSandboxConfig, runtimeHandler string) (Created, error) {
	if err := validate(config); err != nil {
		return Created{}, fmt.Errorf("sandbox: Create: %w", err)
	}
	c := creation{Runner: r, pod: types.UID(config.Metadata.Uid), handler: runtimeHandler}
	a := r.begin(c.pod, config.Metadata.Attempt)
	c.attempt, c.since, c.inDoubt = a.next, a.next, a.doubt
	if a.doubt {
		c.since = a.since
	}
	created, err := c.run(ctx, config)
	if err != nil {
		return Created{}, fmt.Errorf("sandbox of pod %s/%s, attempt %d: %w", config.Metadata.Namespace, config.Metadata.Name, c.attempt, err)
	}
	r.made(c.pod, created.Attempt)
	return created, nil
}

// validate looks at what Create finds a sandbox by.
func validate(config *runtimeapi.PodSandboxConfig) error {
	uid := config.GetMetadata().GetUid()
	switch label := config.GetLabels()[runtime.LabelPodUID]; {
	case uid == "":
		return errors.New("config.metadata.uid is empty")
	case label != uid:
		return fmt.Errorf("config.labels[%s] is %q, and not the UID in config.metadata, %q", runtime.LabelPodUID, label, uid)
	}
	return nil
}

// creation is one run of Create.
type creation struct {
	*Runner
	pod     types.UID
	handler string
	attempt uint32 // to make
	since   uint32 // the first that may have become a sandbox unnoticed
	inDoubt bool   // whether there is one from an earlier Create
}

func (c *creation) run(ctx context.Context, config *runtimeapi.PodSandboxConfig) (Created, error) {
	if c.inDoubt {
		if found, err := c.settle(ctx); err != nil || found != nil {
			return adopted(found), err
		}
	}
	if dir := config.GetLogDirectory(); dir != "" {
		if err := c.config.MakeLogDirectory(dir); err != nil {
			return Created{}, fmt.Errorf("log directory: %w", err)
		}
	}
	id, err := c.ask(ctx, config)
	switch {
	case err != nil && cri.Ambiguous(err):
		return c.afterDoubt(ctx, err)
	case err != nil:
		return Created{}, errors.Join(err, c.undo(ctx))
	case c.inDoubt:
		// What was in doubt may have come up while this one was made.
		c.logError(c.removeListed(ctx, func(s *runtimeapi.PodSandbox) bool { return s.GetId() != id && ready(s) }), "sandboxes of lost attempts remain")
	}
	return Created{ID: id, Attempt: c.attempt}, nil
}

func (c *creation) ask(ctx context.Context, config *runtimeapi.PodSandboxConfig) (id string, err error) {
	config = proto.CloneOf(config)
	config.Metadata.Attempt = c.attempt
	config.Labels = c.config.Owner.Mark(config.Labels)
	resp, err := c.config.Runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: c.handler})
	if err != nil {
		return "", cri.Classify(err)
	}
	if resp.GetPodSandboxId() == "" {
		return "", cri.Classify(errors.New("the runtime answered without a sandbox ID"))
	}
	return resp.GetPodSandboxId(), nil
}

// afterDoubt looks at what has become of an attempt whose answer says neither.
func (c *creation) afterDoubt(ctx context.Context, cause error) (Created, error) {
	c.doubt(c.pod, c.attempt)
	if ctx.Err() != nil {
		return Created{}, errors.Join(cause, c.undo(ctx))
	}
	found, err := c.settle(ctx)
	switch {
	case err != nil:
		return Created{}, errors.Join(cause, err)
	case found != nil:
		return adopted(found), nil
	case (c.inDoubt || nameTaken(cause)) && c.refused(c.pod, c.attempt):
		c.config.Log.Info("sandbox name stays taken with nothing listed, going on to the next attempt", "podUID", c.pod, "attempt", c.attempt)
	}
	return Created{}, cause
}

func nameTaken(err error) bool {
	return errors.Is(err, cri.ErrNameReserved) || errors.Is(err, cri.ErrAlreadyExists)
}

func adopted(s *runtimeapi.PodSandbox) Created {
	if s == nil {
		return Created{}
	}
	return Created{ID: s.GetId(), Attempt: s.GetMetadata().GetAttempt(), Adopted: true}
}

// settle ends a doubt with what is listed: it returns the ready sandbox to adopt,
// nil if there is none, and removes all others that can have come from attempts
// in doubt.
func (c *creation) settle(ctx context.Context) (*runtimeapi.PodSandbox, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.CleanupTimeout)
	defer cancel()
	listed, err := c.list(ctx)
	if err != nil {
		return nil, err
	}
	var adopt *runtimeapi.PodSandbox
	for _, s := range listed {
		if ready(s) && s.GetRuntimeHandler() == c.handler && (adopt == nil || s.GetMetadata().GetAttempt() > adopt.GetMetadata().GetAttempt()) {
			adopt = s
		}
	}
	for _, s := range listed {
		if s == adopt {
			continue
		}
		c.config.Log.Info("removing the sandbox of a lost attempt", "podUID", c.pod, "sandboxID", s.GetId(), "attempt", s.GetMetadata().GetAttempt())
		if err := c.Remove(ctx, s.GetId()); err != nil {
			return nil, err
		}
	}
	if adopt != nil {
		c.config.Log.Info("adopting the sandbox of a lost attempt", "podUID", c.pod, "sandboxID", adopt.GetId(), "attempt", adopt.GetMetadata().GetAttempt())
	}
	return adopt, nil
}

// undo removes what a failed creation left, although its context may have ended.
// What cannot be removed is in doubt.
func (c *creation) undo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.config.CleanupTimeout)
	defer cancel()
	err := c.removeListed(ctx, func(*runtimeapi.PodSandbox) bool { return true })
	if err != nil {
		c.doubt(c.pod, c.attempt)
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}

func (c *creation) removeListed(ctx context.Context, which func(*runtimeapi.PodSandbox) bool) error {
	listed, err := c.list(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, s := range listed {
		if which(s) {
			failed = append(failed, c.Remove(ctx, s.GetId()))
		}
	}
	return errors.Join(failed...)
}

// list returns the pod's own sandboxes of the attempts that may have become one
// unnoticed. Earlier ones are history, and none of Create's business.
func (c *creation) list(ctx context.Context) ([]*runtimeapi.PodSandbox, error) {
	all, err := c.listPod(ctx, c.pod)
	if err != nil {
		return nil, err
	}
	var recent []*runtimeapi.PodSandbox
	for _, s := range all {
		if s.GetMetadata().GetAttempt() >= c.since {
			recent = append(recent, s)
		}
	}
	return recent, nil
}

func ready(s *runtimeapi.PodSandbox) bool {
	return s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY
}

func (c *creation) logError(err error, message string) {
	if err != nil {
		c.config.Log.Error(err, message, "podUID", c.pod)
	}
}
