package record

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
)

// Workers is one recorded run of the kubelet's pod workers.
type Workers struct {
	Name  string `json:"name"`
	Steps []struct {
		Do   WorkersDo   `json:"do"`
		Want WorkersWant `json:"want"`
	} `json:"steps"`
}

// WorkersDo is one step: an input of the workers.
type WorkersDo struct {
	Op          word        `json:"op"`
	UID         types.UID   `json:"uid"`
	Type        word        `json:"type"`
	Pod         *WorkersPod `json:"pod"`
	RuntimeOnly bool        `json:"runtimeOnly"`
	Kill        *struct {
		Evict         bool   `json:"evict"`
		GraceOverride *int64 `json:"gracePeriodSecondsOverride"`
	} `json:"kill"`
	RuntimeReportsRunning bool        `json:"runtimeReportsRunning"`
	Desired               []types.UID `json:"desired"`
	Results               []word      `json:"results"`
}

// WorkersPod is what counts of a pod here.
type WorkersPod struct {
	Deleted                       bool        `json:"deleted"`
	DeletionGracePeriodSeconds    *int64      `json:"deletionGracePeriodSeconds"`
	Phase                         v1.PodPhase `json:"phase"`
	TerminationGracePeriodSeconds *int64      `json:"terminationGracePeriodSeconds"`
	Static                        bool        `json:"static"`
}

// WorkersWant is the state of the workers once they were idle again.
type WorkersWant struct {
	Calls         []WorkersCall                 `json:"calls"`
	Predicates    map[types.UID]map[string]bool `json:"predicates"`
	Known         map[types.UID]WorkersKnown    `json:"known"`
	KillCompleted *bool                         `json:"killCompleted"`
}

// WorkersCall is a call that a worker made.
type WorkersCall struct {
	UID                types.UID `json:"uid"`
	Method             string    `json:"method"`
	Type               string    `json:"type"`
	GracePeriodSeconds *int64    `json:"gracePeriodSeconds"`
	Result             string    `json:"result"`
}

// WorkersKnown is what SyncKnownPods answered of one pod.
type WorkersKnown struct {
	State     string `json:"state"`
	Orphan    bool   `json:"orphan"`
	HasConfig bool   `json:"hasConfig"`
	Static    bool   `json:"static"`
}

// IsKnown reports whether the step sets the desired pods; all other steps are
// updates.
func (d *WorkersDo) IsKnown() (bool, error) {
	var known bool
	err := oneOf(d.Op, &known, map[word]bool{"known": true, "update": false})
	return known, err
}

// Update makes of a step what Set.Update is given; a request to stop the pod is
// given that ID.
func (d *WorkersDo) Update(id podworkers.StopID) (podworkers.Update, error) {
	u := podworkers.Update{Status: &runtime.PodStatus{UID: d.UID}}
	if err := oneOf(d.Type, &u.Type, map[word]podworkers.UpdateType{
		"create": podworkers.Create, "update": podworkers.Changed, "sync": podworkers.Sync, "kill": podworkers.Kill,
	}); err != nil {
		return u, fmt.Errorf("type: %w", err)
	}
	switch {
	case d.RuntimeOnly:
		u.RuntimePod = &podworkers.RuntimePod{UID: d.UID, Name: string(d.UID), Namespace: "ns"}
	case d.Pod != nil:
		u.Pod = d.Pod.pod(d.UID)
	default:
		return u, fmt.Errorf("update of %s has neither pod nor runtimeOnly", d.UID)
	}
	if d.Kill != nil {
		u.Stop = &podworkers.StopRequest{ID: id, Evict: d.Kill.Evict, GracePeriodSeconds: d.Kill.GraceOverride}
	}
	if d.RuntimeReportsRunning {
		u.Status.Containers = []runtime.ContainerStatus{{Name: "c", State: runtime.ContainerRunning}}
	}
	return u, nil
}

// pod returns a pod with that UID. All static pods have the same full name.
func (p *WorkersPod) pod(uid types.UID) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Name: string(uid), Namespace: "ns"}}
	pod.DeletionGracePeriodSeconds = p.DeletionGracePeriodSeconds
	pod.Spec.TerminationGracePeriodSeconds = p.TerminationGracePeriodSeconds
	pod.Status.Phase = p.Phase
	if p.Deleted {
		pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1700000000, 0)}
	}
	if p.Static {
		pod.Name = "static"
		pod.Annotations = map[string]string{runtime.AnnotationConfigSource: "file"}
	}
	return pod
}

// Outcomes returns the results of the step's calls, in order.
func (d *WorkersDo) Outcomes() ([]podworkers.Outcome, error) {
	outcomes := make([]podworkers.Outcome, len(d.Results))
	for i, r := range d.Results {
		if err := oneOf(r, &outcomes[i], map[word]podworkers.Outcome{
			"ok": podworkers.Succeeded, "terminal": podworkers.SucceededTerminal, "error": podworkers.Failed,
		}); err != nil {
			return nil, fmt.Errorf("results[%d]: %w", i, err)
		}
	}
	return outcomes, nil
}
