package status_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/podsync/podsync/modules/cluster/internal/clientlog"
	"github.com/podsync/podsync/modules/cluster/status"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

func TestMain(m *testing.M) { os.Exit(clientlog.Run(m)) }

// A desk has a Manager and an API server.
type desk struct {
	*testing.T
	*status.Manager
	kube *fake.Clientset
	// mirror is the mirror of a static pod, nil if there is none.
	mirror *v1.Pod
	// away is true while the API server has not listed the pods.
	away bool
}

// Synced implements status.Pods.
func (d *desk) Synced() bool { return !d.away }

// Get implements status.Pods. It returns the pod in the API server.
func (d *desk) Get(namespace, name string, uid types.UID) *v1.Pod {
	object, err := d.kube.Tracker().Get(v1.SchemeGroupVersion.WithResource("pods"), namespace, name)
	if pod, ok := object.(*v1.Pod); err == nil && ok && pod.UID == uid && !d.away {
		return pod
	}
	return nil
}

func atDesk(t *testing.T, pod *v1.Pod, test func(d *desk)) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{T: t, kube: fake.NewClientset(pod)}
		d.Manager = must.Get(status.New(status.Config{Kube: d.kube, Pods: d, Mirror: func(*v1.Pod) *v1.Pod { return d.mirror }}))(t)
		must.Go(t, d.Manager.Run)
		test(d)
	})
}

func podOf() *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1", ResourceVersion: "7"}}
}

func (d *desk) set(pod *v1.Pod, s v1.PodStatus) {
	d.Helper()
	must.Do(d, d.SetPodStatus(d.Context(), pod, s))
	synctest.Wait()
}

func (d *desk) status() v1.PodStatus {
	d.Helper()
	pod := d.Get("default", "web", "1")
	if pod == nil {
		d.Fatal("the pod is gone")
	}
	return pod.Status
}

func (d *desk) patches() (patches []map[string]any) {
	for _, a := range d.kube.Actions() {
		if p, ok := a.(ktesting.PatchAction); ok {
			var patch map[string]any
			must.Do(d, json.Unmarshal(p.GetPatch(), &patch))
			patches = append(patches, patch)
		}
	}
	return patches
}

func condition(t v1.PodConditionType, s v1.ConditionStatus) v1.PodCondition {
	return v1.PodCondition{Type: t, Status: s}
}

func TestStatusIsWrittenOnce(t *testing.T) {
	atDesk(t, podOf(), func(d *desk) {
		d.set(podOf(), v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.1"})
		if got := d.status(); got.Phase != v1.PodRunning || got.PodIP != "10.0.0.1" {
			d.Errorf("the status is %+v", got)
		}
		d.set(podOf(), v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.1"})
		patches := d.patches()
		if len(patches) != 1 {
			d.Fatalf("%d patches, want 1: %v", len(patches), patches)
		}
		meta := patches[0]["metadata"].(map[string]any)
		if meta["uid"] != "1" || meta["resourceVersion"] != "7" {
			d.Errorf("the patch is for %v", meta)
		}
	})
}

// Flush waits for the statuses that are due, except the statuses of pods that the API server does not have.
func TestFlush(t *testing.T) {
	atDesk(t, podOf(), func(d *desk) {
		failing := errors.New("unavailable")
		d.kube.PrependReactor("patch", "pods", func(ktesting.Action) (bool, runtime.Object, error) { return failing != nil, nil, failing })
		for _, name := range []string{"web", "unknown"} {
			pod := podOf()
			pod.Name, pod.UID = name, types.UID(map[string]string{"web": "1", "unknown": "2"}[name])
			d.set(pod, v1.PodStatus{Phase: v1.PodRunning})
		}
		ctx, cancel := context.WithTimeout(d.Context(), time.Second)
		defer cancel()
		if err := d.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 statuses") {
			d.Errorf("while the API server is unavailable: %v", err)
		}
		time.AfterFunc(time.Minute, func() { failing = nil })
		if err := d.Flush(d.Context()); err != nil || d.status().Phase != v1.PodRunning {
			d.Errorf("the status is %+v, %v", d.status(), err)
		}
	})
}

// The message of a rejected pod is short enough to be written.
func TestRefusalIsBounded(t *testing.T) {
	atDesk(t, podOf(), func(d *desk) {
		d.Refused(podOf(), errors.New(strings.Repeat("é", 1<<20)))
		must.Do(d, d.Flush(d.Context()))
		const maxMessage = 4096 + 64 // 64 for the text before and after the error
		if got := d.status(); got.Phase != v1.PodFailed || got.Reason != "InvalidPod" || len(got.Message) > maxMessage || !utf8.ValidString(got.Message) {
			d.Errorf("%s %s with a message of %d bytes", got.Phase, got.Reason, len(got.Message))
		}
	})
}

// Fields and conditions of other writers stay. A condition of the node is removed when the node no longer reports it.
func TestOthersConditionsStay(t *testing.T) {
	pod := podOf()
	pod.Status.Conditions = []v1.PodCondition{
		condition("example.com/gate", v1.ConditionTrue), condition(v1.PodScheduled, v1.ConditionTrue), condition(v1.PodResizePending, v1.ConditionTrue),
	}
	pod.Status.NominatedNodeName, pod.Status.QOSClass = "n2", v1.PodQOSBurstable
	atDesk(t, pod, func(d *desk) {
		d.set(pod, v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{
			condition(v1.PodReady, v1.ConditionTrue), condition("example.com/gate", v1.ConditionFalse), // an earlier value, which the node has read
		}})
		got := d.status()
		states := map[v1.PodConditionType]v1.ConditionStatus{}
		for _, c := range got.Conditions {
			states[c.Type] = c.Status
		}
		if len(states) != 3 || states["example.com/gate"] != v1.ConditionTrue || states[v1.PodScheduled] != v1.ConditionTrue || states[v1.PodReady] != v1.ConditionTrue {
			d.Errorf("the conditions are %v", states)
		}
		if got.NominatedNodeName != "n2" || got.QOSClass != v1.PodQOSBurstable {
			d.Errorf("the status is %+v", got)
		}
	})
}

