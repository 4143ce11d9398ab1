package tracked_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/podsync/podsync/modules/cluster/internal/tracked"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A bench is a test with a client of a Store.
type bench struct {
	*testing.T
	typedv1.PodInterface
	kube kubernetes.Interface
}

func onBench(t *testing.T, test func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		kube := must.Get(kubernetes.NewForConfig(&rest.Config{Host: "http://test", Transport: &tracked.Server{Store: tracked.New(scheme.Scheme)}, QPS: -1}))(t)
		test(&bench{t, kube.CoreV1().Pods("default"), kube})
	})
}

func (b *bench) make(name, node string) *v1.Pod {
	b.Helper()
	return must.Get(b.Create(b.Context(), &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "c", Image: "i"}}}}, metav1.CreateOptions{}))(b)
}

func (b *bench) watch(o metav1.ListOptions) watch.Interface {
	b.Helper()
	w := must.Get(b.PodInterface.Watch(b.Context(), o))(b)
	b.Cleanup(w.Stop)
	return w
}

// got returns the events that a watch has received.
func (b *bench) got(w watch.Interface) (all []string) {
	for {
		synctest.Wait()
		select {
		case e := <-w.ResultChan():
			all = append(all, fmt.Sprint(e.Type, " ", e.Object.(metav1.Object).GetName()))
		default:
			return all
		}
	}
}

func (b *bench) want(w watch.Interface, want ...string) {
	b.Helper()
	if got := b.got(w); fmt.Sprint(got) != fmt.Sprint(want) {
		b.Errorf("the watch got %q, want %q", got, want)
	}
}

// A watch receives the events of selected objects. When an object is no longer selected, the watch receives its deletion.
func TestWatchesSelect(t *testing.T) {
	onBench(t, func(b *bench) {
		list := must.Get(b.List(b.Context(), metav1.ListOptions{}))(b)
		from := func(selector string) metav1.ListOptions {
			return metav1.ListOptions{FieldSelector: selector, ResourceVersion: list.ResourceVersion}
		}
		here, named, waiting := b.watch(from("spec.nodeName=n1")), b.watch(from("metadata.name=b")), b.watch(from("spec.nodeName="))
		b.make("a", "n1")
		b.make("b", "n2")
		b.make("c", "")
		binding := &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Target: v1.ObjectReference{Name: "n1"}}
		must.Do(b, b.Bind(b.Context(), binding, metav1.CreateOptions{}))
		b.want(here, "ADDED a", "ADDED c")
		b.want(named, "ADDED b")
		b.want(waiting, "ADDED c", "DELETED c")
		if err := b.Bind(b.Context(), binding, metav1.CreateOptions{}); !apierrors.IsConflict(err) {
			b.Errorf("a second binding: %v, want a conflict", err)
		}
	})
}

