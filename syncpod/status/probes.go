package status

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
)

// addProbes adds whether the container has started and is ready. Both stay false for an ephemeral
// container. An init container that is not a sidecar is ready when it has succeeded.
func (k *subject) addProbes(s *v1.ContainerStatus) {
	if k.kind == actions.EphemeralContainer {
		return
	}
	started := s.State.Running != nil && k.hasStarted()
	s.Started = &started
	if k.kind == actions.InitContainer && !runtime.IsSidecar(k.spec) {
		s.Ready = s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
		return
	}
	s.Ready = started && k.isReady()
}

// hasStarted reports whether the running container has passed its startup probe. Without a result,
// the same instance's reported value applies: a restarted agent has not probed yet (kubernetes
// #78733).
func (k *subject) hasStarted() bool {
	switch k.probes().Startup {
	case actions.ProbePending:
		was := k.reported(k.current.ID) && k.before.Started != nil && *k.before.Started
		return k.spec.StartupProbe == nil || was
	case actions.ProbeSuccess:
		return true
	}
	return false
}

// isReady reports whether the started container passes its readiness probe, by the same rule.
func (k *subject) isReady() bool {
	switch k.probes().Readiness {
	case actions.ProbePending:
		was := k.reported(k.current.ID) && k.before.Ready
		return k.spec.ReadinessProbe == nil || was
	case actions.ProbeSuccess:
		return true
	}
	return false
}

// probes returns the results from the probes that the spec declares.
func (k *subject) probes() actions.ProbeResults {
	results := k.Probes[k.current.ID]
	if k.spec.StartupProbe == nil {
		results.Startup = actions.ProbePending
	}
	if k.spec.ReadinessProbe == nil {
		results.Readiness = actions.ProbePending
	}
	return results
}
