package pods_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/podsync/podsync/modules/cluster/internal/clientlog"
	"github.com/podsync/podsync/modules/cluster/pods"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/cri/critest/podtest"
	"github.com/podsync/podsync/syncpod/podspec"
	"github.com/podsync/podsync/syncpod/source"
)

func TestMain(m *testing.M) { os.Exit(clientlog.Run(m)) }

func podOf(name string, uid types.UID) *v1.Pod {
	return podtest.Pod(name, podtest.UID(uid), podtest.NodeName("n1"))
}

// heard runs a Source, and records its last snapshot.
type heard struct {
	*pods.Source
	kube *fake.Clientset

	mu    sync.Mutex
	last  source.Snapshot
	count int
	// refused are the names of the pods for which Refused was called.
	refused []string
	// seen are the calls of a watcher.
	seen []string
}

func (h *heard) see(pod *v1.Pod, gone bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = append(h.seen, fmt.Sprintf("%s %v", pod.UID, gone))
}

func (h *heard) deliver(snapshot source.Snapshot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last, h.count = snapshot, h.count+1
}

func (h *heard) refuse(pod *v1.Pod, _ error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused = append(h.refused, pod.Name)
}

// now returns the last snapshot and the refused pods, after all goroutines of the test are idle.
func (h *heard) now() (last source.Snapshot, refused []string) {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last, slices.Clone(h.refused)
}

// saw returns the calls of the watcher so far. It waits until all goroutines of the test are idle.
func (h *heard) saw() []string {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.seen)
}

// deliveries returns the number of snapshots so far.
func (h *heard) deliveries() int {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count
}

// listen runs a test with a Source. there are the pods in the API server.
func listen(t *testing.T, there []runtime.Object, test func(t *testing.T, h *heard)) {
	listenAfter(t, func() <-chan struct{} { return nil }, there, test)
}

// listenPrepared is like listen, and first calls prepare with the API server.
func listenPrepared(t *testing.T, prepare func(*fake.Clientset), there []runtime.Object, test func(t *testing.T, h *heard)) {
	listenTo(t, prepare, func() <-chan struct{} { return nil }, there, test)
}

// listenAfter is like listen, with a Source whose Config.After is the channel that after returns.
func listenAfter(t *testing.T, after func() <-chan struct{}, there []runtime.Object, test func(t *testing.T, h *heard)) {
	listenTo(t, func(*fake.Clientset) {}, after, there, test)
}

func listenTo(t *testing.T, prepare func(*fake.Clientset), after func() <-chan struct{}, there []runtime.Object, test func(t *testing.T, h *heard)) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset(there...)
		prepare(kube)
		h := &heard{kube: kube}
		s := must.Get(pods.New(pods.Config{Kube: kube, NodeName: "n1", After: after(), Refused: h.refuse}))(t)
		h.Source = s
		s.Watch(h.see)
		must.Run(t, func(ctx context.Context) error { return s.Run(ctx, h.deliver) })
		time.Sleep(time.Second) // the check whether all pods are listed runs at intervals
		test(t, h)
	})
}

func (h *heard) names() (names []string) {
	last, _ := h.now()
	for _, pod := range last.Pods {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	return names
}

func (h *heard) wants(t *testing.T, want ...string) {
	t.Helper()
	time.Sleep(time.Second)
	if got := h.names(); !slices.Equal(got, want) {
		t.Errorf("the pods are %q, want %q", got, want)
	}
}

func TestPodsComeChangeAndGo(t *testing.T) {
	mirror := podOf("mirror", "3")
	mirror.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "x"}
	listen(t, []runtime.Object{podOf("web", "1"), mirror}, func(t *testing.T, h *heard) {
		h.wants(t, "web")
		if last, _ := h.now(); last.Incomplete {
			t.Error("all pods are listed, and the snapshot is incomplete")
		}
		client := h.kube.CoreV1().Pods("default")
		must.Get(client.Create(t.Context(), podOf("db", "2"), metav1.CreateOptions{}))(t)
		h.wants(t, "db", "web")
		changed := podOf("web", "1")
		changed.DeletionTimestamp, changed.DeletionGracePeriodSeconds = new(metav1.Now()), new(int64(7))
		must.Get(client.Update(t.Context(), changed, metav1.UpdateOptions{}))(t)
		last, _ := h.now()
		i := slices.IndexFunc(last.Pods, func(p *v1.Pod) bool { return p.Name == "web" })
		if pod := last.Pods[i]; pod.DeletionGracePeriodSeconds == nil || *pod.DeletionGracePeriodSeconds != 7 {
			t.Errorf("its grace period is %v, want 7", pod.DeletionGracePeriodSeconds)
		}
		must.Do(t, client.Delete(t.Context(), "web", metav1.DeleteOptions{}))
		h.wants(t, "db")
		if h.Get("default", "db", "2") == nil || h.Get("default", "db", "other") != nil || h.Get("default", "web", "1") != nil {
			t.Error("Get returns a missing pod, or does not return an existing one")
		}
	})
}

