package volumes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/podsync/podsync/modules/csi"
)

const (
	// writePause is the pause before a failed write is retried.
	writePause = 2 * time.Second
	// nodeIDs is the annotation of the Node with the drivers' names for the node.
	nodeIDs = "csi.volume.kubernetes.io/nodeid"
)

// Registered implements csi.Config.Registered: it schedules a write of the CSINode.
func (v *Volumes) Registered(drivers []csi.DriverInfo) {
	v.mu.Lock()
	for _, d := range v.registered {
		v.deregistered[d.Name] = true
	}
	for _, d := range drivers {
		delete(v.deregistered, d.Name)
	}
	v.registered = drivers
	v.mu.Unlock()
	select {
	case v.changed <- struct{}{}:
	default: // a write is pending already
	}
}

// keepCSINode writes the CSINode whenever drivers register or deregister, until ctx ends. It creates a CSINode without
// drivers at once: without it the scheduler places no pod that needs a driver on the node.
func (v *Volumes) keepCSINode(ctx context.Context) {
	for {
		err := v.writeCSINode(ctx)
		if err != nil && ctx.Err() == nil {
			v.config.Log.Error(err, "The CSINode of the node is not written")
		}
		var retry <-chan time.Time
		if err != nil {
			retry = time.After(writePause)
		}
		select {
		case <-ctx.Done():
			return
		case <-v.changed:
		case <-retry:
		}
	}
}

// writeCSINode updates the CSINode. Drivers of an earlier agent stay in it until they have registered and deregistered
// again. It first writes the topology labels to the Node, because the scheduler reads both.
func (v *Volumes) writeCSINode(ctx context.Context) error {
	node := v.config.Node()
	if node == nil {
		return fmt.Errorf("node %s is not registered", v.config.NodeName)
	}
	v.mu.Lock()
	registered, left := v.registered, maps.Clone(v.deregistered)
	v.mu.Unlock()
	registered, conflicts := matchTopology(node, registered)
	if err := v.labelNode(ctx, node, registered); err != nil {
		return err
	}
	client := v.config.Kube.StorageV1().CSINodes()
	found, err := client.Get(ctx, v.config.NodeName, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return err
	}
	if missing {
		found = &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: v.config.NodeName}}
	}
	next := found.DeepCopy()
	next.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	next.Spec.Drivers = driversOf(found.Spec.Drivers, registered, left)
	if first := found.DeepCopy(); !missing {
		first.Spec.Drivers = withoutChanged(found.Spec.Drivers, next.Spec.Drivers)
		if len(first.Spec.Drivers) < len(found.Spec.Drivers) { // the API server rejects changed entries, so they are removed and added
			if first, err = client.Update(ctx, first, metav1.UpdateOptions{}); err != nil {
				return err
			}
			next.ResourceVersion = first.ResourceVersion
		}
	}
	switch {
	case missing:
		_, err = client.Create(ctx, next, metav1.CreateOptions{})
	case !equality.Semantic.DeepEqual(found, next):
		_, err = client.Update(ctx, next, metav1.UpdateOptions{})
	}
	return errors.Join(err, conflicts)
}

// withoutChanged returns the drivers whose entry in next is the same.
func withoutChanged(before, next []storagev1.CSINodeDriver) []storagev1.CSINodeDriver {
	return slices.DeleteFunc(slices.Clone(before), func(d storagev1.CSINodeDriver) bool {
		i := slices.IndexFunc(next, func(other storagev1.CSINodeDriver) bool { return other.Name == d.Name })
		return i >= 0 && !equality.Semantic.DeepEqual(d, next[i])
	})
}

// driversOf returns the drivers of the next CSINode, sorted by name: those of the one before without left, and the registered
// ones.
func driversOf(before []storagev1.CSINodeDriver, registered []csi.DriverInfo, left map[string]bool) []storagev1.CSINodeDriver {
	byName := map[string]storagev1.CSINodeDriver{}
	for _, d := range before {
		if !left[d.Name] {
			byName[d.Name] = d
		}
	}
	for _, d := range registered {
		entry := storagev1.CSINodeDriver{Name: d.Name, NodeID: d.NodeID, TopologyKeys: slices.Sorted(maps.Keys(d.Topology))}
		if d.MaxVolumes > 0 {
			count := int32(min(d.MaxVolumes, 1<<31-1))
			entry.Allocatable = &storagev1.VolumeNodeResources{Count: &count}
		}
		byName[d.Name] = entry
	}
	all := []storagev1.CSINodeDriver{} // the field is required
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		all = append(all, byName[name])
	}
	return all
}

// matchTopology returns the drivers whose topology agrees with the labels of the Node, and an error for the others.
func matchTopology(node *v1.Node, registered []csi.DriverInfo) (fit []csi.DriverInfo, conflicts error) {
	for _, d := range registered {
		var conflict error
		for _, key := range slices.Sorted(maps.Keys(d.Topology)) {
			if had, ok := node.Labels[key]; ok && had != d.Topology[key] {
				conflict = fmt.Errorf("driver %s: its topology has %s=%.63q, and the node has %q", d.Name, key, d.Topology[key], had)
			}
		}
		if conflict == nil {
			fit = append(fit, d)
		}
		conflicts = errors.Join(conflicts, conflict)
	}
	return fit, conflicts
}

// labelNode sets the topology labels of the drivers and the annotation with the drivers' names for the node.
func (v *Volumes) labelNode(ctx context.Context, node *v1.Node, registered []csi.DriverInfo) error {
	labels, ids := map[string]string{}, map[string]string{}
	for _, d := range registered {
		for key, value := range d.Topology {
			if _, ok := node.Labels[key]; !ok {
				labels[key] = value
			}
		}
		ids[d.Name] = d.NodeID
	}
	text, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	if len(registered) == 0 || len(labels) == 0 && node.Annotations[nodeIDs] == string(text) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels, "annotations": map[string]string{nodeIDs: string(text)}}})
	if err != nil {
		return err
	}
	_, err = v.config.Kube.CoreV1().Nodes().Patch(ctx, v.config.NodeName, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return err
}