// Changes between a list and the watch that follows are not lost. A resource version that is too old is rejected.
func TestNothingIsLostBetweenListAndWatch(t *testing.T) {
	onBench(t, func(b *bench) {
		b.make("a", "n1")
		list := must.Get(b.List(b.Context(), metav1.ListOptions{}))(b)
		b.make("b", "n1")
		b.want(b.watch(metav1.ListOptions{ResourceVersion: list.ResourceVersion}), "ADDED b")
		for i := range 2 * 2048 {
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{"n":"%d"}}}`, i)
			must.Get(b.Patch(b.Context(), "a", types.MergePatchType, patch, metav1.PatchOptions{}))(b)
		}
		if _, err := b.PodInterface.Watch(b.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion}); !apierrors.IsResourceExpired(err) {
			b.Errorf("a watch from version %s: %v, want that it is too old", list.ResourceVersion, err)
		}
	})
}

// A watch keeps all events for a slow reader.
func TestManyEventsWait(t *testing.T) {
	onBench(t, func(b *bench) {
		w := b.watch(metav1.ListOptions{})
		for i := range 1000 {
			b.make(fmt.Sprint("p", i), "n1")
		}
		if got := b.got(w); len(got) != 1000 {
			b.Errorf("%d events, want %d", len(got), 1000)
		}
	})
}

// A deleted pod on a node is removed when its node deletes it with grace period 0. The grace period only becomes shorter.
func TestDeletionHasAGracePeriod(t *testing.T) {
	onBench(t, func(b *bench) {
		b.make("waits", "")
		pod := b.make("runs", "n1")
		for _, name := range []string{"waits", "runs"} {
			must.Do(b, b.Delete(b.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(20))}))
		}
		if _, err := b.Get(b.Context(), "waits", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			b.Errorf("a pod on no node: %v, want that it is gone", err)
		}
		b.grace("runs", 20)
		for _, grace := range []int64{30, 5} {
			must.Do(b, b.Delete(b.Context(), "runs", metav1.DeleteOptions{GracePeriodSeconds: &grace}))
			b.grace("runs", min(grace, 20))
		}
		wrong := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: metav1.NewUIDPreconditions("other")}
		if err := b.Delete(b.Context(), "runs", wrong); !apierrors.IsConflict(err) {
			b.Errorf("deletion of another UID: %v, want a conflict", err)
		}
		right := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
		must.Do(b, b.Delete(b.Context(), "runs", right))
		if _, err := b.Get(b.Context(), "runs", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			b.Errorf("after the node has ended it: %v, want that it is gone", err)
		}
	})
}

func (b *bench) grace(name string, want int64) {
	b.Helper()
	pod := must.Get(b.Get(b.Context(), name, metav1.GetOptions{}))(b)
	if got := *pod.DeletionGracePeriodSeconds; got != want || time.Until(pod.DeletionTimestamp.Time) > time.Duration(want)*time.Second {
		b.Errorf("the grace period is %d s until %v, want %d s", got, pod.DeletionTimestamp, want)
	}
}

// A deleted object with finalizers is removed with the last of them.
func TestFinalizers(t *testing.T) {
	onBench(t, func(b *bench) {
		maps := b.kube.CoreV1().ConfigMaps("default")
		must.Get(maps.Create(b.Context(), &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m", Finalizers: []string{"x/y"}}}, metav1.CreateOptions{}))(b)
		must.Do(b, maps.Delete(b.Context(), "m", metav1.DeleteOptions{}))
		m, err := maps.Get(b.Context(), "m", metav1.GetOptions{})
		if err != nil || m.DeletionTimestamp == nil {
			b.Fatalf("%v, %v, want it to wait for its finalizer", m, err)
		}
		m.Finalizers = nil
		must.Get(maps.Update(b.Context(), m, metav1.UpdateOptions{}))(b)
		if _, err := maps.Get(b.Context(), "m", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			b.Errorf("without its finalizer: %v, want that it is gone", err)
		}
	})
}

// A request for the subresource status changes only the status, an update does not change it, and a request with an old
// resource version is rejected.
func TestStatusIsASubresource(t *testing.T) {
	onBench(t, func(b *bench) {
		old := b.make("p", "n1")
		next := old.DeepCopy()
		next.Labels, next.Status.Phase = map[string]string{"l": "1"}, v1.PodRunning
		pod, err := b.UpdateStatus(b.Context(), next, metav1.UpdateOptions{})
		if err != nil || pod.Status.Phase != v1.PodRunning || len(pod.Labels) != 0 || pod.Generation != 1 {
			b.Errorf("%v, %v, want the status alone", pod, err)
		}
		if _, err := b.Update(b.Context(), next, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			b.Errorf("an old version: %v, want a conflict", err)
		}
		pod.Labels, pod.Status.Phase, pod.Spec.ActiveDeadlineSeconds = map[string]string{"l": "1"}, v1.PodFailed, new(int64(5))
		pod, err = b.Update(b.Context(), pod, metav1.UpdateOptions{})
		if err != nil || pod.Status.Phase != v1.PodRunning || pod.Labels["l"] != "1" || pod.Generation != 2 {
			b.Errorf("%v, %v, want all but the status, and generation %d", pod, err, 2)
		}
	})
}
