package volumes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"github.com/podsync/podsync/modules/csi"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/container/env"
)

type noSecrets struct{ env.Secrets }

func newVolumes(t *testing.T, objects ...k8sruntime.Object) (*Volumes, *fake.Clientset, *v1.Node, *int) {
	t.Helper()
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "node-uid"}}
	kube := fake.NewClientset(append(objects, node.DeepCopy())...)
	reports := 0
	v := must.Get(New(Config{Kube: kube, NodeName: "n", Node: func() *v1.Node { return node }, Report: func() { reports++ }, Secrets: noSecrets{}}))(t)
	return v, kube, node, &reports
}

func disk() *v1.PersistentVolume {
	return &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: v1.PersistentVolumeSpec{
		Capacity:               v1.ResourceList{v1.ResourceStorage: resource.MustParse("2Gi")},
		ClaimRef:               &v1.ObjectReference{Namespace: "ns", Name: "data", UID: "c"},
		PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "d.example.com", VolumeHandle: "h"}},
	}}
}

// The API server must know that the node uses a volume before the volume is mounted. Otherwise the volume could be
// detached meanwhile.
func TestAnAttachedVolumeWaitsUntilItIsReportedInUse(t *testing.T) {
	name := "pv"
	attachment := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "va"}, Spec: storagev1.VolumeAttachmentSpec{Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}}}
	attachment.Status.Attached = true
	v, _, node, reports := newVolumes(t, disk(), attachment)
	if found, err := v.attachment(t.Context(), "none"); found != nil || err != nil {
		t.Errorf("one that does not exist: %v, %v", found, err)
	}
	if _, err := v.attachment(t.Context(), "va"); err == nil || !strings.Contains(err.Error(), "volumesInUse") || *reports != 1 {
		t.Errorf("%v, %d reports, want an error and a report", err, *reports)
	}
	node.Status.VolumesInUse = []v1.UniqueVolumeName{"kubernetes.io/csi/d.example.com^h"}
	if found, err := v.attachment(t.Context(), "va"); err != nil || !found.Status.Attached {
		t.Errorf("%v, %v", found, err)
	}
}

func TestCSINode(t *testing.T) {
	old := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "old.example.com", NodeID: "x"}}}}
	for name, objects := range map[string][]k8sruntime.Object{"new": nil, "of an earlier agent": {old}} {
		t.Run(name, func(t *testing.T) {
			v, kube, node, _ := newVolumes(t, objects...)
			kube.PrependReactor("update", "csinodes", func(a kubetesting.Action) (bool, k8sruntime.Object, error) {
				// The API server rejects a change of a driver's entry.
				before, err := kube.Tracker().Get(a.GetResource(), "", "n")
				if err != nil {
					return true, nil, err
				}
				drivers := before.(*storagev1.CSINode).Spec.Drivers
				if next := a.(kubetesting.UpdateAction).GetObject().(*storagev1.CSINode); len(withoutChanged(drivers, next.Spec.Drivers)) < len(drivers) {
					return true, nil, errors.New("spec.drivers: field is immutable")
				}
				return false, nil, nil
			})
			drivers := func() (names []string) {
				t.Helper()
				must.Do(t, v.writeCSINode(t.Context()))
				found, err := kube.StorageV1().CSINodes().Get(t.Context(), "n", metav1.GetOptions{})
				if err != nil || len(found.OwnerReferences) != 1 || found.OwnerReferences[0].UID != "node-uid" {
					t.Fatalf("%+v, %v", found, err)
				}
				for _, d := range found.Spec.Drivers {
					names = append(names, d.Name)
					if d.Name == "d.example.com" && (d.NodeID != "id" || *d.Allocatable.Count != 25 || !slices.Equal(d.TopologyKeys, []string{"example.com/rack"})) {
						t.Errorf("%+v", d)
					}
				}
				return names
			}
			var others []string
			if objects != nil {
				others = []string{"old.example.com"}
			}
			if got := drivers(); !slices.Equal(got, others) {
				t.Errorf("before a driver: %v", got)
			}
			v.Registered([]csi.DriverInfo{{Name: "d.example.com", NodeID: "of its last version"}})
			if err := v.writeCSINode(t.Context()); err != nil {
				t.Error(err)
			}
			v.Registered([]csi.DriverInfo{{Name: "d.example.com", NodeID: "id", MaxVolumes: 25, Topology: map[string]string{"example.com/rack": "7"}}})
			if got := drivers(); !slices.Equal(got, append([]string{"d.example.com"}, others...)) {
				t.Errorf("with a driver: %v", got)
			}
			labelled, err := kube.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
			if err != nil || labelled.Labels["example.com/rack"] != "7" || labelled.Annotations[nodeIDs] != `{"d.example.com":"id"}` {
				t.Errorf("%+v, %v", labelled.ObjectMeta, err)
			}
			v.Registered(nil)
			if got := drivers(); !slices.Equal(got, others) {
				t.Errorf("after it has left: %v", got)
			}
			node.Labels = map[string]string{"example.com/rack": "8"}
			v.Registered([]csi.DriverInfo{{Name: "d.example.com", NodeID: "id", Topology: map[string]string{"example.com/rack": "7"}}, {Name: "e.example.com", NodeID: "e"}})
			if err := v.writeCSINode(t.Context()); err == nil {
				t.Error("a topology that contradicts the label of the node is written")
			}
			found, err := kube.StorageV1().CSINodes().Get(t.Context(), "n", metav1.GetOptions{})
			if err != nil || len(found.Spec.Drivers) != len(others)+1 || found.Spec.Drivers[0].Name != "e.example.com" {
				t.Errorf("%+v, %v, want the driver that fits the node", found, err)
			}
		})
	}
}