// If no version of a pod is valid, Refused is called for the pod. A running pod is stopped with the requested grace
// period, even if the version that requests the stop is invalid.
func TestW8_PodThatIsNotValid(t *testing.T) {
	invalid := func(name string, uid types.UID) *v1.Pod {
		pod := podOf(name, uid)
		pod.Spec.Containers[0].Name = "Not a name"
		return pod
	}
	listen(t, []runtime.Object{podOf("web", "1"), invalid("odd", "2")}, func(t *testing.T, h *heard) {
		h.wants(t, "web")
		if last, refused := h.now(); last.Incomplete || !slices.Equal(refused, []string{"odd"}) {
			t.Errorf("refused %q, incomplete %v, want odd refused and all known", refused, last.Incomplete)
		}
		client := h.kube.CoreV1().Pods("default")
		going := invalid("web", "1")
		going.DeletionTimestamp, going.DeletionGracePeriodSeconds = new(metav1.Now()), new(int64(7))
		for _, change := range []*v1.Pod{invalid("web", "1"), going} {
			must.Get(client.Update(t.Context(), change, metav1.UpdateOptions{}))(t)
			h.wants(t, "web")
		}
		last, refused := h.now()
		pod := last.Pods[0]
		if pod.DeletionTimestamp == nil || *pod.DeletionGracePeriodSeconds != 7 || pod.Spec.Containers[0].Name != "app" || len(refused) != 1 {
			t.Errorf("%+v, refused %q, want the version that runs to stop within 7 s", pod, refused)
		}
	})
}

// A Source lists and watches pods by their node's name: a node may not read other pods.
func TestOnlyPodsOfTheNodeAreAskedFor(t *testing.T) {
	listen(t, nil, func(t *testing.T, h *heard) {
		for _, action := range h.kube.Actions() {
			var selector string
			switch a := action.(type) {
			case ktesting.ListAction:
				selector = a.GetListRestrictions().Fields.String()
			case ktesting.WatchAction:
				selector = a.GetWatchRestrictions().Fields.String()
			}
			if selector != "spec.nodeName=n1" {
				t.Errorf("%s of %s by %q, want %q", action.GetVerb(), action.GetResource().Resource, selector, "spec.nodeName=n1")
			}
		}
		if len(h.kube.Actions()) == 0 {
			t.Error("nothing was asked for")
		}
	})
}

// Before the API server has answered, no snapshot is complete, so that no pod is stopped.
func TestNothingIsKnownBeforeTheServerHasSpoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		away := func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("unavailable") }
		kube.PrependReactor("list", "pods", away)
		kube.PrependWatchReactor("pods", ktesting.DefaultWatchReactor(nil, errors.New("unavailable")))
		s := must.Get(pods.New(pods.Config{Kube: kube, NodeName: "n1"}))(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- s.Run(ctx, func(snapshot source.Snapshot) {
				if !snapshot.Incomplete {
					t.Errorf("delivered %+v", snapshot)
				}
			})
		}()
		time.Sleep(time.Hour)
		if s.Synced() {
			t.Error("the pods are synced")
		}
		cancel()
		<-ended
	})
}

func TestPodsAreNotAskedForBeforeTheirTime(t *testing.T) {
	var after chan struct{}
	made := func() <-chan struct{} { after = make(chan struct{}); return after }
	listenAfter(t, made, []runtime.Object{podOf("web", "1")}, func(t *testing.T, h *heard) {
		if len(h.kube.Actions()) > 0 || h.deliveries() > 0 {
			t.Errorf("asked %v, want no Actions and at most count 0", h.kube.Actions())
		}
		close(after)
		h.wants(t, "web")
	})
}