// A terminal status that cannot be written is written when the API server is available again.
func TestEndIsNotLost(t *testing.T) {
	atDesk(t, podOf(), func(d *desk) {
		var away atomic.Bool
		away.Store(true)
		d.kube.PrependReactor("patch", "pods", func(ktesting.Action) (bool, runtime.Object, error) {
			return away.Load(), nil, errors.New("unavailable")
		})
		d.set(podOf(), v1.PodStatus{Phase: v1.PodRunning})
		d.set(podOf(), v1.PodStatus{Phase: v1.PodSucceeded})
		time.Sleep(time.Hour)
		if got := d.status().Phase; got != "" {
			d.Fatalf("the phase is %s", got)
		}
		away.Store(false)
		time.Sleep(10 * time.Second)
		if got := d.status().Phase; got != v1.PodSucceeded {
			d.Errorf("the phase is %q, want Succeeded", got)
		}
	})
}

func TestPodIsReadAgainAfterAConflict(t *testing.T) {
	atDesk(t, podOf(), func(d *desk) {
		refused := false
		d.kube.PrependReactor("patch", "pods", func(ktesting.Action) (bool, runtime.Object, error) {
			if refused {
				return false, nil, nil
			}
			refused = true
			return true, nil, apierrors.NewConflict(v1.Resource("pods"), "web", errors.New("changed"))
		})
		d.set(podOf(), v1.PodStatus{Phase: v1.PodRunning})
		if got := d.status().Phase; got != v1.PodRunning {
			d.Errorf("the phase is %q", got)
		}
		if !slices.ContainsFunc(d.kube.Actions(), func(a ktesting.Action) bool { return a.GetVerb() == "get" }) {
			d.Error("the pod was not read anew")
		}
	})
}

// N5: another writer that updates a pod faster than its status can be written delays neither the status nor the deletion.
func TestN5_FastWriterDoesNotStarveTheStatus(t *testing.T) {
	asked := podOf()
	asked.DeletionTimestamp = new(metav1.Now())
	atDesk(t, asked, func(d *desk) {
		d.kube.PrependReactor("patch", "pods", func(a ktesting.Action) (bool, runtime.Object, error) {
			var patch v1.Pod
			if err := json.Unmarshal(a.(ktesting.PatchAction).GetPatch(), &patch); err != nil {
				return true, nil, err
			}
			if patch.UID != "1" {
				d.Errorf("a patch is for the UID %q", patch.UID)
			}
			if patch.ResourceVersion == "" {
				return false, nil, nil
			}
			return true, nil, apierrors.NewConflict(v1.Resource("pods"), "web", errors.New("changed"))
		})
		d.set(asked, v1.PodStatus{Phase: v1.PodRunning})
		if got := d.status().Phase; got != v1.PodRunning {
			d.Errorf("the phase is %q", got)
		}
		d.set(asked, v1.PodStatus{Phase: v1.PodSucceeded})
		d.Finished("1")
		synctest.Wait()
		if len(d.deletions()) != 1 {
			d.Errorf("the deletions are %+v", d.deletions())
		}
	})
}

