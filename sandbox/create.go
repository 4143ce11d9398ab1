package sandbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/internal/base/creation"
	"github.com/podsync/podsync/internal/base/deadline"
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
// reserved: containerd #9947, cri-o #7010), the attempt is unresolved, and Create
// looks at what is there:
//
//   - the sandbox is there and ready: it is adopted, or removed if ctx has ended;
//   - it is there and not ready: it is removed;
//   - it is not there: it may come later. The next Create looks again before it
//     asks for anything, and asks for the same attempt, because some runtimes keep
//     a sandbox that was made too late and hand it over when asked again. Only
//     when that was in vain RunnerConfig.NameReservedRetries times, refused or without
//     an answer, is the attempt given up.
//
// Only sandboxes of the attempt asked for and of those unresolved are looked at. Of
// several that are ready the highest attempt is adopted, and the others are
// removed; one that cannot be does not keep the ready one from being adopted. An
// unresolved attempt that is lower than the one in config is never adopted: a ready
// sandbox of it is removed, and another is the pod's history and stays.
//
// An attempt that was given up stays unresolved when another has become the pod's
// sandbox, and may come up beside it: see [Runner.Resolve].
//
// Errors of the runtime have a class of package cri. Try again after a pause.
func (r *Runner) Create(ctx context.Context, config *runtimeapi.PodSandboxConfig, runtimeHandler string) (Created, error) {
	if err := validate(config); err != nil {
		return Created{}, fmt.Errorf("sandbox: Create: %w", err)
	}
	c := creating{Runner: r, pod: types.UID(config.Metadata.Uid), handler: runtimeHandler, lowest: config.Metadata.Attempt}
	c.attempt = r.begin(c.pod, c.lowest)
	c.unresolved = r.unresolvedAttempts(c.pod)[c.attempt]
	created, err := c.run(ctx, config)
	if err != nil {
		return Created{}, fmt.Errorf("sandbox of pod %s/%s, attempt %d: %w", config.Metadata.Namespace, config.Metadata.Name, c.attempt, err)
	}
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

// creating is one run of Create.
type creating struct {
	*Runner
	pod        types.UID
	handler    string
	lowest     uint32 // the attempt the caller wants at least
	attempt    uint32 // to make
	unresolved bool   // whether an earlier Create has asked for it
}

func (c *creating) run(ctx context.Context, config *runtimeapi.PodSandboxConfig) (Created, error) {
	if c.Unresolved(c.pod) {
		if found, err := c.resolve(ctx); err != nil || found != nil {
			return c.adopted(found), err
		}
	}
	if c.attempt == math.MaxUint32 {
		if err := c.removeLast(ctx); err != nil {
			return Created{}, err
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
		return c.resolveCreate(ctx, err)
	case err != nil:
		return Created{}, errors.Join(err, c.undo(ctx))
	}
	c.made(c.pod, c.attempt)
	// What was unresolved may have come up while this one was made.
	c.logError(c.Resolve(ctx, c.pod, id), "sandboxes of lost attempts remain")
	return Created{ID: id, Attempt: c.attempt}, nil
}

// removeLast removes the sandboxes with the highest attempt number that exists. The new sandbox gets
// the same number, so that the agent could not distinguish them. No pod has that many sandboxes, but
// a runtime may report a wrong number. What it reports may also be a sandbox that it does not stop:
// the next Create lists the sandboxes again.
func (c *creating) removeLast(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.config.CleanupTimeout)
	defer cancel()
	listed, err := c.listPod(ctx, c.pod)
	if err != nil {
		return err
	}
	listed = slices.DeleteFunc(listed, func(s *runtimeapi.PodSandbox) bool { return s.GetMetadata().GetAttempt() != math.MaxUint32 })
	return c.clear(ctx, listed, "", math.MaxUint32)
}

func (c *creating) ask(ctx context.Context, config *runtimeapi.PodSandboxConfig) (id string, err error) {
	config = proto.CloneOf(config)
	config.Metadata.Attempt = c.attempt
	config.Labels = c.config.Owner.Mark(config.Labels)
	if c.unresolved {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.config.UnresolvedTimeout)
		defer cancel()
	}
	resp, err := c.config.Runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: c.handler})
	if err != nil {
		return "", cri.Classify(err)
	}
	if resp.GetPodSandboxId() == "" {
		return "", cri.Classify(errors.New("the runtime answered without a sandbox ID"))
	}
	return resp.GetPodSandboxId(), nil
}