// A claim's status has the progress and the result of its expansion (KEP-1790).
func TestExpansionInTheStatusOfAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "c"}}
		claim.Status.Conditions = []v1.PersistentVolumeClaimCondition{{Type: v1.PersistentVolumeClaimFileSystemResizePending}, {Type: "Other"}}
		claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("2Gi")}
		claim.Status.AllocatedResources = v1.ResourceList{v1.ResourceStorage: resource.MustParse("2Gi")}
		claim.Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{v1.ResourceStorage: v1.PersistentVolumeClaimNodeResizePending, "other": "Pending"}
		v, kube, _, _ := newVolumes(t, disk(), claim)
		claims := kube.CoreV1().PersistentVolumeClaims("ns")
		want := func(status v1.ClaimResourceStatus, conditions ...v1.PersistentVolumeClaimConditionType) *v1.PersistentVolumeClaim {
			t.Helper()
			got := must.Get(claims.Get(t.Context(), "data", metav1.GetOptions{}))(t)
			if s := got.Status.AllocatedResourceStatuses; s[v1.ResourceStorage] != status || s["other"] != "Pending" {
				t.Errorf("statuses %v, want %q", s, status)
			}
			var has []v1.PersistentVolumeClaimConditionType
			for _, c := range got.Status.Conditions {
				has = append(has, c.Type)
			}
			if !slices.Equal(has, conditions) {
				t.Errorf("conditions %v, want %v", has, conditions)
			}
			return got
		}
		expand := func(err error) {
			t.Helper()
			must.Do(t, v.Expanding(t.Context(), "pv", 2<<30))
			want(v1.PersistentVolumeClaimNodeResizeInProgress, conditionsOf(t, kube)...)
			must.Do(t, v.writeExpansion(t.Context(), expansion{"pv", 2 << 30, err}))
		}
		expand(errors.New("no answer"))
		began := time.Now()
		failed := want(v1.PersistentVolumeClaimNodeResizeInProgress, v1.PersistentVolumeClaimFileSystemResizePending, "Other", v1.PersistentVolumeClaimNodeResizeError)
		if c := failed.Status.Conditions[2]; c.Status != v1.ConditionTrue || !strings.Contains(c.Message, "no answer") || !failed.Status.Capacity.Storage().IsZero() {
			t.Errorf("%+v, capacity %v", c, failed.Status.Capacity)
		}
		time.Sleep(time.Hour)
		expand(fmt.Errorf("too large: %w", csi.ErrInfeasible))
		failed = want(v1.PersistentVolumeClaimNodeResizeInfeasible, v1.PersistentVolumeClaimFileSystemResizePending, "Other", v1.PersistentVolumeClaimNodeResizeError)
		if c := failed.Status.Conditions[2]; !strings.Contains(c.Message, "too large") || !c.LastTransitionTime.Time.Equal(began.Truncate(time.Second)) {
			t.Errorf("%+v, want the time of the first failure", c)
		}
		if err := v.Expanding(t.Context(), "pv", 2<<30); err == nil || !strings.Contains(err.Error(), "claim ns/data") {
			t.Errorf("an infeasible expansion is begun again: %v", err)
		}

		// An outdated result changes nothing.
		for _, err := range []error{nil, errors.New("no answer")} {
			must.Do(t, v.writeExpansion(t.Context(), expansion{"pv", 1 << 30, err}))
		}
		if got := want(v1.PersistentVolumeClaimNodeResizeInfeasible, v1.PersistentVolumeClaimFileSystemResizePending, "Other", v1.PersistentVolumeClaimNodeResizeError); !got.Status.Capacity.Storage().IsZero() {
			t.Errorf("an outdated result is written: %v", got.Status.Capacity)
		}

		// If another size is requested, the resizer must act after any failure.
		failed.Status.AllocatedResourceStatuses[v1.ResourceStorage] = v1.PersistentVolumeClaimControllerResizeInProgress
		failed = must.Get(claims.UpdateStatus(t.Context(), failed, metav1.UpdateOptions{}))(t)
		if err := v.Expanding(t.Context(), "pv", 2<<30); err == nil || !strings.Contains(err.Error(), "ControllerResizeInProgress") {
			t.Errorf("an expansion is begun while the resizer works: %v", err)
		}
		failed.Spec.Resources.Requests[v1.ResourceStorage] = resource.MustParse("1Gi")
		must.Get(claims.Update(t.Context(), failed, metav1.UpdateOptions{}))(t)
		must.Do(t, v.writeExpansion(t.Context(), expansion{"pv", 2 << 30, csi.ErrInfeasible}))
		failed = want(v1.PersistentVolumeClaimControllerResizeInProgress, v1.PersistentVolumeClaimFileSystemResizePending, "Other", v1.PersistentVolumeClaimNodeResizeError)
		failed.Status.AllocatedResourceStatuses[v1.ResourceStorage] = v1.PersistentVolumeClaimNodeResizeInProgress
		must.Get(claims.UpdateStatus(t.Context(), failed, metav1.UpdateOptions{}))(t)
		must.Do(t, v.writeExpansion(t.Context(), expansion{"pv", 2 << 30, errors.New("no answer")}))
		failed = want(v1.PersistentVolumeClaimNodeResizeInfeasible, v1.PersistentVolumeClaimFileSystemResizePending, "Other", v1.PersistentVolumeClaimNodeResizeError)

		// The resizer has another size.
		failed.Status.AllocatedResourceStatuses[v1.ResourceStorage] = v1.PersistentVolumeClaimNodeResizePending
		must.Get(claims.UpdateStatus(t.Context(), failed, metav1.UpdateOptions{}))(t)
		expand(nil)
		if got := want("", "Other"); got.Status.Capacity.Storage().String() != "2Gi" {
			t.Errorf("capacity %v", got.Status.Capacity)
		}
	})
}