// T1: a terminal phase that others have set is never reverted, even while the containers stop.
func TestT1_EndThatOthersDeclaredStays(t *testing.T) {
	ended := podOf()
	ended.Status.Phase, ended.Status.Reason, ended.Status.Message = v1.PodFailed, "NodeLost", "the node was away"
	atDesk(t, ended, func(d *desk) {
		d.set(podOf(), v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.1"})
		if got := d.status(); got.Phase != v1.PodFailed || got.Reason != "NodeLost" || got.Message == "" || got.PodIP != "10.0.0.1" {
			d.Errorf("the status is %+v", got)
		}
	})
}

// The condition AllContainersRestarting is reported, and removed afterwards. The node's DisruptionTarget condition is
// reported even if another writer has set it to False, and one that another writer has set to True stays.
func TestConditionsOfTheNode(t *testing.T) {
	for _, tt := range []struct{ theirs, ours, want v1.ConditionStatus }{
		{"", v1.ConditionTrue, v1.ConditionTrue}, {v1.ConditionFalse, v1.ConditionTrue, v1.ConditionTrue}, {v1.ConditionTrue, v1.ConditionFalse, v1.ConditionTrue},
		{v1.ConditionTrue, "", v1.ConditionTrue}, {v1.ConditionFalse, "", v1.ConditionFalse},
	} {
		pod := podOf()
		if tt.theirs != "" {
			pod.Status.Conditions = append(pod.Status.Conditions, condition(v1.DisruptionTarget, tt.theirs))
		}
		atDesk(t, pod, func(d *desk) {
			ours := []v1.PodCondition{condition(v1.AllContainersRestarting, v1.ConditionTrue)}
			if tt.ours != "" {
				ours = append(ours, disruption(tt.ours))
			}
			d.set(pod, v1.PodStatus{Phase: v1.PodRunning, Conditions: ours})
			got := d.status().Conditions
			if len(got) != 2 || !slices.ContainsFunc(got, func(c v1.PodCondition) bool { return c.Type == v1.AllContainersRestarting }) {
				d.Errorf("the conditions are %+v", got)
			}
			if i := slices.IndexFunc(got, func(c v1.PodCondition) bool { return c.Type == v1.DisruptionTarget }); i < 0 || got[i].Status != tt.want {
				d.Errorf("%+v: the conditions are %+v", tt, got)
			}
			d.set(pod, v1.PodStatus{Phase: v1.PodRunning, Conditions: ours[1:]})
			if got := d.status().Conditions; len(got) != 1 {
				d.Errorf("the conditions are %+v, and no restart is under way", got)
			}
		})
	}
}

// disruption is a disruption by the node.
func disruption(s v1.ConditionStatus) v1.PodCondition {
	return v1.PodCondition{Type: v1.DisruptionTarget, Status: s, Reason: v1.PodReasonTerminationByKubelet}
}

// T9: a disruption that another writer has taken back, or removed, is not set again (kubernetes #113578, #111475).
func TestT9_DisruptionsOfOthersAreTheirs(t *testing.T) {
	for _, reason := range []string{"EvictionByEvictionAPI", "PreemptionByScheduler", "DeletionByTaintManager", ""} {
		for _, theirs := range []v1.ConditionStatus{v1.ConditionFalse, ""} {
			pod := podOf()
			if theirs != "" {
				pod.Status.Conditions = append(pod.Status.Conditions, condition(v1.DisruptionTarget, theirs))
			}
			atDesk(t, pod, func(d *desk) {
				seen := condition(v1.DisruptionTarget, v1.ConditionTrue)
				seen.Reason = reason
				d.set(pod, v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{seen}})
				if got := d.status().Conditions; len(got) != len(pod.Status.Conditions) || len(got) > 0 && got[0].Status != theirs {
					d.Errorf("%s: the conditions are %+v, want %+v", reason, got, pod.Status.Conditions)
				}
			})
		}
	}
}

