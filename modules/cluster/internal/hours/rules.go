package hours

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The rules' limits. Only calm time counts: time in which all parts of the cluster work.
const (
	// MaxDown is the maximum time for which a container in a ready pod may be down, and for which a restart count may
	// disagree with the container's runs.
	MaxDown = 10 * time.Second
	// MaxOverdue is the maximum time for which a pod may exist after its grace period's end.
	MaxOverdue = time.Minute
)

// A Rule is the name of a rule that Check enforces.
type Rule string

// The rules.
const (
	// OneIdentity: no two pods of one namespace and name run at the same time. The pods of a StatefulSet keep their names,
	// so a StatefulSet promises this for its pods.
	OneIdentity Rule = "two pods of one identity run"
	// OneInstance: no container in a pod runs twice at the same time.
	OneInstance Rule = "a container runs twice at the same time"
	// ReadyRuns: the containers in a ready pod run.
	ReadyRuns Rule = "a ready pod has a container that is down"
	// TerminatingEnds: a deleted pod's object is removed.
	TerminatingEnds Rule = "a pod is Terminating for too long"
	// RestartsAreTrue: a restart count never decreases, and agrees with the container's runs.
	RestartsAreTrue Rule = "a restart count is wrong"
	// OnlyOnce: a container that must not be restarted runs once.
	OnlyOnce Rule = "a container that must not be restarted has run again"
)

// A Container is a container instance, as the runtime reports it.
type Container struct {
	Namespace, Pod string
	UID            types.UID
	Name           string
	Running        bool
}

// Runs are the records that a container's instances have written, regardless of the agent that started them.
type Runs struct {
	// Started counts the instances. Ran counts the instances that ran for a second.
	Started, Ran int
}

// A Key identifies a container in a pod.
type Key struct {
	UID  types.UID
	Name string
}

// A Snapshot is a node's state at one time.
type Snapshot struct {
	At time.Time
	// Trouble reports whether a part of the cluster was broken at any time since the last snapshot, or
	// was still recovering.
	Trouble bool
	// Faults is the number of kills of the agent and the runtime so far. Each kill may interrupt one start of each
	// container.
	Faults int
	// Pods are the pods in the API server, nil while it does not answer.
	Pods []v1.Pod
	// Containers are the containers in the runtime, nil while it does not answer.
	Containers []Container
	// Runs has an entry for each container that records its runs.
	Runs map[Key]Runs
}

// A Violation is a rule that a snapshot breaks.
type Violation struct {
	Rule Rule
	// Subject is the pod, or the pod's container.
	Subject string
	// Detail describes the observed state.
	Detail string
}

func (v Violation) String() string { return fmt.Sprintf("%s: %s: %s", v.Rule, v.Subject, v.Detail) }

// History is Check's state from earlier snapshots. The zero value belongs to the first snapshot.
type History struct {
	at       time.Time
	faults   int
	pods     map[types.UID]podHistory
	reported map[reportKey]bool
}

// A podHistory is a pod's state from earlier snapshots.
type podHistory struct {
	// faults is Snapshot.Faults before the pod was first seen.
	faults int
	// overdue is the calm time that the pod has existed after its grace period's end.
	overdue time.Duration
	// down has, by container, the calm time for which the container has been down while the pod was ready. off has the calm
	// time for which the container's restart count has disagreed with its runs.
	down, off map[string]time.Duration
	restarts  map[string]int32
}

type reportKey struct {
	rule    Rule
	subject string
}

// Check returns the rules that a snapshot breaks, each once for each subject, sorted. It is pure: it returns the history
// for the next snapshot and does not modify its arguments.
func Check(before History, now Snapshot) (History, []Violation) {
	after := History{at: now.At, faults: now.Faults, pods: map[types.UID]podHistory{}, reported: maps.Clone(before.reported)}
	if after.reported == nil {
		after.reported = map[reportKey]bool{}
	}
	calm := time.Duration(0)
	if !before.at.IsZero() && !now.Trouble {
		calm = now.At.Sub(before.at)
	}
	found := running(now.Containers)
	if now.Pods == nil {
		after.pods = before.pods
	}
	for i := range now.Pods {
		pod := &now.Pods[i]
		was, known := before.pods[pod.UID]
		if !known {
			was.faults = before.faults
		}
		next, broken := checkPod(was, pod, now, calm)
		after.pods[pod.UID] = next
		found = append(found, broken...)
	}
	found = slices.DeleteFunc(found, func(v Violation) bool {
		key := reportKey{v.Rule, v.Subject}
		reported := after.reported[key]
		after.reported[key] = true
		return reported
	})
	slices.SortFunc(found, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Subject, b.Subject))
	})
	return after, found
}

