package syncpod

import (
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/foreign"
)

// podSecrets are the Secret values in the environments of a pod's containers, so that they can be removed from what
// the runtime says of the pod. They have their own lock, because events are recorded under other locks. The
// pointer is nil for a pod without values: most pods have none, and each pod's memory must stay small.
type podSecrets struct {
	known atomic.Pointer[knownSecrets]
}

type knownSecrets struct {
	mu     sync.Mutex
	values foreign.Secrets
	// resolved are the containers whose environment was resolved since the agent started.
	resolved map[string]bool
}

// add records the values in a container's environment.
func (s *podSecrets) add(container string, values []string) {
	known := s.known.Load()
	if known == nil {
		if len(values) == 0 {
			return
		}
		s.known.CompareAndSwap(nil, &knownSecrets{resolved: map[string]bool{}})
		known = s.known.Load()
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	known.resolved[container] = true
	for _, v := range values {
		known.values.Add(v)
	}
}

// redact returns a text without the values.
func (s *podSecrets) redact(text string) string {
	known := s.known.Load()
	if known == nil {
		return text
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	return known.values.Redact(text)
}

// isResolved reports whether the values in a container's environment are known.
func (s *podSecrets) isResolved(container string) bool {
	known := s.known.Load()
	if known == nil {
		return false
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	return known.resolved[container]
}

// redactMessage removes the values from the runtime's message about a container instance. It withholds the text
// if a value may be in it that this agent does not know, because an earlier agent created the instance.
func (s *podSecrets) redactMessage(spec *v1.Container, text string) string {
	if text == "" || !usesSecrets(spec) {
		return s.redact(text)
	}
	if !s.isResolved(spec.Name) {
		return foreign.Withheld
	}
	return s.redact(text)
}

// usesSecrets reports whether Secret values may be in a container's environment, and so in its command.
func usesSecrets(c *v1.Container) bool {
	return slices.ContainsFunc(c.Env, func(e v1.EnvVar) bool { return e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil }) ||
		slices.ContainsFunc(c.EnvFrom, func(f v1.EnvFromSource) bool { return f.SecretRef != nil })
}

// redactStatus removes the values from container messages.
func (s *podSecrets) redactStatus(status *v1.PodStatus) {
	for _, list := range [...][]v1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		for i := range list {
			for _, state := range [...]*v1.ContainerState{&list[i].State, &list[i].LastTerminationState} {
				if state.Terminated != nil {
					state.Terminated.Message = s.redact(state.Terminated.Message)
				}
				if state.Waiting != nil {
					state.Waiting.Message = s.redact(state.Waiting.Message)
				}
			}
		}
	}
}

// redactError returns err, or an error with the same classes but without the values.
func (s *podSecrets) redactError(err error) error {
	if err == nil {
		return nil
	}
	text := s.redact(err.Error())
	if text == err.Error() {
		return err
	}
	return &redactedError{text, err}
}

// redactErrorOf is redactError for an error from an operation on these containers. It withholds the runtime's text if
// a value may be in it that this agent does not know.
func (s *podSecrets) redactErrorOf(err error, specs iter.Seq[*v1.Container]) error {
	for spec := range specs {
		if usesSecrets(spec) && !s.isResolved(spec.Name) {
			err = withheld(err)
			break
		}
	}
	return s.redactError(err)
}

// redactErrorOfPod is redactErrorOf for all containers of a pod. For a pod without a spec the values are unknown.
func (s *podSecrets) redactErrorOfPod(err error, pod *v1.Pod) error {
	if pod == nil {
		return s.redactError(withheld(err))
	}
	return s.redactErrorOf(err, containersOf(pod))
}

// withheld returns err or, if the runtime has returned it, an error with the same class but without its text.
func withheld(err error) error {
	if of, fromRuntime := errors.AsType[*cri.Error](err); fromRuntime {
		return &redactedError{cri.Withhold(of).Error(), err}
	}
	return err
}

// containersOf returns a pod's containers.
func containersOf(pod *v1.Pod) iter.Seq[*v1.Container] {
	return func(yield func(*v1.Container) bool) {
		for spec := range runtime.AllContainers(pod) {
			if !yield(spec) {
				return
			}
		}
	}
}

// A redactedError is an error with another text. Nothing that it wraps has the original text.
type redactedError struct {
	text     string
	original error
}

func (e *redactedError) Error() string { return e.text }

// Is reports whether the original error is target.
func (e *redactedError) Is(target error) bool { return errors.Is(e.original, target) }

// Unwrap returns an error from package cri if the original error wraps one.
func (e *redactedError) Unwrap() error {
	if of, ok := errors.AsType[*cri.Error](e.original); ok {
		return &cri.Error{Class: of.Class, Err: errors.New(e.text)}
	}
	return nil
}

// GoString is Error, for the verb %#v.
func (e *redactedError) GoString() string { return e.text }
