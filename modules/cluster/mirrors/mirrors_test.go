package mirrors_test

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/podsync/podsync/modules/cluster/internal/clientlog"
	"github.com/podsync/podsync/modules/cluster/mirrors"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/cri/critest/podtest"
	"github.com/podsync/podsync/syncpod/source"
)

func TestMain(m *testing.M) { os.Exit(clientlog.Run(m)) }

// A house is a node with static pods and an API server.
type house struct {
	*testing.T
	*mirrors.Mirrors
	kube *fake.Clientset
	// deliver sets the node's static pods.
	deliver func(source.Snapshot)
	// mu guards the fields below, which the Mirrors and a test share.
	mu      sync.Mutex
	running map[types.UID]bool
	fails   error
	made    int
}

// locked calls f with mu held.
func (h *house) locked(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

func (h *house) runs(uid types.UID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.running[uid]
}

// Run implements source.Source. A test delivers snapshots with h.deliver.
func (h *house) Run(ctx context.Context, deliver func(source.Snapshot)) error {
	h.deliver = deliver
	<-ctx.Done()
	return nil
}

func (h *house) Name() string { return "file" }

func inHouse(t *testing.T, test func(h *house)) {
	synctest.Test(t, func(t *testing.T) {
		h := &house{T: t, kube: fake.NewClientset(), running: map[types.UID]bool{}}
		h.kube.PrependReactor("create", "pods", func(a ktesting.Action) (bool, runtime.Object, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.fails != nil {
				return true, nil, h.fails
			}
			h.made++
			pod := a.(ktesting.CreateAction).GetObject().(*v1.Pod)
			pod.UID = types.UID(rune('0' + h.made))
			return false, nil, nil
		})
		synced := make(chan struct{})
		close(synced)
		h.Mirrors = must.Get(mirrors.New(mirrors.Config{
			Kube: h.kube, Synced: synced, Running: h.runs,
			Node: func() *v1.Node { return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-uid"}} },
		}))(t)
		must.Go(t, h.Mirrors.Run)
		must.Run(t, func(ctx context.Context) error { return h.Mirrors.Source(h).Run(ctx, func(source.Snapshot) {}) })
		synctest.Wait()
		test(h)
	})
}

func static(hash string) *v1.Pod {
	return podtest.Pod("etcd-n1", podtest.Namespace("kube-system"), podtest.UID(types.UID(hash)), podtest.NodeName("n1"), podtest.Container("etcd"),
		podtest.Annotation("kubernetes.io/config.source", "file"), podtest.Annotation("kubernetes.io/config.hash", hash))
}

// there returns the mirror in the API server, and passes it to the Mirrors; nil if there is none.
func (h *house) there() *v1.Pod {
	h.Helper()
	synctest.Wait()
	pod, err := h.kube.CoreV1().Pods("kube-system").Get(h.Context(), "etcd-n1", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		h.Fatal(err)
	}
	h.PodChanged(pod, false)
	return pod
}

func (h *house) want(pods ...*v1.Pod) {
	h.deliver(source.Snapshot{Pods: pods})
	synctest.Wait()
}

func TestStaticPodHasAMirror(t *testing.T) {
	inHouse(t, func(h *house) {
		pod := static("a")
		h.want(pod)
		m := h.there()
		if m == nil {
			h.Fatal("there is none")
		}
		owner := m.OwnerReferences[0]
		if m.Annotations["kubernetes.io/config.mirror"] != "a" || m.Annotations["kubernetes.io/config.source"] != "file" || m.UID == pod.UID ||
			owner.Kind != "Node" || owner.Name != "n1" || owner.UID != "node-uid" || owner.Controller == nil || !*owner.Controller {
			h.Errorf("the mirror is %+v", m.ObjectMeta)
		}
		if pod.OwnerReferences != nil || pod.Annotations["kubernetes.io/config.mirror"] != "" {
			h.Error("the pod was written to")
		}
		if got := h.Mirror(pod); got == nil || got.UID != m.UID || h.Mirror(static("b")) != nil {
			h.Errorf("known is %v, want UID %v and no mirror of b", got, m.UID)
		}
		time.Sleep(time.Hour)
		h.locked(func() {
			if h.made != 1 {
				h.Errorf("made %d times", h.made)
			}
		})
	})
}

// M4: a mirror that a user deletes, or that shows an earlier version of the pod, is created again.
func TestM4_MirrorIsCreatedAgain(t *testing.T) {
	inHouse(t, func(h *house) {
		h.want(static("a"))
		first := h.there()
		going := first.DeepCopy()
		going.DeletionTimestamp = new(metav1.Now())
		h.PodChanged(going, false)
		if h.there() != nil {
			h.Fatal("it is still there")
		}
		h.PodChanged(going, true)
		if m := h.there(); m == nil || m.UID == first.UID {
			h.Fatalf("the mirror is %v", m)
		}
		old := h.there()
		h.want(static("b"))
		h.PodChanged(old, true)
		if m := h.there(); m == nil || m.Annotations["kubernetes.io/config.mirror"] != "b" {
			h.Errorf("the mirror is %v", m)
		}
	})
}

// A mirror keeps its UID while the pod version that it shows is still stopping.
func TestMirrorOfTheVersionThatStops(t *testing.T) {
	inHouse(t, func(h *house) {
		h.want(static("a"))
		first := h.there()
		h.locked(func() { h.running["a"] = true })
		h.want(static("b"))
		time.Sleep(time.Minute)
		if m := h.there(); m == nil || m.UID != first.UID || h.Mirror(static("a")) == nil {
			h.Fatalf("the mirror is %v, want that of the version that stops", m)
		}
		synctest.Wait()
		h.locked(func() { delete(h.running, "a") })
		time.Sleep(2 * time.Second)
		synctest.Wait()
		h.PodChanged(first, true)
		if m := h.there(); m == nil || m.UID == first.UID || m.Annotations["kubernetes.io/config.mirror"] != "b" {
			h.Errorf("the mirror is %v, want that of the new version", m)
		}
	})
}

// A mirror is deleted after its pod has stopped, and only if the pod is certainly not desired.
func TestMirrorIsDeletedWithItsPod(t *testing.T) {
	inHouse(t, func(h *house) {
		h.want(static("a"))
		h.there()
		h.deliver(source.Snapshot{Incomplete: true})
		time.Sleep(time.Minute)
		if h.there() == nil {
			h.Fatal("it went while its manifest could not be read")
		}
		h.locked(func() { h.running["a"] = true })
		h.want()
		time.Sleep(time.Minute)
		if h.there() == nil {
			h.Fatal("it went before its pod")
		}
		synctest.Wait() // so that the event of there is processed, and does not cause the deletion
		h.locked(func() { delete(h.running, "a") })
		time.Sleep(2 * time.Second)
		if h.there() != nil {
			h.Error("it is still there")
		}
	})
}

// A mirror that an earlier agent has left is deleted. Other pods are not.
func TestMirrorOfNothing(t *testing.T) {
	inHouse(t, func(h *house) {
		h.want(static("a"))
		left := h.there()
		h.want()
		if h.there() != nil {
			h.Error("it is still there")
		}
		h.PodChanged(left, true)
		other := static("a")
		must.Get(h.kube.CoreV1().Pods("kube-system").Create(h.Context(), other, metav1.CreateOptions{}))(h)
		h.want()
		time.Sleep(time.Minute)
		if h.there() == nil {
			h.Error("a pod that is no mirror was deleted")
		}
	})
}

func TestRefusedMirrorIsTriedAgain(t *testing.T) {
	inHouse(t, func(h *house) {
		h.locked(func() { h.fails = errors.New("unavailable") })
		h.want(static("a"))
		time.Sleep(10 * time.Minute)
		h.locked(func() { h.fails = nil })
		time.Sleep(31 * time.Second)
		if h.there() == nil {
			h.Error("there is none")
		}
	})
}