// running checks the rules on containers that run at the same time. They also apply during trouble.
func running(containers []Container) (found []Violation) {
	identities, instances := map[string]types.UID{}, map[Key]bool{}
	for _, c := range containers {
		if !c.Running {
			continue
		}
		name := c.Namespace + "/" + c.Pod
		if other, taken := identities[name]; taken && other != c.UID {
			found = append(found, Violation{OneIdentity, name, fmt.Sprintf("UIDs %s and %s", min(other, c.UID), max(other, c.UID))})
		}
		identities[name] = c.UID
		if key := (Key{c.UID, c.Name}); instances[key] {
			found = append(found, Violation{OneInstance, name + "/" + c.Name, "UID " + string(c.UID)})
		} else {
			instances[key] = true
		}
	}
	return found
}

// checkPod checks the rules on one pod. calm is the calm time since the last snapshot.
func checkPod(was podHistory, pod *v1.Pod, now Snapshot, calm time.Duration) (next podHistory, found []Violation) {
	next = podHistory{faults: was.faults, down: map[string]time.Duration{}, off: map[string]time.Duration{}, restarts: map[string]int32{}}
	name := pod.Namespace + "/" + pod.Name
	if end := pod.DeletionTimestamp; end != nil && now.At.After(end.Time) { // the timestamp includes the grace period
		next.overdue = was.overdue + min(calm, now.At.Sub(end.Time))
		if next.overdue > MaxOverdue {
			found = append(found, Violation{TerminatingEnds, name, fmt.Sprintf("%v after its grace period", next.overdue)})
		}
	}
	for _, c := range pod.Spec.Containers {
		switch {
		case now.Containers == nil:
			next.down[c.Name] = was.down[c.Name]
		case isDown(pod, c.Name, now.Containers):
			next.down[c.Name] = was.down[c.Name] + calm
		}
		if d := next.down[c.Name]; d > MaxDown {
			found = append(found, Violation{ReadyRuns, name + "/" + c.Name, fmt.Sprintf("for %v", d)})
		}
		found = append(found, checkRestarts(&next, was, pod, c.Name, now, calm)...)
	}
	return next, found
}

// isDown reports whether a pod is ready and the runtime does not run one of its containers.
func isDown(pod *v1.Pod, container string, containers []Container) bool {
	ready := slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodReady && c.Status == v1.ConditionTrue })
	return ready && !slices.ContainsFunc(containers, func(c Container) bool {
		return c.UID == pod.UID && c.Name == container && c.Running
	})
}

// checkRestarts compares the restart count of a container with the last snapshot, and with
// the runs that the container has recorded.
func checkRestarts(next *podHistory, was podHistory, pod *v1.Pod, container string, now Snapshot, calm time.Duration) (found []Violation) {
	name := pod.Namespace + "/" + pod.Name + "/" + container
	wrong := func(rule Rule, format string, args ...any) {
		found = append(found, Violation{rule, name, fmt.Sprintf(format, args...)})
	}
	runs, recorded := now.Runs[Key{pod.UID, container}]
	if recorded && pod.Spec.RestartPolicy == v1.RestartPolicyNever && runs.Ran > 1 {
		wrong(OnlyOnce, "%d runs", runs.Ran)
	}
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s v1.ContainerStatus) bool { return s.Name == container })
	if i < 0 {
		return found
	}
	count := pod.Status.ContainerStatuses[i].RestartCount
	next.restarts[container] = count
	if count < was.restarts[container] {
		wrong(RestartsAreTrue, "%d after %d", count, was.restarts[container])
	}
	if !recorded {
		return found
	}
	cut := now.Faults - next.faults
	if int(count) < runs.Ran-1 || int(count) > max(runs.Started-1, 0)+cut {
		next.off[container] = was.off[container] + calm
	}
	if d := next.off[container]; d > MaxDown {
		wrong(RestartsAreTrue, "%d for %v, with %d starts, %d runs, and %d kills of agent and runtime", count, d, runs.Started, runs.Ran, cut)
	}
	return found
}