// A watch ends, or its resource version has expired: the pods are listed again. Pods that were deleted meanwhile are
// removed, and no pod is removed before.
func TestE5_WatchThatExpires(t *testing.T) {
	for name, end := range map[string]func(*watch.RaceFreeFakeWatcher){
		"410": func(w *watch.RaceFreeFakeWatcher) { w.Error(&apierrors.NewResourceExpired("too old").ErrStatus) },
		"410 to what comes after its end": func(w *watch.RaceFreeFakeWatcher) {
			w.Error(&apierrors.NewResourceExpired("gone").ErrStatus)
			w.Stop()
		},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var open []*watch.RaceFreeFakeWatcher
			prepare := func(kube *fake.Clientset) {
				kube.PrependWatchReactor("pods", func(ktesting.Action) (bool, watch.Interface, error) {
					mu.Lock()
					defer mu.Unlock()
					open = append(open, watch.NewRaceFreeFake())
					return true, open[len(open)-1], nil
				})
			}
			listenPrepared(t, prepare, []runtime.Object{podOf("a", "1"), podOf("b", "2")}, func(t *testing.T, h *heard) {
				h.wants(t, "a", "b")
				must.Do(t, h.kube.Tracker().Delete(v1.SchemeGroupVersion.WithResource("pods"), "default", "a"))
				time.Sleep(2 * time.Minute)
				h.wants(t, "a", "b") // no event has arrived
				mu.Lock()
				end(open[len(open)-1])
				mu.Unlock()
				time.Sleep(2 * time.Minute)
				h.wants(t, "b")
				if last, _ := h.now(); last.Incomplete {
					t.Error("the snapshot has become incomplete")
				}
			})
		})
	}
}

// M5: a pod is deleted and created again under its name while the watch is interrupted, which the informer reports as one
// update. The old pod is no longer desired, and every watcher is notified of its deletion before the creation of the new
// pod.
func TestM5_PodReplacedWhileTheWatchIsInterrupted(t *testing.T) {
	var mu sync.Mutex
	var open []*watch.RaceFreeFakeWatcher
	prepare := func(kube *fake.Clientset) {
		kube.PrependWatchReactor("pods", func(ktesting.Action) (bool, watch.Interface, error) {
			mu.Lock()
			defer mu.Unlock()
			open = append(open, watch.NewRaceFreeFake())
			return true, open[len(open)-1], nil
		})
	}
	listenPrepared(t, prepare, []runtime.Object{podOf("db-0", "old")}, func(t *testing.T, h *heard) {
		h.wants(t, "db-0")
		pods := v1.SchemeGroupVersion.WithResource("pods")
		must.Do(t, errors.Join(h.kube.Tracker().Delete(pods, "default", "db-0"), h.kube.Tracker().Add(podOf("db-0", "new"))))
		mu.Lock()
		open[len(open)-1].Error(&apierrors.NewResourceExpired("too old").ErrStatus)
		mu.Unlock()
		time.Sleep(2 * time.Minute)
		if last, _ := h.now(); len(last.Pods) != 1 || last.Pods[0].UID != "new" {
			t.Errorf("%d pods are wanted, want the new one alone", len(last.Pods))
		}
		if want := []string{"old false", "old true", "new false"}; !slices.Equal(h.saw(), want) {
			t.Errorf("watchers saw %q, want %q", h.saw(), want)
		}
	})
}

// M7: a pod that an API server has admitted runs, even if the same pod would be rejected in a manifest.
func TestM7_AdmittedPodsRun(t *testing.T) {
	for name, change := range map[string]func(*v1.PodSpec){
		"a colon in a path": func(s *v1.PodSpec) {
			s.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
			s.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data/a:b"}}
		},
		"a negative grace period": func(s *v1.PodSpec) { s.TerminationGracePeriodSeconds = new(int64(-1)) },
		"one host port of a sidecar and a container": func(s *v1.PodSpec) {
			s.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 80, Protocol: v1.ProtocolTCP}}
			s.InitContainers = []v1.Container{{
				Name: "side", Image: "registry.test/side:1", RestartPolicy: new(v1.ContainerRestartPolicyAlways), Ports: s.Containers[0].Ports,
			}}
		},
		"a value of a later version of the API": func(s *v1.PodSpec) { s.Containers[0].TerminationMessagePolicy = "Stream" },
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOf("web", "1")
			change(&pod.Spec)
			listen(t, []runtime.Object{pod}, func(t *testing.T, h *heard) {
				h.wants(t, "web")
				if _, refused := h.now(); len(refused) > 0 {
					t.Errorf("%q are refused", refused)
				}
			})
		})
	}
}