// resolveCreate looks at what has become of an attempt whose answer says neither.
func (c *creating) resolveCreate(ctx context.Context, cause error) (Created, error) {
	c.markUnresolved(c.pod, c.attempt)
	if deadline.Over(ctx) {
		return Created{}, errors.Join(cause, c.undo(ctx))
	}
	found, err := c.resolve(ctx)
	switch {
	case err != nil && deadline.Over(ctx): // that has cut the look short
		return Created{}, errors.Join(cause, err, c.undo(ctx))
	case err != nil:
		return Created{}, errors.Join(cause, err)
	case found != nil:
		return c.adopted(found), nil
	case (c.unresolved || creation.NameTaken(cause)) && c.nameReserved(c.pod, c.attempt):
		c.config.Log.Info("sandbox name stays taken with nothing listed, going on to the next attempt", "podUID", c.pod, "attempt", c.attempt)
	}
	return Created{}, cause
}

// lookup looks at the sandboxes of the attempt made and of those that are unresolved.
func (c *creating) lookup() creation.Lookup[runtimeapi.PodSandbox] {
	return creation.Lookup[runtimeapi.PodSandbox]{
		List: c.listed, Fits: c.best,
		Remove: func(ctx context.Context, listed []*runtimeapi.PodSandbox, kept *runtimeapi.PodSandbox) error {
			return c.clear(ctx, listed, kept.GetId(), c.lowest)
		},
	}
}

// adopted notes that a sandbox that was found is the pod's. There is none if s is
// nil.
func (c *creating) adopted(s *runtimeapi.PodSandbox) Created {
	if s == nil {
		return Created{}
	}
	attempt := s.GetMetadata().GetAttempt()
	c.config.Log.Info("adopting the sandbox of a lost attempt", "podUID", c.pod, "sandboxID", s.GetId(), "attempt", attempt)
	c.made(c.pod, attempt)
	return Created{ID: s.GetId(), Attempt: attempt, Adopted: true}
}

// resolve ends what is unresolved with what is listed: it returns the ready sandbox to adopt,
// nil if there is none, and removes all others that can have come from attempts
// unresolved.
func (c *creating) resolve(ctx context.Context) (*runtimeapi.PodSandbox, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.CleanupTimeout)
	defer cancel()
	found, err := c.lookup().Resolve(ctx, func() bool { return true })
	c.logError(found.Remains, "sandboxes of lost attempts remain")
	return found.Adopted, err
}

// best returns the sandbox to adopt, nil if there is none.
func (c *creating) best(listed []*runtimeapi.PodSandbox) *runtimeapi.PodSandbox {
	var best *runtimeapi.PodSandbox
	for _, s := range listed {
		attempt := s.GetMetadata().GetAttempt()
		if ready(s) && attempt >= c.lowest && s.GetRuntimeHandler() == c.handler && attempt >= best.GetMetadata().GetAttempt() {
			best = s
		}
	}
	return best
}

// undo removes what a failed creation left, although its context may have ended.
func (c *creating) undo(ctx context.Context) error {
	ctx, cancel := c.detach(ctx, c.config.CleanupTimeout)
	defer cancel()
	look := c.lookup()
	look.List = func(ctx context.Context) ([]*runtimeapi.PodSandbox, error) {
		listed, err := c.listed(ctx)
		if err != nil {
			c.markUnresolved(c.pod, c.attempt)
		}
		return listed, err
	}
	if _, err := look.Resolve(ctx, func() bool { return false }); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}

// listed returns the pod's own sandboxes of the attempt made and of the unresolved
// ones. Others are none of Create's business.
func (c *creating) listed(ctx context.Context) ([]*runtimeapi.PodSandbox, error) {
	all, err := c.listPod(ctx, c.pod)
	if err != nil {
		return nil, err
	}
	which := c.unresolvedAttempts(c.pod)
	return slices.DeleteFunc(all, func(s *runtimeapi.PodSandbox) bool {
		attempt := s.GetMetadata().GetAttempt()
		return attempt != c.attempt && !which[attempt]
	}), nil
}

func (c *creating) logError(err error, message string) {
	if err != nil {
		c.config.Log.Error(err, message, "podUID", c.pod)
	}
}