// T9: the fields that a node does not write keep the values of their writers.
func TestT9_FieldsOfOthersAreKept(t *testing.T) {
	pod := podOf()
	pod.Status = v1.PodStatus{
		NominatedNodeName: "n", QOSClass: v1.PodQOSBurstable,
		ResourceClaimStatuses:                []v1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: new("web-gpu")}},
		ExtendedResourceClaimStatus:          &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "web-extended"},
		NodeAllocatableResourceClaimStatuses: []v1.NodeAllocatableResourceClaimStatus{{ResourceClaimName: "web-cpu"}},
	}
	want := pod.Status.DeepCopy()
	atDesk(t, pod, func(d *desk) {
		d.set(podOf(), v1.PodStatus{Phase: v1.PodRunning})
		got := d.status()
		want.Phase = got.Phase
		if !equality.Semantic.DeepEqual(&got, want) || got.Phase != v1.PodRunning {
			d.Errorf("the status is %+v, want %+v", got, want)
		}
	})
}

// M5: a pod's status is not written to another pod of the same name.
func TestM5_AnotherPodOfTheNameIsLeftAlone(t *testing.T) {
	atDesk(t, podOf(), func(d *desk) {
		before := podOf()
		before.UID = "0"
		d.set(before, v1.PodStatus{Phase: v1.PodFailed})
		d.Finished("0")
		time.Sleep(time.Hour)
		if got := d.status().Phase; got != "" {
			d.Errorf("the phase is %q", got)
		}
		if n := d.Kept(); n != 0 {
			d.Errorf("%d pods are kept that have gone", n)
		}
	})
}

// W8: a pod is deleted even if its phase Terminated is reported after Finished, and even if it has no status to write,
// whether its deletion was requested before or after.
func TestW8_EndReportedOutOfOrder(t *testing.T) {
	for name, askedFirst := range map[string]bool{"asked before": true, "asked after": false} {
		t.Run(name, func(t *testing.T) {
			asked := podOf()
			asked.DeletionTimestamp = new(metav1.Now())
			atDesk(t, asked, func(d *desk) {
				if askedFirst {
					d.PodChanged(asked, false)
				}
				d.Finished("1")
				synctest.Wait()
				if !askedFirst {
					d.PodChanged(asked, false)
					synctest.Wait()
				}
				if len(d.deletions()) != 1 {
					d.Errorf("the deletions are %+v", d.deletions())
				}
				time.Sleep(time.Hour)
				if n := d.Kept(); n != 0 {
					d.Errorf("%d pods are kept that have gone", n)
				}
			})
		})
	}
}

func (d *desk) deletions() (deletions []metav1.DeleteOptions) {
	for _, a := range d.kube.Actions() {
		if del, ok := a.(ktesting.DeleteAction); ok {
			deletions = append(deletions, del.GetDeleteOptions())
		}
	}
	return deletions
}

// A pod is deleted once its deletion was requested and nothing of it is left, in either order, and after its last status
// is written.
func TestPodIsDeletedAtItsEnd(t *testing.T) {
	for _, askedFirst := range []bool{true, false} {
		atDesk(t, podOf(), func(d *desk) {
			asked := podOf()
			asked.DeletionTimestamp = new(metav1.Now())
			ask := func() {
				must.Do(d, d.kube.Tracker().Update(v1.SchemeGroupVersion.WithResource("pods"), asked, "default"))
				d.PodChanged(asked, false)
				synctest.Wait()
			}
			if askedFirst {
				ask()
			}
			d.set(podOf(), v1.PodStatus{Phase: v1.PodSucceeded})
			if len(d.deletions()) > 0 {
				d.Fatal("deleted before its end")
			}
			d.Finished("1")
			synctest.Wait()
			if !askedFirst {
				if len(d.deletions()) > 0 {
					d.Fatal("the pod is deleted without a request")
				}
				ask()
			}
			deletions := d.deletions()
			if len(deletions) != 1 || *deletions[0].GracePeriodSeconds != 0 || *deletions[0].Preconditions.UID != "1" {
				d.Fatalf("the deletions are %+v", deletions)
			}
			if len(d.patches()) == 0 {
				d.Error("its last status was not written")
			}
		})
	}
}

