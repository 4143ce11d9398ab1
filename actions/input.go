package actions

import (
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
)

// Input is everything a decision depends on. Compute reads it and keeps only
// strings from it; it never writes to it.
//
// Most callers set only Pod and Status, and Probes if they run probes. The other fields are facts that a status cannot show. A zero
// value means that the caller knows none, and then the status alone decides. A caller that
//
//	keeps records of ended containers         sets StatusComplete and Started
//	backs off after crashes and failures      sets StartHolds, ResizeHolds and SandboxHold
//	plans while steps of a plan still run     sets InFlight
//	may stop between two steps of a plan      sets Restarting, from Plan.Restarts, and PostStartPending
//	waits for the address of a sandbox        sets AddressWait
//	gives containers exclusive CPUs           sets CPUSets and CPUSetHolds
//	restarts all containers (KEP-5532)        sets RestartAll, from RestartAllRequested
//	decides when a pod ends, or must wait     sets End and Blocked
type Input struct {
	// Pod is the desired pod. Required. Its status is not read. Do not compute a plan for a pod
	// that is being deleted: stop it. If it is computed nevertheless, a regular container that has
	// exited in its sandbox is not started again.
	//
	// The API's defaults need not be set: an empty restart policy means Always, and the decision
	// depends on no other default. The pod need not be valid for the API beyond Validate's checks.
	Pod *v1.Pod
	// Status is the pod's status in the runtime. Nil means that the runtime has nothing for the
	// pod. Containers whose names are not in Pod are ignored, unless the whole pod is killed.
	Status *runtime.PodStatus
	// Probes holds the declared probes' last results, by container ID. A container without an entry
	// has not been probed yet.
	Probes map[runtime.ContainerID]ProbeResults

	// StatusComplete means that a container without an instance in Status has never run: the caller has added the last instance of
	// each container that the runtime has lost. Then a pod with restart policy Never has finished only if a regular container
	// has run or an init container has failed, in any sandbox. False means that the runtime may have lost instances: such a
	// pod has finished when its sandbox cannot be used any more and any of its containers has run, as in a kubelet.
	StatusComplete bool
	// Started names ephemeral containers without an instance in Status that are known to have been started, for example from
	// their logs. They do not run again (kubernetes #124176).
	Started []string

	// StartHolds are the back-offs of container starts by container name, ResizeHolds those of resizes. Their Reason is
	// FailureBackOff after a step that failed. CrashBackOff holds only the start of a container that has exited, or that is
	// stopped because a probe failed. Remove an entry when its time is over.
	StartHolds, ResizeHolds map[string]Hold
	// CPUSets are the CPUs and the memory with which the containers should run, by container name. A running container whose
	// CPUSet is another one, or unknown, is updated in place. One without an entry is left as it is. CPUSetHolds are the
	// back-offs of such updates.
	CPUSets     map[string]runtime.CPUSet
	CPUSetHolds map[string]Hold
	// SandboxHold is the back-off of the sandbox, or of the node's preparation for it. Nothing is started until it ends.
	SandboxHold Hold
	// AddressWait means that the latest sandbox has a network and no address in it yet, and that the caller waits for one. The
	// sandbox is kept, and nothing is started or resized in it (kubernetes #48510). Otherwise such a sandbox is replaced.
	AddressWait Hold

	// InFlight names the containers for which a step of an earlier plan still runs, such as a start whose image is being
	// pulled. The plan leaves them as they are, unless it stops the whole pod or removes all its containers: then the caller
	// must end those steps first.
	InFlight []string
	// Restarting are the instances that an earlier plan stopped in order to start their containers again, as
	// Plan.Restarts returns them. Such a container starts again, whatever its exit code and its restart policy
	// (kubernetes #109537). Remove an entry when a later instance of the container has started, or when
	// the instance runs and the plan does not stop it.
	Restarting []runtime.ContainerID
	// PostStartPending are the running instances whose postStart handler may not have finished, because an earlier
	// agent ended or the runtime's response was lost. The handler runs again.
	PostStartPending []runtime.ContainerID

	// RestartAll requests that all containers are stopped and removed, so that the pod starts over
	// in its sandbox (KEP-5532). Set it when RestartAllRequested reports true, and until a plan is a NoOp, which means that
	// all are removed. The next plan without it starts the pod again, with attempts counted from 0.
	RestartAll bool
	// End is why the pod must be stopped for good whatever its containers do: it is deleted or
	// evicted, or it was reported as Succeeded or Failed. ReasonNone means that its containers
	// decide.
	End Reason
	// Blocked is why the pod as a whole must wait, unless it has finished: with PodNotAdmitted its
	// running containers are stopped, with NetworkNotReady no sandbox is created, and nothing that needs a new one
	// is changed.
	Blocked Hold
}

