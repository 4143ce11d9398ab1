package fleet_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/modules/cluster/internal/fleet"
	"github.com/podsync/podsync/modules/cluster/internal/hours"
	"github.com/podsync/podsync/modules/cluster/internal/tracked"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

const (
	// soakTime is the virtual duration of the soak, unless PODSYNC_SOAK sets another one.
	soakTime = time.Hour
	// soakRound is the time between two samples. The runtime restarts in every second round.
	soakRound = 5 * time.Minute
	// deployments roll in turn, one in each round. Each has replicas pods.
	deployments, replicas = 3, 3
	// jobs is the number of pods in each round that run to their end.
	jobs = 2
	// troubled is the number of rounds after which the pods with failing probes are replaced. Each restart of a container leaves a
	// file until its pod is removed, so a third of the samples must have whole multiples of it.
	troubled = 4
)

// soaked are the resources that must not grow. The slack is the noise that is allowed between two medians.
var soaked = []struct {
	name  string
	slack float64
}{{"goroutines", 3}, {"heap objects", 1000}, {"watches", 0}, {"files", 1}, {"images", 0}}

// A soak is a node whose pods are replaced all the time.
type soak struct {
	*testing.T
	pods   typedv1.PodInterface
	kube   kubernetes.Interface
	node   *fleet.Node
	store  *tracked.Store
	images runtimeapi.ImageServiceClient
	dir    string
	// once are the UIDs of the current pods whose container must run once.
	once map[string]bool
}

// TestSoak replaces the pods of Deployments, runs Jobs, fails probes, pulls and removes images, and restarts the runtime
// every ten minutes. Nothing gets stuck, no container runs twice, and no resource of the process grows.
//
//	PODSYNC_SOAK=24h go test -count=1 -v -timeout 3h -run TestSoak ./internal/fleet
func TestSoak(t *testing.T) {
	duration := soakTime
	if text := os.Getenv("PODSYNC_SOAK"); text != "" {
		var err error
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatal("PODSYNC_SOAK:", err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		s, end := newSoak(t)
		defer end()
		samples := make([][]float64, len(soaked))
		for began, round := time.Now(), 1; time.Since(began) < duration; round++ {
			s.change(round)
			time.Sleep(time.Until(began.Add(time.Duration(round) * soakRound)))
			s.checkProcesses()
			for i, value := range s.sample() {
				samples[i] = append(samples[i], value)
			}
		}
		for i, r := range soaked {
			medians, err := hours.Growth(r.name, samples[i], r.slack)
			t.Logf("%s: medians of the thirds of %v: %.0f", r.name, duration, medians)
			if err != nil {
				t.Error(err)
			}
		}
	})
}

func newSoak(t *testing.T) (s *soak, end func()) {
	s = &soak{T: t, store: tracked.New(scheme.Scheme), dir: t.TempDir(), once: map[string]bool{}}
	var err error
	s.kube = must.Get(kubernetes.NewForConfig(&rest.Config{Host: "http://fleet", Transport: fleet.Transport(&tracked.Server{Store: s.store}), QPS: -1}))(t)
	s.pods = s.kube.CoreV1().Pods(metav1.NamespaceDefault)
	// The limit covers the processes of a round.
	f := must.Get(fleet.New(fleet.Config{Kube: s.kube, Dir: s.dir, Runtime: critest.Config{JournalLimit: 100}}))(t)
	if s.node, err = f.Add(fleet.Spec{Name: "n1"}); err == nil {
		err = s.node.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.fillEventCaches(f)
	s.images = runtimeapi.NewImageServiceClient(s.node.Runtime.Direct())
	for deployment := range deployments {
		for replica := range replicas {
			s.createReplica(deployment, replica, 0)
		}
	}
	return s, func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// change makes the changes of a round.
func (s *soak) change(round int) {
	s.Helper()
	if round%2 == 0 {
		must.Do(s, s.node.Runtime.Restart(faults.Restart{Down: 5 * time.Second}))
	}
	s.replaceJobs(round)
	deployment := round % deployments
	for replica := range replicas {
		s.createReplica(deployment, replica, round)
		s.delete(replicaName(deployment, replica, max(0, round-deployments)))
	}
	if round%troubled == 1 {
		s.replaceTroubled(round)
	}
	if _, err := s.images.RemoveImage(s.Context(), &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: soakImage(round - 1)}}); err != nil {
		s.Error(err)
	}
	s.expireEvents()
}