func TestConfigNamesTheInvalidField(t *testing.T) {
	d := &desk{}
	for _, c := range []status.Config{{Pods: d}, {Kube: fake.NewClientset()}, {Kube: fake.NewClientset(), Pods: d, Writers: -1}, {Kube: fake.NewClientset(), Pods: d, MaxRetry: -1}} {
		if _, err := status.New(c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

// A static pod's status is written to its current mirror, whenever the mirror appears. The Manager does not delete
// the mirror.
func TestStaticPodHasTheStatusOfItsMirror(t *testing.T) {
	mirrorOf := func(uid, version string) *v1.Pod {
		m := podOf()
		m.UID, m.ResourceVersion = types.UID(uid), version
		m.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "hash"}
		return m
	}
	first := mirrorOf("1", "7")
	atDesk(t, first, func(d *desk) {
		static := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web", UID: "hash", Annotations: map[string]string{"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "hash"},
		}}
		d.set(static, v1.PodStatus{Phase: v1.PodRunning})
		if n := len(d.patches()); n != 0 {
			d.Errorf("%d patches without a mirror", n)
		}
		d.mirror = first
		d.PodChanged(first, false)
		synctest.Wait()
		if got := d.status().Phase; got != v1.PodRunning {
			d.Errorf("the mirror is %q", got)
		}
		ended := mirrorOf("1", "8") // the manifest was removed, and returns before the mirror is deleted
		ended.Status.Phase = v1.PodFailed
		must.Do(d, d.kube.Tracker().Update(v1.SchemeGroupVersion.WithResource("pods"), ended, "default"))
		d.mirror = ended
		d.PodChanged(ended, false)
		d.set(static, v1.PodStatus{Phase: v1.PodRunning, Message: "again"})
		if got := d.status().Phase; got != v1.PodRunning {
			d.Errorf("the static pod runs again, and its mirror is %q", got)
		}
		second := mirrorOf("1", "9") // another mirror of the same name: responses for the first do not apply to it
		second.UID = "2"
		must.Do(d, d.kube.Tracker().Update(v1.SchemeGroupVersion.WithResource("pods"), second, "default"))
		d.mirror = second
		d.PodChanged(first, true)
		d.PodChanged(second, false)
		synctest.Wait()
		if pod := d.Get("default", "web", "2"); pod == nil || pod.Status.Phase != v1.PodRunning {
			d.Errorf("the second mirror is %+v", pod)
		}
		second = second.DeepCopy()
		second.DeletionTimestamp = new(metav1.Now())
		d.mirror = second
		d.Finished("hash")
		synctest.Wait()
		if slices.ContainsFunc(d.kube.Actions(), func(a ktesting.Action) bool { return a.GetVerb() == "delete" }) {
			d.Error("the mirror was deleted")
		}
	})
}

// If a pod ends while the API server is unavailable, its end is reported when the server is available again.
func TestStatusWaitsForTheFirstList(t *testing.T) {
	atDesk(t, podOf(), func(d *desk) {
		d.away = true
		d.set(podOf(), v1.PodStatus{Phase: v1.PodFailed})
		time.Sleep(time.Hour)
		d.away = false
		d.PodChanged(podOf(), false)
		synctest.Wait()
		if got := d.status().Phase; got != v1.PodFailed {
			d.Errorf("the pod is %q", got)
		}
	})
}

// A response is kept until the informer has the same version. It is not kept if the informer was faster.
func TestResponsesAreNotKept(t *testing.T) {
	atDesk(t, podOf(), func(d *desk) {
		d.set(podOf(), v1.PodStatus{Phase: v1.PodRunning})
		if got := d.Answers(); got != 0 {
			t.Errorf("%d responses are kept that the informer has, want none", got)
		}
		d.kube.PrependReactor("patch", "pods", func(ktesting.Action) (bool, runtime.Object, error) {
			newer := podOf()
			newer.ResourceVersion = "8"
			return true, newer, nil
		})
		d.set(podOf(), v1.PodStatus{Phase: v1.PodSucceeded})
		if got := d.Answers(); got != 1 {
			t.Errorf("%d responses are kept that the informer lacks, want %d", got, 1)
		}
		newer := podOf()
		newer.ResourceVersion = "8"
		d.PodChanged(newer, false)
		if got := d.Answers(); got != 0 {
			t.Errorf("%d responses are kept after the event, want none", got)
		}
	})
}
