package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
)

// arrives checks what there is after peace.
func (tr *trace) arrives(v *verdict) {
	for _, uid := range tr.uids() {
		missing := tr.arrived(uid, tr.pods[uid])
		v.want(len(missing) == 0, "%s: %s", uid, strings.Join(missing, ", "))
	}
	for _, uid := range tr.remembered {
		known := tr.pods[uid]
		v.want(known == nil || known.removed.IsZero(), "%s: it is remembered", uid)
	}
	v.want(len(tr.health) == 0, "health: %s", strings.Join(tr.health, ", "))
}

func (tr *trace) arrived(uid types.UID, known *podSpan) (broken []string) {
	ready, any := 0, 0
	for _, sb := range tr.sandboxes {
		if sb.GetMetadata().GetUid() == string(uid) {
			any++
			if sb.State == runtimeapi.PodSandboxState_SANDBOX_READY {
				ready++
			}
		}
	}
	running, left := map[string]int{}, 0
	for _, c := range tr.containers {
		if c.Labels[runtime.LabelPodUID] != string(uid) {
			continue
		}
		left++
		if c.State != runtimeapi.ContainerState_CONTAINER_EXITED {
			running[c.GetMetadata().GetName()]++
		}
	}
	if !known.removed.IsZero() {
		if any > 0 || left > 0 {
			broken = append(broken, fmt.Sprintf("%d sandboxes and %d containers are left", any, left))
		}
		return broken
	}
	last := tr.lastStatus(uid)
	phase := last.status.Phase
	switch {
	case tr.evicted(uid).IsZero() && tr.asked(uid): // it is unknown whether the request arrived
	case tr.asked(uid) || known.kind.outcome == finishes:
		if phaseOrder[phase] != 3 || ready > 0 || len(running) > 0 {
			broken = append(broken, fmt.Sprintf("it is %s with %d ready sandboxes and %v", phase, ready, running))
		}
	case known.kind.outcome == never:
		// Another fault may have let a call through that was to be refused. The container that was
		// made then ran, or failed to start.
		made := len(tr.of(uid)) > 0 || tr.couldNotRun(last)
		if !made && phase != v1.PodPending || phaseOrder[phase] == 3 {
			broken = append(broken, fmt.Sprintf("it is %s with %v though nothing of it can run", phase, running))
		}
	case known.kind.name == "stuck" && len(tr.recordsLost[uid]) > 0: // the record of the handler in progress is lost
	case known.kind.outcome == restarts:
		if started := tr.of(uid); len(started) == 0 || started[len(started)-1].Started.Before(tr.end.Add(-10*time.Minute)) {
			broken = append(broken, "it is not restarted any more")
		}
	default:
		if phase != v1.PodRunning || ready != 1 {
			broken = append(broken, fmt.Sprintf("it is %s with %d ready sandboxes and %v", phase, ready, running))
		}
		for _, c := range known.pod.Spec.Containers {
			if running[c.Name] != 1 {
				broken = append(broken, fmt.Sprintf("%d containers %s run", running[c.Name], c.Name))
			}
		}
	}
	return broken
}

// asked reports whether the node was requested to stop a pod, regardless of the result.
func (tr *trace) asked(uid types.UID) bool {
	return slices.ContainsFunc(tr.kills, func(k *kill) bool { return k.uid == uid })
}

// lastStatus returns the status of a pod that was reported last, empty if none was.
func (tr *trace) lastStatus(uid types.UID) (last published) {
	for _, s := range tr.statuses {
		if s.uid == uid {
			last = s
		}
	}
	return last
}