// M6: a fake client ignores field selectors, and a cache in front of the API server may do so too: the Source ignores
// pods of other nodes and pods that are bound to no node.
func TestM6_PodsOfOtherNodesAreIgnored(t *testing.T) {
	other, unbound := podOf("other", "2"), podOf("unbound", "3")
	other.Spec.NodeName, unbound.Spec.NodeName = "n2", ""
	listen(t, []runtime.Object{podOf("web", "1"), other, unbound}, func(t *testing.T, h *heard) {
		h.wants(t, "web")
		if n := len(h.Pods()); n != 1 || h.Get("default", "other", "2") != nil {
			t.Errorf("%d pods are the node's, want 1", n)
		}
		client := h.kube.CoreV1().Pods("default")
		if _, err := client.Update(t.Context(), podOf("unbound", "3"), metav1.UpdateOptions{}); err != nil { // bound to n1
			t.Fatal(err)
		}
		must.Do(t, client.Delete(t.Context(), "other", metav1.DeleteOptions{}))
		h.wants(t, "unbound", "web")
	})
}

// A pod with its defaults, which an API server sets, is kept once. The annotation of a mirror pod is left as it is.
func TestPodsAreNotCopied(t *testing.T) {
	mirror := podOf("mirror", "2")
	mirror.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "hash", "kubernetes.io/config.source": "file"}
	listen(t, []runtime.Object{podspec.Default(podOf("web", "1")), mirror}, func(t *testing.T, h *heard) {
		h.wants(t, "web")
		last, _ := h.now()
		if got := h.Get("default", "web", "1"); len(last.Pods) != 1 || last.Pods[0] != got || got.Annotations["kubernetes.io/config.source"] != "api" {
			t.Errorf("delivered is %p %+v, want the cached pod %p with the source api", last.Pods[0], last.Pods[0], got)
		}
		if got := h.Get("default", "mirror", "2"); got.Annotations["kubernetes.io/config.source"] != "file" {
			t.Errorf("the mirror pod has the annotations %v", got.Annotations)
		}
	})
}

func TestChangedConfigsAreReported(t *testing.T) {
	listen(t, []runtime.Object{podOf("web", "1")}, func(t *testing.T, h *heard) {
		before, _ := h.now()
		if before.ConfigsChanged {
			t.Error("nothing has changed yet")
		}
		h.ConfigsChanged()
		if last, _ := h.now(); !last.ConfigsChanged || !slices.Equal(last.Pods, before.Pods) {
			t.Errorf("delivered %+v, want ConfigsChanged and %v", last, before.Pods)
		}
	})
}

func TestConfigNamesTheMissingField(t *testing.T) {
	for _, c := range []pods.Config{{NodeName: "n1"}, {Kube: fake.NewClientset()}} {
		if _, err := pods.New(c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

// Sources of several nodes share one watch of pods, and each delivers its node's pods.
func TestSharedWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := podOf("other", "2")
		other.Spec.NodeName = "n2"
		kube := fake.NewClientset(podOf("web", "1"), other)
		w := pods.NewWatch(kube)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		running.Go(func() { w.Run(ctx) })
		var all []*heard
		for _, node := range []string{"n1", "n2"} {
			s := must.Get(pods.New(pods.Config{Kube: kube, NodeName: node, Watch: w}))(t)
			h := &heard{Source: s, kube: kube}
			all = append(all, h)
			running.Go(func() { _ = s.Run(ctx, h.deliver) }) // it returns only when ctx ends
		}
		all[0].wants(t, "web")
		all[1].wants(t, "other")
		must.Do(t, kube.CoreV1().Pods("default").Delete(ctx, "other", metav1.DeleteOptions{}))
		all[0].wants(t, "web")
		all[1].wants(t)
		if all[0].Get("default", "web", "1") == nil || all[1].Get("default", "web", "1") != nil {
			t.Error("a Source has the pod of another node, or lacks its own")
		}
		watches := 0
		for _, a := range kube.Actions() {
			if a.GetVerb() == "watch" {
				watches++
			}
		}
		if watches != 1 {
			t.Errorf("there are %d watches, want one", watches)
		}
	})
}