// replicaName is the name of a replica that was created in a round, 0 for the first ones.
func replicaName(deployment, replica, round int) string {
	return fmt.Sprintf("web-%d-%d-%d", deployment, replica, round)
}

// soakImage is the image that the Jobs of a round pull.
func soakImage(round int) string { return fmt.Sprintf("registry.example/soak:%d", round) }

// createReplica creates a pod of a Deployment, and waits until it is ready.
func (s *soak) createReplica(deployment, replica, round int) {
	s.Helper()
	name := replicaName(deployment, replica, round)
	s.create(name, v1.PodSpec{Containers: []v1.Container{{
		Name: "app", Image: "nginx",
		ReadinessProbe: &v1.Probe{PeriodSeconds: 60, ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}},
	}}})
	s.await(name+" is ready", 2*time.Minute, func() bool {
		pod := s.get(name)
		return pod != nil && len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].Ready
	})
}

// replaceJobs deletes the pods of the last round's Jobs, and waits until those of this round have succeeded.
func (s *soak) replaceJobs(round int) {
	s.Helper()
	clear(s.once)
	for i := range jobs {
		if round > 1 {
			s.delete(fmt.Sprintf("job-%d-%d", i, round-1))
		}
		name := fmt.Sprintf("job-%d-%d", i, round)
		pod := s.create(name, v1.PodSpec{RestartPolicy: v1.RestartPolicyNever, Containers: []v1.Container{{
			Name: "app", Image: soakImage(round), Command: []string{"sh", "-c", "sleep 20; echo done"},
		}}})
		s.once[string(pod.UID)] = true
	}
	for i := range jobs {
		name := fmt.Sprintf("job-%d-%d", i, round)
		s.await(name+" has succeeded", 2*time.Minute, func() bool {
			pod := s.get(name)
			return pod != nil && pod.Status.Phase == v1.PodSucceeded
		})
	}
}

// replaceTroubled replaces the pod that its liveness probe restarts, and the pod that never becomes ready.
func (s *soak) replaceTroubled(round int) {
	s.Helper()
	fails := &v1.Probe{PeriodSeconds: 30, FailureThreshold: 2, ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"false"}}}}
	if old := round - troubled; old > 0 {
		restarts := func(name string) int32 {
			if pod := s.get(name); pod != nil && len(pod.Status.ContainerStatuses) == 1 && !pod.Status.ContainerStatuses[0].Ready {
				return pod.Status.ContainerStatuses[0].RestartCount
			}
			return -1
		}
		live, unready := fmt.Sprintf("live-%d", old), fmt.Sprintf("unready-%d", old)
		if n := restarts(live); n < 4 {
			s.Errorf("%s has restarted %d times, want at least 4", live, n)
		}
		if n := restarts(unready); n != 0 {
			s.Errorf("%s has restarted %d times, want 0, and not ready", unready, n)
		}
		s.delete(live)
		s.delete(unready)
	}
	s.create(fmt.Sprintf("live-%d", round), v1.PodSpec{Containers: []v1.Container{{
		Name: "app", Image: "nginx", LivenessProbe: fails, ReadinessProbe: fails,
	}}})
	s.create(fmt.Sprintf("unready-%d", round), v1.PodSpec{Containers: []v1.Container{{Name: "app", Image: "nginx", ReadinessProbe: fails}}})
}