// Hold is why a step must wait, and until when. The zero value means that it need not wait.
type Hold struct {
	// Reason is ReasonNone if there is no wait.
	Reason Reason
	// Until is the wait's end, zero if unknown.
	Until time.Time
	// Message has details, such as the failure that caused the wait. It may be empty.
	Message string
}

// Holds reports whether there is a wait.
func (h Hold) Holds() bool { return h.Reason != ReasonNone }

// String returns when the wait ends and its reason, as a line suffix.
func (h Hold) String() string {
	if h.Until.IsZero() {
		return fmt.Sprintf(": %v", h.Reason)
	}
	return fmt.Sprintf(" until %s: %v", h.Until.UTC().Format(time.RFC3339), h.Reason)
}

// ProbeResults are one container's last probe results. Readiness affects only the reported status,
// not the plan.
type ProbeResults struct {
	Startup, Liveness, Readiness ProbeResult
}

// ProbeResult is one probe's last result. The zero value is ProbePending.
type ProbeResult uint8

const (
	// ProbePending means that the probe has not been run on this container.
	ProbePending ProbeResult = iota
	// ProbeUnknown means that the probe ran without a clear result.
	ProbeUnknown
	// ProbeSuccess means that the probe passed.
	ProbeSuccess
	// ProbeFailure means that the probe failed as many times in a row as its threshold.
	ProbeFailure
)

var errNoPod = errors.New("input: Pod is required")

// Validate returns an error if the input is unusable: no pod, a container without a name, two
// containers with one name, which the runtime's status could not distinguish, an unknown
// restart policy, or an unknown operator in a restart rule, which could end a pod that should
// run. The error names the field. Plan.Invalid holds the same error, and such a plan changes
// nothing.
func (in Input) Validate() error {
	if in.Pod == nil {
		return errNoPod
	}
	return validatePod(in.Pod)
}

func validatePod(pod *v1.Pod) error {
	if err := validateNames(pod); err != nil {
		return err
	}
	if policy := pod.Spec.RestartPolicy; policy != "" && !isPolicy(policy) {
		return fmt.Errorf("input: pod %s/%s: spec.restartPolicy is %q, want Always, OnFailure or Never", pod.Namespace, pod.Name, policy)
	}
	for at := range count(pod) {
		if err := validateRestarts(pod, at); err != nil {
			return err
		}
	}
	return nil
}

// validateRestarts validates the container's own restart policy and restart rules.
func validateRestarts(pod *v1.Pod, at int) error {
	c := specAt(pod, at)
	if c.RestartPolicy != nil && !isPolicy(v1.RestartPolicy(*c.RestartPolicy)) {
		return fmt.Errorf("input: pod %s/%s: %s.restartPolicy is %q, want Always, OnFailure or Never", pod.Namespace, pod.Name, refAt(pod, at).path(), *c.RestartPolicy)
	}
	for i := range c.RestartPolicyRules {
		codes := c.RestartPolicyRules[i].ExitCodes
		if codes != nil && codes.Operator != v1.ContainerRestartRuleOnExitCodesOpIn && codes.Operator != v1.ContainerRestartRuleOnExitCodesOpNotIn {
			return fmt.Errorf("input: pod %s/%s: %s.restartPolicyRules[%d].exitCodes.operator is %q, want In or NotIn",
				pod.Namespace, pod.Name, refAt(pod, at).path(), i, codes.Operator)
		}
	}
	return nil
}

func isPolicy(p v1.RestartPolicy) bool {
	return p == v1.RestartPolicyAlways || p == v1.RestartPolicyOnFailure || p == v1.RestartPolicyNever
}

// validateNames reports the first name that is empty or stands twice.
func validateNames(pod *v1.Pod) error {
	var seen uint64 // a bit for each name so far, shared by few
	for at := range count(pod) {
		name := specAt(pod, at).Name
		if name == "" {
			return fmt.Errorf("input: pod %s/%s: %s has no name", pod.Namespace, pod.Name, refAt(pod, at).path())
		}
		bit := nameBit(name)
		if seen&bit == 0 {
			seen |= bit
			continue
		}
		if same := find(pod, name); same < at {
			return fmt.Errorf("input: pod %s/%s: %s and %s are both named %q",
				pod.Namespace, pod.Name, refAt(pod, same).path(), refAt(pod, at).path(), name)
		}
	}
	return nil
}

// nameBit hashes the name's ends and length to 64 bits, which usually differ between one pod's
// names.
func nameBit(name string) uint64 {
	return 1 << ((7*uint(name[0]) + uint(name[len(name)-1]) + 3*uint(len(name))) % 64)
}
