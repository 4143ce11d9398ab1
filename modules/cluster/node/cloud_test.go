package node_test

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/podsync/podsync/modules/cluster/node"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/eviction"
)

const (
	uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"
	managedAttach = "volumes.kubernetes.io/controller-managed-attach-detach"
	providedIPs   = "alpha.kubernetes.io/provided-node-ip"
)

// registered runs a node for a minute, and returns its object in the API server.
func registered(t *testing.T, there *v1.Node, change func(c *node.Config)) (object *v1.Node) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		if there != nil {
			kube = fake.NewClientset(there)
		}
		watchCopies(kube)
		c := configOf(kube, &cri{})
		change(&c)
		n, err := node.New(c)
		if err != nil {
			t.Fatal(err)
		}
		stop := must.Go(t, n.Run)
		time.Sleep(time.Minute)
		object, err = kube.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
		if err != nil {
			t.Error(err)
		}
		stop()
	})
	return object
}

// A Node that a cloud controller manager completes has its taint, and only the addresses that an option sets.
func TestExternalCloud(t *testing.T) {
	given := []v1.Taint{{Key: "dedicated", Effect: v1.TaintEffectNoSchedule}}
	for _, provided := range []bool{false, true} {
		object := registered(t, nil, func(c *node.Config) {
			c.ExternalCloud, c.ProvidedIPs, c.Taints = true, provided, given
			c.ProviderID, c.Labels = "cloud:///1", map[string]string{"tier": "edge"}
			c.IPs = func() []netip.Addr {
				return []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}
			}
		})
		taints := object.Spec.Taints
		if len(taints) != 2 || taints[0].Key != "dedicated" || taints[1].Key != uninitialized || taints[1].Value != "true" || taints[1].Effect != v1.TaintEffectNoSchedule {
			t.Errorf("the taints are %v", taints)
		}
		if object.Labels["tier"] != "edge" || object.Labels[v1.LabelHostname] != "n1" || object.Spec.ProviderID != "cloud:///1" {
			t.Errorf("labels %v, provider ID %s", object.Labels, object.Spec.ProviderID)
		}
		want, addresses := "", 1
		if provided {
			want, addresses = "10.0.0.1,fd00::1", 3
		}
		if object.Annotations[providedIPs] != want || len(object.Status.Addresses) != addresses {
			t.Errorf("provided %v: annotation %q, addresses %v", provided, object.Annotations[providedIPs], object.Status.Addresses)
		}
	}
	if len(given) != 1 || cap(given) != 1 {
		t.Errorf("the taints of the configuration are %v", given)
	}
}

// A node keeps the addresses that the cloud controller manager has written, and labels and taints that others have
// changed.
func TestNodeThatACloudHasCompleted(t *testing.T) {
	there := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u", Labels: map[string]string{"tier": "core"}, Annotations: map[string]string{providedIPs: "10.9.9.9"}}}
	there.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeExternalIP, Address: "1.2.3.4"}, {Type: v1.NodeInternalIP, Address: "10.1.1.1"}}
	object := registered(t, there.DeepCopy(), func(c *node.Config) {
		c.ExternalCloud, c.Labels, c.Taints = true, map[string]string{"tier": "edge"}, []v1.Taint{{Key: "dedicated", Effect: v1.TaintEffectNoSchedule}}
	})
	if len(object.Status.Addresses) != 2 || object.Status.Addresses[0].Address != "1.2.3.4" {
		t.Errorf("the addresses are %v", object.Status.Addresses)
	}
	if len(object.Spec.Taints) > 0 || object.Labels["tier"] != "core" || object.Labels[v1.LabelHostname] != "n1" {
		t.Errorf("the taints are %v, the labels %v", object.Spec.Taints, object.Labels)
	}
	if _, ok := object.Annotations[providedIPs]; ok {
		t.Error("the annotation of an earlier start is still there")
	}
	object = registered(t, there.DeepCopy(), func(c *node.Config) { c.ProvidedIPs = true })
	if len(object.Status.Addresses) != 2 || object.Status.Addresses[0].Address != "10.0.0.1" {
		t.Errorf("without a cloud the addresses are %v", object.Status.Addresses)
	}
}

// The controller manager attaches volumes to a node whose agent reports which volumes are in use, and to no other.
func TestVolumesAreAttachedByTheControllerManager(t *testing.T) {
	for _, there := range []*v1.Node{nil, {ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u"}}} {
		object := registered(t, there, func(c *node.Config) { c.VolumesInUse = func() []v1.UniqueVolumeName { return nil } })
		if got := object.Annotations[managedAttach]; got != "true" {
			t.Errorf("the annotation is %q, want true", got)
		}
		object = registered(t, object, func(*node.Config) {})
		if got, ok := object.Annotations[managedAttach]; ok {
			t.Errorf("without volumes the annotation is %q, want none", got)
		}
	}
}

// The node has ephemeral storage. Its allocatable storage excludes reservations and the part that hard evictions keep
// free.
func TestEphemeralStorage(t *testing.T) {
	capacity := node.Machine{CPUs: 1, MemoryBytes: 1 << 30, StorageBytes: 100 << 30}.Capacity(10)
	rules := eviction.Rules{Thresholds: []eviction.Threshold{
		{Signal: eviction.NodeFSAvailable, Value: eviction.Amount{Percent: 10}},
		{Signal: eviction.ImageFSAvailable, Value: eviction.Amount{Percent: 50}},
		{Signal: eviction.NodeFSAvailable, Value: eviction.Amount{Percent: 20}, Grace: time.Minute},
	}}
	system := v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse("20Gi")}
	left := node.Allocatable(capacity, system, node.Reserved(rules, capacity))
	if storage := left[v1.ResourceEphemeralStorage]; storage.Value() != 70<<30 {
		t.Errorf("allocatable is %s, want 70Gi", storage.String())
	}
	without := node.Machine{CPUs: 1, MemoryBytes: 1 << 30}.Capacity(10)
	if _, ok := node.Reserved(rules, without)[v1.ResourceEphemeralStorage]; ok {
		t.Error("storage is reserved of a machine that has none")
	}
	if bytes := node.StorageBytes(t.TempDir()); bytes < 1<<20 {
		t.Errorf("the file system of the temporary directory has %d bytes", bytes)
	}
	if bytes := node.StorageBytes("/nonexistent/path"); bytes != 0 {
		t.Errorf("a path that does not exist has %d bytes", bytes)
	}
}
