package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/internal/deadline"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/creation"
)

// Created is a ready sandbox.
type Created struct {
	ID string
	// Attempt is the sandbox's attempt number, at least the config's.
	Attempt uint32
	// Adopted: an earlier Create, whose answer was lost, has created the sandbox.
	Adopted bool
}

// Create runs a sandbox for a pod. It uses config's attempt number, or a higher one if that number was used before. It
// adds the owner's mark to a config copy.
//
// If Create fails, it removes the sandbox that it may have created, in its own context, because a failure's usual
// reason is that ctx has ended. If the runtime's response does not show whether a sandbox was created (a timeout, an
// unavailable runtime, a reserved name: containerd #9947, cri-o #7010), the attempt is unresolved, and Create lists the
// pod's sandboxes:
//
//   - A ready sandbox of the attempt is adopted, or removed if ctx has ended.
//   - A sandbox that is not ready is removed.
//   - If there is none, it may appear later. The next Create lists again first, and then requests the same attempt,
//     because some runtimes keep a sandbox that was created too late and return it for the next request. Create gives
//     the attempt up after Config.NameReservedRetries such requests that failed.
//
// Create only considers sandboxes from the requested attempt and from unresolved ones. Among several ready sandboxes it
// adopts the one with the highest attempt and removes the others; a failed removal does not prevent the adoption. It
// never adopts an unresolved attempt below the attempt in config: it removes such an attempt's sandbox if it is ready,
// and keeps it as the pod's history if not.
//
// An attempt that was given up stays unresolved, and its sandbox may appear beside the pod's sandbox: see
// [Runner.Resolve].
//
// The runtime's errors have a class from package cri. The caller retries after a back-off.
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

// validate checks the fields by which Create finds a sandbox.
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

// creating is one Create run.
type creating struct {
	*Runner
	pod        types.UID
	handler    string
	lowest     uint32 // the lowest attempt that the caller accepts
	attempt    uint32 // the requested one
	unresolved bool   // an earlier Create has requested it
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
	// Unresolved attempts' sandboxes may have appeared in the meantime.
	c.logError(c.Resolve(ctx, c.pod, id), "sandboxes of lost attempts remain")
	return Created{ID: id, Attempt: c.attempt}, nil
}

// removeLast removes the sandboxes with the highest attempt number that exists. The new sandbox gets
// the same number, so that the agent could not distinguish them. No pod has that many sandboxes, but
// a runtime may report a wrong number. It may also report a sandbox that it does not stop, so the removal
// has a timeout, and the next Create lists the sandboxes again.
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

// resolveCreate determines an attempt's result if the runtime's response does not show it.
func (c *creating) resolveCreate(ctx context.Context, cause error) (Created, error) {
	c.markUnresolved(c.pod, c.attempt)
	if deadline.Over(ctx) {
		return Created{}, errors.Join(cause, c.undo(ctx))
	}
	found, err := c.resolve(ctx)
	switch {
	case err != nil && deadline.Over(ctx): // ctx has ended the list early
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

// lookup returns the Lookup for the sandboxes from the requested attempt and the unresolved ones.
func (c *creating) lookup() creation.Lookup[runtimeapi.PodSandbox] {
	return creation.Lookup[runtimeapi.PodSandbox]{
		List: c.listed, Fits: c.best,
		Remove: func(ctx context.Context, listed []*runtimeapi.PodSandbox, kept *runtimeapi.PodSandbox) error {
			return c.clear(ctx, listed, kept.GetId(), c.lowest)
		},
	}
}

// adopted records that s is the pod's sandbox, and does nothing for a nil s.
func (c *creating) adopted(s *runtimeapi.PodSandbox) Created {
	if s == nil {
		return Created{}
	}
	attempt := s.GetMetadata().GetAttempt()
	c.config.Log.Info("adopting the sandbox of a lost attempt", "podUID", c.pod, "sandboxID", s.GetId(), "attempt", attempt)
	c.made(c.pod, attempt)
	return Created{ID: s.GetId(), Attempt: attempt, Adopted: true}
}

// resolve lists the unresolved attempts' sandboxes. It returns the ready sandbox to adopt, nil if there is none,
// and removes the others.
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

// undo removes a failed creation's sandbox, even if ctx has ended.
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

// listed returns the pod's sandboxes from the requested attempt and from the unresolved
// ones.
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

// logError logs an error without the runtime's text, which may repeat values of Secrets that the Runner does not know.
func (c *creating) logError(err error, message string) {
	if err != nil {
		c.config.Log.Error(cri.Withhold(err), message, "podUID", c.pod)
	}
}
