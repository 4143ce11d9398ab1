package actions

import (
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
)

// Input is everything a decision depends on. Compute reads it and keeps
// nothing of it but strings; it never writes to it.
type Input struct {
	// Pod is the pod that should be. Required. Its status is not read. A pod that
	// is being deleted is to be stopped, not computed; should it come here all the
	// same, no regular container that has ended in its sandbox is started again.
	//
	// The defaults of the API need not be set: an empty restart policy means Always, and no
	// other field has a default that a decision depends on. The pod need not be valid for
	// the API beyond what Validate checks.
	Pod *v1.Pod
	// Status is what the runtime reports of the pod. Nil means that the runtime
	// knows nothing of it. Containers whose names are not in Pod are ignored,
	// unless the whole pod is killed.
	Status *runtime.PodStatus
	// Probes holds the last results of the probes that are declared, by container
	// ID. A container without an entry has not been probed yet.
	Probes map[runtime.ContainerID]ProbeResults
	// RestartAll asks for all containers to be stopped and removed, so that the
	// pod starts over in its sandbox (KEP-5532). RestartAllRequested tells whether
	// an exit code asks for it. Set it from then on until the plan is a NoOp: all
	// are removed then, and the next plan without it starts the pod again, with
	// attempts counted from 0.
	RestartAll bool
	// StatusComplete means that the caller has added to Status the last instance of each
	// container whose record the runtime has lost, from its own memory. A container
	// without an instance there has never run, and a pod whose restart policy is Never has
	// had its run only if a regular container has run, or an init container has failed, in
	// whichever sandbox. False means that Status may lack instances.
	StatusComplete bool
	// Started names the ephemeral containers that are known to have been started, from
	// logs for example, although Status has no instance of them. They do not run again
	// (kubernetes #124176). Nil means that none is known.
	Started []string
	// AddressWait is set while the caller waits for the address of the latest sandbox,
	// which has a network and none in it yet: the sandbox is not replaced for that, and
	// nothing is started or resized in it (kubernetes #48510). The zero value means that
	// no address is waited for.
	AddressWait Hold
	// SandboxHold is set while the sandbox, or what the node prepares for it, is not tried
	// again because it has failed: nothing is started meanwhile. StartHolds and ResizeHolds
	// are the back-offs of containers by name, with the reasons CrashBackOff and
	// FailureBackOff. CrashBackOff counts for a container that has ended, or that is stopped
	// because a probe failed. An entry whose time is over must not be there. Nil means that
	// nothing waits.
	SandboxHold             Hold
	StartHolds, ResizeHolds map[string]Hold
	// PostStartPending are the instances that run although their postStart handler has not
	// been seen to end: an earlier agent, or an earlier answer, was lost.
	PostStartPending []runtime.ContainerID
	// End is why the pod is to be stopped for good, whatever its containers do: it is deleted
	// or evicted, or it was reported as Succeeded or Failed. ReasonNone means that its
	// containers decide.
	End Reason
	// Blocked is why the pod has to wait as a whole unless it is over: PodNotAdmitted, for
	// which what runs of it is stopped, or NetworkNotReady, for which nothing is touched.
	// The zero value means that nothing holds it up.
	Blocked Hold
}

// Hold is why something has to wait, and until when. The zero value holds nothing up.
type Hold struct {
	// Reason is ReasonNone if nothing has to wait.
	Reason Reason
	// Until is when the wait is over, zero if that is not known.
	Until time.Time
	// Message says more, such as the failure that the wait follows. It may be empty.
	Message string
}

// Holds reports whether something has to wait.
func (h Hold) Holds() bool { return h.Reason != ReasonNone }

// String returns the end of a line: until when, and why.
func (h Hold) String() string {
	if h.Until.IsZero() {
		return fmt.Sprintf(": %v", h.Reason)
	}
	return fmt.Sprintf(" until %s: %v", h.Until.UTC().Format(time.RFC3339), h.Reason)
}