func conditionsOf(t *testing.T, kube *fake.Clientset) (all []v1.PersistentVolumeClaimConditionType) {
	t.Helper()
	claim := must.Get(kube.CoreV1().PersistentVolumeClaims("ns").Get(t.Context(), "data", metav1.GetOptions{}))(t)
	for _, c := range claim.Status.Conditions {
		all = append(all, c.Type)
	}
	return all
}

// A claim of a resizer that records no allocated sizes gets no status of the expansion, and a volume without a claim is
// expanded.
func TestExpansionWithoutAllocatedSize(t *testing.T) {
	v, kube, _, _ := newVolumes(t, disk(), &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "c"}})
	for _, volume := range []string{"pv", "missing"} {
		if err := v.Expanding(t.Context(), volume, 2<<30); err != nil {
			t.Error(err)
		}
	}
	if err := v.writeExpansion(t.Context(), expansion{"pv", 2 << 30, csi.ErrInfeasible}); err != nil {
		t.Error(err)
	}
	got, err := kube.CoreV1().PersistentVolumeClaims("ns").Get(t.Context(), "data", metav1.GetOptions{})
	if err != nil || len(got.Status.AllocatedResourceStatuses) > 0 || len(got.Status.Conditions) != 1 {
		t.Errorf("%+v, %v", got.Status, err)
	}
}

func TestTokensAreKeptForTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, kube, _, _ := newVolumes(t)
		issued := 0
		kube.PrependReactor("create", "serviceaccounts", func(kubetesting.Action) (bool, k8sruntime.Object, error) {
			issued++
			return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: "t", ExpirationTimestamp: metav1.NewTime(time.Now().Add(time.Hour))}}, nil
		})
		ask := func() {
			t.Helper()
			text, err := v.token(context.Background(), csi.Pod{UID: "u", Namespace: "ns", Name: "p", ServiceAccount: "robot"}, []storagev1.TokenRequest{{Audience: "vault"}})
			if err != nil || !strings.HasPrefix(text, `{"vault":{"token":"t","expirationTimestamp":`) {
				t.Errorf("%s, %v", text, err)
			}
		}
		ask()
		time.Sleep(47 * time.Minute)
		ask()
		if issued != 1 {
			t.Errorf("%d tokens within 80 %% of their time, want 1", issued)
		}
		time.Sleep(2 * time.Minute)
		ask()
		if issued != 2 {
			t.Errorf("%d tokens, want 2", issued)
		}
	})
}

// A claim that the node may no longer write does not delay the sizes of other claims.
func TestSizeThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := disk()
		other.Name, other.Spec.ClaimRef = "gone", &v1.ObjectReference{Namespace: "ns", Name: "missing", UID: "m"}
		busy := disk()
		busy.Name, busy.Spec.ClaimRef = "busy", &v1.ObjectReference{Namespace: "ns", Name: "busy", UID: "b"}
		claims := []k8sruntime.Object{
			&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "c"}},
			&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "busy", UID: "b"}},
		}
		v, kube, _, _ := newVolumes(t, append(claims, disk(), other, busy)...)
		failures := 3
		kube.PrependReactor("patch", "persistentvolumeclaims", func(a kubetesting.Action) (bool, k8sruntime.Object, error) {
			if a.(kubetesting.PatchAction).GetName() != "busy" || failures == 0 {
				return false, nil, nil
			}
			failures--
			return true, nil, errors.New("the API server is unavailable")
		})
		for _, volume := range []string{"gone", "busy", "pv"} {
			v.Expanded(volume, 2<<30, nil)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go v.writeExpansions(ctx)
		size := func(name string) string {
			claim := must.Get(kube.CoreV1().PersistentVolumeClaims("ns").Get(ctx, name, metav1.GetOptions{}))(t)
			return claim.Status.Capacity.Storage().String()
		}
		time.Sleep(writePause + time.Millisecond)
		if size("data") != "2Gi" || size("busy") != "0" {
			t.Errorf("after one pause: %s, %s, want 2Gi, 0", size("data"), size("busy"))
		}
		time.Sleep(2 * writePause)
		if size("busy") != "2Gi" {
			t.Errorf("after all failures: %s, want 2Gi", size("busy"))
		}
	})
}