func (s *soak) create(name string, spec v1.PodSpec) *v1.Pod {
	s.Helper()
	spec.NodeName, spec.TerminationGracePeriodSeconds = "n1", new(int64(5))
	return must.Get(s.pods.Create(s.Context(), &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{}))(s)
}

// delete deletes a pod, and waits until its object is removed.
func (s *soak) delete(name string) {
	s.Helper()
	must.Do(s, s.pods.Delete(s.Context(), name, metav1.DeleteOptions{}))
	s.await(name+" is removed", time.Minute, func() bool { return s.get(name) == nil })
}

// get returns a pod, nil if it does not exist.
func (s *soak) get(name string) *v1.Pod {
	s.Helper()
	pod, err := s.pods.Get(s.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.Fatal(err)
	}
	return pod
}

func (s *soak) await(what string, within time.Duration, met func() bool) {
	s.Helper()
	for late := time.Now().Add(within); !met(); time.Sleep(time.Second) {
		if time.Now().After(late) {
			s.Fatalf("not after %v: %s", within, what)
		}
	}
}

// fillEventCaches records events until the caches of client-go's recorder are full, which takes hours of the soak otherwise.
func (s *soak) fillEventCaches(f *fleet.Fleet) {
	s.Helper()
	const cached, batch = 4096, 512 // the size of the caches, and less than the queue of the recorder
	for i := range cached {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("past-%d", i)}}
		f.Events().Event(pod, v1.EventTypeNormal, "Started", pod.Name)
		if i%batch == batch-1 {
			synctest.Wait()
			s.expireEvents()
		}
	}
}

// expireEvents deletes the events, as an API server does after an hour.
func (s *soak) expireEvents() {
	s.Helper()
	events := s.kube.CoreV1().Events(metav1.NamespaceDefault)
	list := must.Get(events.List(s.Context(), metav1.ListOptions{}))(s)
	for _, e := range list.Items {
		must.Do(s, events.Delete(s.Context(), e.Name, metav1.DeleteOptions{}))
	}
}

// checkProcesses requires that no container ran twice at a time, and those of Jobs only once.
func (s *soak) checkProcesses() {
	s.Helper()
	last := map[string]critest.Process{}
	for _, p := range s.node.Runtime.Processes() { // in the order of their starts
		key := p.PodUID + "/" + p.Container
		before, again := last[key]
		if again && before.Overlaps(p) {
			s.Errorf("a container ran twice at a time: %+v and %+v", before, p)
		}
		if again && s.once[p.PodUID] {
			s.Errorf("a container of a Job ran twice: %+v and %+v", before, p)
		}
		last[key] = p
	}
	for uid := range s.once {
		if _, ran := last[uid+"/app"]; !ran {
			s.Errorf("the runtime has no record of the Job's pod %s", uid)
		}
	}
}

// sample returns the amounts of the resources of soaked, in its order.
func (s *soak) sample() []float64 {
	s.Helper()
	s.store.Compact() // otherwise the API server's history would grow to its limit
	synctest.Wait()
	images := must.Get(s.images.ListImages(s.Context(), &runtimeapi.ListImagesRequest{}))(s)
	goroutines := runtime.NumGoroutine()
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the second one empties the pools
	runtime.ReadMemStats(&m)
	return []float64{float64(goroutines), float64(m.HeapObjects), float64(s.store.Watches()), float64(s.files()), float64(len(images.Images))}
}

// files returns the number of files and directories of the node, without the records of pulled images: the nodes of a fleet have no
// image collector, so that the test removes the images, and the agent keeps their records.
func (s *soak) files() (n int) {
	s.Helper()
	must.Do(s, filepath.WalkDir(s.dir, func(path string, _ fs.DirEntry, err error) error {
		if filepath.Base(filepath.Dir(path)) != "pulled" {
			n++
		}
		return err
	}))
	return n
}
