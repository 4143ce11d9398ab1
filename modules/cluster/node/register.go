package node

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// firstRetry and lastRetry are the shortest and the longest pause between attempts to
// register.
const firstRetry, lastRetry = 100 * time.Millisecond, 7 * time.Second

// register creates the object or adopts the existing one. It returns false if ctx ends before.
func (n *Node) register(ctx context.Context) bool {
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		object, made, err := n.adopt(ctx)
		if err == nil {
			n.recordRegistered(object, made)
			n.observe(object)
			n.config.Log.Info("Node is registered", "node", n.config.Name)
			return true
		}
		n.config.Log.Error(err, "Node is not registered yet", "node", n.config.Name)
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
}

// registerAgain creates the object again after it was deleted while the agent runs.
func (n *Node) registerAgain(ctx context.Context) {
	n.config.Log.Info("Node was deleted", "node", n.config.Name)
	n.register(ctx)
}

// recordRegistered records events: on its first call the agent's start, and for a new object its conditions.
func (n *Node) recordRegistered(object *v1.Node, made bool) {
	if !n.IsRegistered() {
		n.record(nodeEvent{v1.EventTypeNormal, eventStarting, "Starting kubelet."})
	}
	if made {
		n.record(changes(n.config.Name, &v1.NodeStatus{}, &object.Status)...)
	}
}

// adopt returns the object, and whether it was created. It sets the name's labels, operating system and
// architecture. As with a kubelet, an existing object keeps its other labels and its taints: others may have changed
// them.
func (n *Node) adopt(ctx context.Context) (object *v1.Node, made bool, err error) {
	nodes := n.config.Kube.CoreV1().Nodes()
	wanted := n.initial()
	n.describe(wanted)
	object, err = nodes.Create(ctx, wanted, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return object, err == nil, err
	}
	there, err := nodes.Get(ctx, n.config.Name, metav1.GetOptions{})
	if err != nil {
		return nil, false, err
	}
	labels, annotations := n.ownLabels(), n.annotations()
	maps.DeleteFunc(labels, func(k, v string) bool { return there.Labels[k] == v })
	maps.DeleteFunc(annotations, func(k string, v *string) bool {
		has, ok := there.Annotations[k]
		return v == nil && !ok || v != nil && ok && has == *v
	})
	if len(labels)+len(annotations) == 0 {
		return there, false, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels, "annotations": annotations, "uid": there.UID}})
	if err != nil {
		return nil, false, err
	}
	object, err = nodes.Patch(ctx, n.config.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return object, false, err
}

// initial returns the object to create, without a status.
func (n *Node) initial() *v1.Node {
	labels, annotations := n.ownLabels(), map[string]string{}
	maps.Copy(labels, n.config.Labels)
	for k, v := range n.annotations() {
		if v != nil {
			annotations[k] = *v
		}
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.config.Name, Labels: labels, Annotations: annotations},
		Spec:       v1.NodeSpec{ProviderID: n.config.ProviderID, Taints: n.taints()},
	}
}

// ownLabels returns the labels that every Node object must have, unless Config.Labels contains them.
func (n *Node) ownLabels() map[string]string {
	labels := map[string]string{v1.LabelHostname: n.config.Name}
	for _, k := range []string{v1.LabelOSStable, "beta.kubernetes.io/os"} {
		labels[k] = operatingSystem
	}
	for _, k := range []string{v1.LabelArchStable, "beta.kubernetes.io/arch"} {
		labels[k] = architecture
	}
	for k := range labels {
		if given, ok := n.config.Labels[k]; ok {
			labels[k] = given
		}
	}
	return labels
}

// platformLabels returns the labels of the operating system and the architecture that object lacks or has with other
// values. The scheduler and the admission of pods read them, and others may change them while the node runs.
func (n *Node) platformLabels(object *v1.Node) map[string]string {
	labels := n.ownLabels()
	maps.DeleteFunc(labels, func(k, v string) bool {
		return k != v1.LabelOSStable && k != v1.LabelArchStable || object.Labels[k] == v
	})
	return labels
}
