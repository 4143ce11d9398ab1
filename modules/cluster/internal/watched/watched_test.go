package watched_test

import (
	"context"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/podsync/podsync/modules/cluster/internal/clientlog"
	"github.com/podsync/podsync/modules/cluster/internal/watched"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

func TestMain(m *testing.M) { os.Exit(clientlog.Run(m)) }

func podOf(name string, uid types.UID, node string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: uid, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}},
		Spec:       v1.PodSpec{NodeName: node},
	}
}

// A server is an API server that lists pods, and sends a test's events.
type server struct {
	*testing.T
	*watched.Watch[*v1.Pod]
	list   []v1.Pod
	events *watch.FakeWatcher
}

// onlyLists disables initial events of watches, so that the Reflector lists first.
type onlyLists struct{}

func (onlyLists) IsWatchListSemanticsUnSupported() bool { return true }

// onServer runs a test with a Watch of these pods, grouped by node.
func onServer(t *testing.T, list []*v1.Pod, test func(s *server)) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{T: t, events: watch.NewFake()}
		s.set(list...)
		s.Watch = watched.New(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				return &v1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: slices.Clone(s.list)}, nil
			},
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return s.events, nil },
			DisableChunking:      true,
		}, onlyLists{}), &v1.Pod{}, func(pod *v1.Pod) string { return pod.Spec.NodeName }, nil)
		must.Go(t, s.Watch.Run)
		test(s)
	})
}

func (s *server) set(list ...*v1.Pod) {
	s.list = nil
	for _, pod := range list {
		s.list = append(s.list, *pod)
	}
}

// relist makes the watch expire, so that all pods are listed again.
func (s *server) relist(list ...*v1.Pod) {
	s.set(list...)
	old := s.events
	s.events = watch.NewFake()
	old.Error(&metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired})
	time.Sleep(time.Minute)
}

// heard listens for a node's pods. calls returns the calls since its last call.
func (s *server) heard(node string) (calls func() []string, stop func()) {
	var all []string
	stop = s.Listen(node, func(pod *v1.Pod, gone bool) {
		call := string(pod.UID)
		if gone {
			call += " gone"
		}
		if _, there := s.Get(pod.Namespace, pod.Name); there == gone { // a listener may read
			call += " too early"
		}
		if len(pod.ManagedFields) > 0 {
			call += " with managed fields"
		}
		all = append(all, call)
	})
	return func() []string {
		synctest.Wait()
		calls := all
		all = nil
		return calls
	}, stop
}

func (s *server) want(calls func() []string, want ...string) {
	s.Helper()
	if got := calls(); !slices.Equal(got, want) {
		s.Errorf("the calls are %q, want %q", got, want)
	}
}

// Each listener receives the events of its group, beginning with an event for each present object.
func TestGroups(t *testing.T) {
	onServer(t, []*v1.Pod{podOf("a", "a", "n1"), podOf("b", "b", "n1"), podOf("c", "c", "n2")}, func(s *server) {
		early, _ := s.heard("n1")
		s.want(early, "a", "b") // a listener gets the same calls before and after the list
		<-s.Listed()
		late, stop := s.heard("n1")
		other, _ := s.heard("n2")
		s.want(late, "a", "b")
		s.want(other, "c")
		s.events.Add(podOf("d", "d", "n1"))
		s.events.Modify(podOf("a", "a", "n1"))
		s.events.Delete(podOf("b", "b", "n1"))
		s.want(early, "d", "a", "b gone")
		s.want(late, "d", "a", "b gone")
		s.want(other)
		stop()
		s.events.Add(podOf("e", "e", "n1"))
		s.want(early, "e")
		s.want(late)
		if pods := s.List("n1"); len(pods) != 3 || pods[0].Name != "a" {
			s.Errorf("the pods are %v, want %q, %q and %q", pods, "a", "d", "e")
		}
	})
}

// Changes between two lists are reported: deleted pods, and pods that have replaced another one of the same name.
func TestMissed(t *testing.T) {
	onServer(t, []*v1.Pod{podOf("a", "a", "n1"), podOf("b", "b", "n1"), podOf("c", "c", "n1")}, func(s *server) {
		one, _ := s.heard("n1")
		two, _ := s.heard("n2")
		s.want(one, "a", "b", "c")
		s.relist(podOf("a", "a2", "n2"), podOf("b", "b2", "n1"))
		s.want(one, "a gone", "b gone", "b2", "c gone")
		s.want(two, "a2")
	})
}

// The listeners of a held group get no calls. When it is released, they get one call for each object that differs from the one
// they know. Listeners for all groups, and other groups, get calls all the time.
func TestHold(t *testing.T) {
	onServer(t, []*v1.Pod{podOf("kept", "1", "a"), podOf("deleted", "2", "a"), podOf("replaced", "3", "a")}, func(s *server) {
		var got, all []string
		record := func(to *[]string) func(*v1.Pod, bool) {
			return func(pod *v1.Pod, gone bool) {
				word := pod.Name + " " + string(pod.UID)
				if gone {
					word += " gone"
				}
				*to = append(*to, word)
			}
		}
		s.ListenAll(record(&all))
		time.Sleep(time.Second)
		synctest.Wait()
		defer s.Listen("a", record(&got))()
		got, all = nil, nil
		release := s.Hold("a")
		s.events.Delete(podOf("deleted", "2", "a"))
		s.events.Delete(podOf("replaced", "3", "a"))
		for _, uid := range []types.UID{"4", "5"} {
			pod := podOf("replaced", uid, "a")
			pod.ResourceVersion = string(uid)
			s.events.Modify(pod)
		}
		s.events.Add(podOf("new", "6", "a"))
		time.Sleep(time.Second)
		synctest.Wait()
		if len(got) != 0 || len(all) != 6 {
			t.Errorf("a held listener got %q, and those of all groups %q, want none and %d", got, all, 6)
		}
		release()
		if want := []string{"deleted 2 gone", "replaced 3 gone", "new 6", "replaced 5"}; !slices.Equal(got, want) {
			t.Errorf("after the release the listener got %q, want %q", got, want)
		}
		got = nil
		s.events.Modify(podOf("new", "6", "a"))
		time.Sleep(time.Second)
		synctest.Wait()
		if want := []string{"new 6"}; !slices.Equal(got, want) {
			t.Errorf("after that it got %q, want %q", got, want)
		}
	})
}

// A listener that begins while its group is held gets the objects when the group is released, and does not change what an
// earlier listener gets.
func TestListenWhileHeld(t *testing.T) {
	onServer(t, []*v1.Pod{podOf("deleted", "1", "a"), podOf("kept", "2", "a")}, func(s *server) {
		early, _ := s.heard("a")
		s.want(early, "1", "2")
		release := s.Hold("a")
		s.events.Delete(podOf("deleted", "1", "a"))
		late, _ := s.heard("a")
		s.want(late)
		release()
		s.want(early, "1 gone")
		s.want(late, "2")
	})
}

// The listeners for all groups get the present objects of a group again.
func TestAnnounce(t *testing.T) {
	onServer(t, []*v1.Pod{podOf("a", "1", "a"), podOf("b", "2", "b")}, func(s *server) {
		var all []types.UID
		s.ListenAll(func(pod *v1.Pod, _ bool) { all = append(all, pod.UID) })
		synctest.Wait()
		if s.Announce("b"); !slices.Equal(all, []types.UID{"1", "2", "2"}) {
			t.Errorf("the calls are %q, want one for each pod, and one more for the pod of group b", all)
		}
	})
}
