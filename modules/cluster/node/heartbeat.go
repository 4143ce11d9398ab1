package node

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/component-helpers/apimachinery/lease"
	"k8s.io/utils/clock"
)

const (
	// renewals is the number of renewals of a lease within its duration.
	renewals = 4
	// awaitedPause is the pause before a failed write of the status is retried if a call waits for it. Otherwise the pause is
	// failedPause, or Interval if that is shorter.
	awaitedPause, failedPause = 200 * time.Millisecond, 10 * time.Second
	// overwrittenPause is the time after a write of the status in which a Ready condition that another client has written
	// causes no write at once: two agents with one name must not answer each other without end. The next observation
	// corrects it.
	overwrittenPause = 10 * time.Second
)

// renewLease renews the node's lease until ctx ends.
func (n *Node) renewLease(ctx context.Context) {
	owned := func(l *coordinationv1.Lease) error {
		l.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: v1.SchemeGroupVersion.String(), Kind: "Node", Name: n.config.Name, UID: n.Object().UID,
		}}
		return nil
	}
	failing := func() {
		n.config.Log.Info("The lease of the node cannot be renewed", "node", n.config.Name)
		n.config.HeartbeatFailed()
	}
	client := leaseClient{n.config.Heartbeats, n.config.Renewed}
	lease.NewController(clock.RealClock{}, client, n.config.Name, int32(n.config.LeaseDuration/time.Second), failing,
		n.config.LeaseDuration/renewals, n.config.Name, v1.NamespaceNodeLease, owned).Run(ctx)
}

// heartbeat periodically observes the node and writes changes to its status.
func (n *Node) heartbeat(ctx context.Context) {
	for {
		waiting, next := n.waiting(), time.Now().Add(n.pause())
		if err := n.update(ctx); err == nil {
			n.wake(waiting)
		} else if ctx.Err() == nil {
			n.config.Log.Error(err, "The status of the node is not written", "node", n.config.Name)
			n.config.HeartbeatFailed()
			pause := min(failedPause, n.config.Interval)
			if len(n.waiting()) > 0 {
				pause = awaitedPause
			}
			next = time.Now().Add(pause)
		}
		select {
		case <-ctx.Done():
			return
		case <-n.deleted:
			n.registerAgain(ctx)
		case <-n.changed:
		case <-time.After(time.Until(next)):
		}
	}
}

// pause returns how long the node waits before its next observation. The wait ends at the latest when the last response from
// the runtime becomes invalid.
func (n *Node) pause() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if valid := time.Until(n.runtime.answered.Add(downAfter + time.Millisecond)); valid > 0 {
		return min(valid, n.config.Interval)
	}
	return n.config.Interval
}

// waiting returns the calls that wait for a write.
func (n *Node) waiting() []chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Collect(maps.Keys(n.awaited))
}

// wake ends the calls that wait for a write.
func (n *Node) wake(waiting []chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, written := range waiting {
		delete(n.awaited, written)
		close(written)
	}
}

// watch observes the changes to the Node in the API server until stop is called.
func (n *Node) watch() (stop func()) {
	return n.nodes.nodes.Listen(n.config.Name, func(o *v1.Node, gone bool) {
		if !gone {
			n.observe(o)
			return
		}
		select {
		case n.deleted <- struct{}{}:
		default: // the deletion is pending already
		}
	})
}

// update writes the status if it has changed, if the last write is older than ReportInterval, or if it must correct a label
// of the platform.
func (n *Node) update(ctx context.Context) error {
	before := n.Object()
	n.recordSchedulable(before)
	after := before.DeepCopy()
	n.describe(after)
	labels := n.platformLabels(before)
	if len(labels) == 0 && time.Since(n.lastReport()) < n.config.ReportInterval && same(&before.Status, &after.Status) {
		return nil
	}
	patch, err := patchOf(before, after, labels)
	if err != nil {
		return err
	}
	written, err := n.config.Heartbeats.CoreV1().Nodes().Patch(ctx, n.config.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) { // it was deleted before the watch began
		n.registerAgain(ctx) // also writes the status
		return nil
	}
	if err != nil {
		return err
	}
	n.record(changes(n.config.Name, &before.Status, &after.Status)...)
	n.mu.Lock()
	defer n.mu.Unlock()
	if readiness(written) != readiness(after) { // another client has overwritten it, which the patch could not know
		n.overwritten()
	}
	n.object, n.reported = written, time.Now()
	return nil
}

// A read of the newest Node times out after readTimeout. After a failure the node is not read for failedPause, so that
// many pods do not wait one after the other.
const readTimeout = time.Second

// Newest reads the Node. It returns the last known version if that fails, or if a read has failed in the last 10 s. Call
// it only after the registration. The caller must not modify the Node.
func (n *Node) Newest() *v1.Node {
	n.reading.Lock()
	defer n.reading.Unlock()
	if time.Now().Before(n.nextRead) {
		return n.Object()
	}
	ctx, cancel := context.WithTimeout(n.runCtx, readTimeout)
	defer cancel()
	object, err := n.config.Kube.CoreV1().Nodes().Get(ctx, n.config.Name, metav1.GetOptions{})
	if err != nil {
		n.nextRead = time.Now().Add(failedPause)
		n.config.Log.Error(err, "The node cannot be read", "node", n.config.Name)
		return n.Object()
	}
	n.observe(object)
	return object
}

func (n *Node) lastReport() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.reported
}

// same reports whether two statuses are equal except for the times of heartbeats.
func same(a, b *v1.NodeStatus) bool {
	return equality.Semantic.DeepEqual(withoutHeartbeats(*a), withoutHeartbeats(*b))
}

func withoutHeartbeats(s v1.NodeStatus) v1.NodeStatus {
	s.Conditions = slices.Clone(s.Conditions)
	for i := range s.Conditions {
		s.Conditions[i].LastHeartbeatTime = metav1.Time{}
	}
	return s
}

// patchOf returns the patch that writes the status of after and sets labels.
func patchOf(before, after *v1.Node, labels map[string]string) ([]byte, error) {
	old, err := json.Marshal(v1.Node{Status: before.Status})
	if err != nil {
		return nil, err
	}
	status := after.Status
	status.Addresses = nil // a merge by type would mix up addresses of the same type
	next, err := json.Marshal(v1.Node{Status: status})
	if err != nil {
		return nil, err
	}
	body, err := strategicpatch.CreateTwoWayMergePatch(old, next, v1.Node{})
	if err != nil {
		return nil, err
	}
	return completed(body, after, labels)
}

// completed makes the patch replace the addresses, and adds labels and the object's identity.
func completed(body []byte, node *v1.Node, labels map[string]string) ([]byte, error) {
	var patch map[string]any
	if err := json.Unmarshal(body, &patch); err != nil {
		return nil, err
	}
	status, _ := patch["status"].(map[string]any)
	if status == nil {
		status = map[string]any{}
		patch["status"] = status
	}
	addresses := []any{map[string]any{"$patch": "replace"}}
	for _, a := range node.Status.Addresses {
		addresses = append(addresses, a)
	}
	delete(status, "$setElementOrder/addresses")
	status["addresses"] = addresses
	metadata := map[string]any{"uid": node.UID}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	patch["metadata"] = metadata
	return json.Marshal(patch)
}