// ProbeResults are the last results of one container's probes. Readiness is for
// whoever reports; no step of a plan follows from it.
type ProbeResults struct {
	Startup, Liveness, Readiness ProbeResult
}

// ProbeResult is the last result of one probe. The zero value is ProbePending.
type ProbeResult uint8

const (
	// ProbePending means that the probe has not been run on this container.
	ProbePending ProbeResult = iota
	// ProbeUnknown means that the probe ran and could not tell.
	ProbeUnknown
	// ProbeSuccess means that the probe passed.
	ProbeSuccess
	// ProbeFailure means that the probe failed as often as its threshold says.
	ProbeFailure
)

var errNoPod = errors.New("input: Pod is required")

// Validate reports what makes in unusable: no pod, a container without a name,
// two containers of one name, which no runtime status could tell apart, or an unknown
// restart policy, or an unknown operator of a restart rule, which could end a pod that
// should run. The error names the field, and Plan.Invalid is the same: nothing of such a
// pod is touched.
func (in Input) Validate() error {
	if in.Pod == nil {
		return errNoPod
	}
	return validatePod(in.Pod, containerNames(make([]string, 0, usualContainers), in.Pod))
}

func validatePod(pod *v1.Pod, names []string) error {
	if err := validateNames(pod, names); err != nil {
		return err
	}
	if policy := pod.Spec.RestartPolicy; policy != "" && !isPolicy(policy) {
		return fmt.Errorf("input: pod %s/%s: spec.restartPolicy is %q, want Always, OnFailure or Never", pod.Namespace, pod.Name, policy)
	}
	for at := range names {
		if err := validateRestarts(pod, refAt(pod, at)); err != nil {
			return err
		}
	}
	return nil
}

// validateRestarts reports what is unknown of the restarts that a container's own policy and
// rules ask for.
func validateRestarts(pod *v1.Pod, ref ContainerRef) error {
	c := ref.Spec(pod)
	if c.RestartPolicy != nil && !isPolicy(v1.RestartPolicy(*c.RestartPolicy)) {
		return fmt.Errorf("input: pod %s/%s: %s.restartPolicy is %q, want Always, OnFailure or Never", pod.Namespace, pod.Name, ref.path(), *c.RestartPolicy)
	}
	for i := range c.RestartPolicyRules {
		codes := c.RestartPolicyRules[i].ExitCodes
		if codes != nil && codes.Operator != v1.ContainerRestartRuleOnExitCodesOpIn && codes.Operator != v1.ContainerRestartRuleOnExitCodesOpNotIn {
			return fmt.Errorf("input: pod %s/%s: %s.restartPolicyRules[%d].exitCodes.operator is %q, want In or NotIn",
				pod.Namespace, pod.Name, ref.path(), i, codes.Operator)
		}
	}
	return nil
}

func isPolicy(p v1.RestartPolicy) bool {
	return p == v1.RestartPolicyAlways || p == v1.RestartPolicyOnFailure || p == v1.RestartPolicyNever
}

// validateNames reports the first name that is empty or stands twice.
func validateNames(pod *v1.Pod, names []string) error {
	var seen uint64 // a bit for each name so far, shared by few
	for at, name := range names {
		if name == "" {
			return fmt.Errorf("input: pod %s/%s: %s has no name", pod.Namespace, pod.Name, refAt(pod, at).path())
		}
		bit := nameBit(name)
		if seen&bit == 0 {
			seen |= bit
			continue
		}
		if same := slices.Index(names[:at], name); same >= 0 {
			return fmt.Errorf("input: pod %s/%s: %s and %s are both named %q",
				pod.Namespace, pod.Name, refAt(pod, same).path(), refAt(pod, at).path(), name)
		}
	}
	return nil
}

// nameBit returns one of 64 bits by the name's ends and length, in which the
// names of one pod usually differ.
func nameBit(name string) uint64 {
	return 1 << ((7*uint(name[0]) + uint(name[len(name)-1]) + 3*uint(len(name))) % 64)
}
