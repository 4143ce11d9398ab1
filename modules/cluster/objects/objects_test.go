package objects_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/podsync/podsync/modules/cluster/internal/clientlog"
	"github.com/podsync/podsync/modules/cluster/objects"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/container/env"
)

func TestMain(m *testing.M) { os.Exit(clientlog.Run(m)) }

// A shelf runs Objects, and has the node's pods.
type shelf struct {
	*testing.T
	*objects.Objects
	kube    *fake.Clientset
	pods    []*v1.Pod
	changes atomic.Int32
}

func onShelf(t *testing.T, there []runtime.Object, test func(s *shelf)) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{T: t, kube: fake.NewClientset(there...)}
		s.Objects = must.Get(objects.New(objects.Config{Kube: s.kube, Pods: func() []*v1.Pod { return s.pods }, Changed: func() { s.changes.Add(1) }}))(t)
		must.Go(t, s.Objects.Run)
		test(s)
	})
}

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }

// count returns the number of requests for objects of a kind, by verb. It waits for the watch that follows a list.
func (s *shelf) count(resource string) map[string]int {
	synctest.Wait()
	n := map[string]int{}
	for _, a := range s.kube.Actions() {
		if a.GetResource().Resource == resource {
			n[a.GetVerb()]++
		}
	}
	return n
}

// Each object has its own watch, as a node is authorized to, and is then read from the watch.
func TestObjectIsWatchedAlone(t *testing.T) {
	onShelf(t, []runtime.Object{&v1.ConfigMap{ObjectMeta: meta("a"), Data: map[string]string{"k": "1"}}}, func(s *shelf) {
		for range 5 {
			if cm, err := s.ConfigMap(s.Context(), "default", "a"); err != nil || cm.Data["k"] != "1" {
				s.Fatalf("%v, %v, want %q and no error", cm, err, "1")
			}
		}
		if n := s.count("configmaps"); n["watch"] != 1 || n["list"] > 1 || n["get"] > 0 {
			s.Errorf("asked %v, want 1 and at most 1 and at most 0", n)
		}
		for _, a := range s.kube.Actions() {
			if w, ok := a.(ktesting.WatchAction); ok && a.GetResource().Resource == "configmaps" {
				if got := w.GetWatchRestrictions().Fields.String(); got != "metadata.name=a" {
					s.Errorf("watched %q, want %q", got, "metadata.name=a")
				}
			}
		}
		if s.changes.Load() != 0 {
			s.Error("Changed was called without a change")
		}
		next := &v1.ConfigMap{ObjectMeta: meta("a"), Data: map[string]string{"k": "2"}}
		must.Get(s.kube.CoreV1().ConfigMaps("default").Update(s.Context(), next, metav1.UpdateOptions{}))(s)
		synctest.Wait()
		if cm, err := s.ConfigMap(s.Context(), "default", "a"); err != nil || cm.Data["k"] != "2" || s.changes.Load() != 1 {
			s.Errorf("%v, %v, %d calls of Changed, want k=2 and one call", cm, err, s.changes.Load())
		}
	})
}

// A pod may name any number of objects. The number of watches of a namespace is limited, and further objects are read
// directly.
func TestWatchesAreBounded(t *testing.T) {
	const named, watched = 600, 512
	onShelf(t, nil, func(s *shelf) {
		for i := range named {
			if _, err := s.ConfigMap(s.Context(), "default", fmt.Sprint("c", i)); !apierrors.IsNotFound(err) {
				s.Fatal(err)
			}
		}
		if n := s.count("configmaps"); n["watch"] != watched || n["get"] != named {
			s.Errorf("asked %v, want %d watches, and %d reads of objects that are not there", n, watched, named)
		}
		if _, err := s.ConfigMap(s.Context(), "other", "c"); !apierrors.IsNotFound(err) || s.count("configmaps")["watch"] != watched+1 {
			s.Errorf("%v, %v, want a watch in another namespace, too", err, s.count("configmaps"))
		}
		s.PodChanged(&v1.Pod{}, true)
		if _, err := s.ConfigMap(s.Context(), "default", "new"); !apierrors.IsNotFound(err) || s.count("configmaps")["watch"] != watched+2 {
			s.Errorf("%v, %v, want another watch once no pod names the objects", err, s.count("configmaps"))
		}
	})
}

// The bytes in the watches of a namespace are limited. An object beyond the limit is read each time.
func TestWatchedBytesAreBounded(t *testing.T) {
	onShelf(t, nil, func(s *shelf) {
		secret := func(name string) *v1.Secret {
			return &v1.Secret{ObjectMeta: meta(name), Data: map[string][]byte{"k": make([]byte, 1<<20-1)}}
		}
		s.kube.PrependReactor("list", "secrets", func(a ktesting.Action) (bool, runtime.Object, error) {
			name, _ := a.(ktesting.ListAction).GetListRestrictions().Fields.RequiresExactMatch("metadata.name")
			return true, &v1.SecretList{Items: []v1.Secret{*secret(name)}}, nil
		})
		s.kube.PrependReactor("get", "secrets", func(a ktesting.Action) (bool, runtime.Object, error) {
			return true, secret(a.(ktesting.GetAction).GetName()), nil
		})
		for range 2 {
			for i := range 20 {
				if got, err := s.Secret(s.Context(), "default", fmt.Sprint("s", i)); err != nil || len(got.Data["k"]) != 1<<20-1 {
					s.Fatalf("%d bytes, %v", len(got.Data["k"]), err)
				}
			}
		}
		if n := s.count("secrets"); n["list"] != 20 || n["get"] != 2*4 {
			s.Errorf("asked %v, want 20 lists, and 2 reads of each of the 4 that are too much", n)
		}
	})
}

// Each pull secret is read once, and their number for one pod is limited.
func TestPullSecretsAreBounded(t *testing.T) {
	onShelf(t, []runtime.Object{&v1.Secret{ObjectMeta: meta("s")}}, func(s *shelf) {
		pod := &v1.Pod{ObjectMeta: meta("web")}
		for range 1000 {
			pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: "s"})
		}
		if secrets, err := (objects.PullSecrets{Secrets: s}).PullSecrets(s.Context(), pod); err != nil || len(secrets) != 1 {
			s.Errorf("%d secrets, %v, want one", len(secrets), err)
		}
		for i := range 1000 {
			pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: fmt.Sprint("missing", i)})
		}
		if _, err := (objects.PullSecrets{Secrets: s}).PullSecrets(s.Context(), pod); env.Unavailable(err) || err == nil || !strings.Contains(err.Error(), `"missing255" and those after it count as not found`) {
			s.Errorf("%v", err)
		}
		large := objects.PullSecrets{Secrets: env.SecretsFunc(func(context.Context, string, string) (*v1.Secret, error) {
			return &v1.Secret{Data: map[string][]byte{"k": make([]byte, 1<<20)}}, nil
		})}
		if secrets, err := large.PullSecrets(s.Context(), pod); err == nil || env.Unavailable(err) || len(secrets) != 7 {
			s.Errorf("%d large secrets, %v, want 7 and an error", len(secrets), err)
		}
	})
}

// The watch of an object ends when no pod names the object.
func TestWatchEndsWithTheLastPod(t *testing.T) {
	secret := &v1.Secret{ObjectMeta: meta("s"), Data: map[string][]byte{"k": []byte("v")}}
	onShelf(t, []runtime.Object{secret}, func(s *shelf) {
		pod := &v1.Pod{ObjectMeta: meta("web"), Spec: v1.PodSpec{Volumes: []v1.Volume{{
			VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s"}},
		}}}}
		s.pods = []*v1.Pod{pod}
		get := func() {
			must.Get(s.Secret(s.Context(), "default", "s"))(s)
		}
		get()
		s.PodChanged(&v1.Pod{}, true) // another pod was deleted, and this one still exists
		get()
		if n := s.count("secrets")["watch"]; n != 1 {
			s.Errorf("%d watches, want 1", n)
		}
		s.pods = nil
		s.PodChanged(pod, true)
		get()
		if n := s.count("secrets")["watch"]; n != 2 {
			s.Errorf("%d watches, want another one", n)
		}
	})
}

// A watch that is started for a pod that is deleted meanwhile also ends.
func TestWatchOfARemovedPod(t *testing.T) {
	secret := &v1.Secret{ObjectMeta: meta("s"), Data: map[string][]byte{"k": []byte("v")}}
	onShelf(t, []runtime.Object{secret}, func(s *shelf) {
		get := func() {
			must.Get(s.Secret(s.Context(), "default", "s"))(s)
		}
		get()
		time.Sleep(90 * time.Second)
		get()
		if n := s.count("secrets")["watch"]; n != 2 {
			s.Errorf("%d watches, want another one", n)
		}
	})
}

func TestMissingObjects(t *testing.T) {
	onShelf(t, nil, func(s *shelf) {
		if _, err := s.ConfigMap(s.Context(), "default", "a"); !apierrors.IsNotFound(err) {
			s.Errorf("want NotFound, got %v", err)
		}
		pod := &v1.Pod{ObjectMeta: meta("web"), Spec: v1.PodSpec{ImagePullSecrets: []v1.LocalObjectReference{{Name: "there"}, {Name: "gone"}}}}
		there := &v1.Secret{ObjectMeta: meta("there"), Data: map[string][]byte{"k": []byte("hidden")}}
		must.Get(s.kube.CoreV1().Secrets("default").Create(s.Context(), there, metav1.CreateOptions{}))(s)
		secrets, err := s.Supply().PullSecrets.PullSecrets(s.Context(), pod)
		if len(secrets) != 1 || err == nil || !strings.Contains(err.Error(), "gone") || strings.Contains(err.Error(), "hidden") {
			s.Errorf("%d secrets, %v, want one, and an error with %q and without %q in it", len(secrets), err, "gone", "hidden")
		}
		if _, err := s.RuntimeHandler(s.Context(), "kata"); !apierrors.IsNotFound(err) {
			s.Errorf("want NotFound, got %v", err)
		}
	})
}

func TestServicesAndRuntimeClasses(t *testing.T) {
	there := []runtime.Object{
		&v1.Service{ObjectMeta: meta("db")},
		&v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "web"}},
		&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "kata"}, Handler: "kata-qemu"},
	}
	onShelf(t, there, func(s *shelf) {
		if services, err := s.Services(s.Context(), "default"); err != nil || len(services) != 1 || services[0].Name != "db" {
			s.Errorf("%v, %v, want only %q", services, err, "db")
		}
		if handler, err := s.RuntimeHandler(s.Context(), "kata"); err != nil || handler != "kata-qemu" {
			s.Errorf("%q, %v, want %q and no error", handler, err, "kata-qemu")
		}
	})
}

// Once the server has said that an object does not exist, its watch shows that: no read waits for a server that is
// unavailable (kubeedge #4817).
func TestR4_AbsenceIsKnownByTheWatch(t *testing.T) {
	onShelf(t, nil, func(s *shelf) {
		for range 3 {
			if _, err := s.Secret(s.Context(), "default", "none"); !env.NotFound(err) {
				s.Errorf("%v, want not found", err)
			}
		}
		if n := s.count("secrets"); n["get"] != 1 {
			s.Errorf("asked %v, want one get", n)
		}
		s.kube.Lock()
		s.kube.PrependReactor("get", "secrets", func(ktesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("connection refused")
		})
		s.kube.Unlock()
		for _, name := range []string{"none", "another"} { // the watch of another has synced before the server is asked
			if _, err := s.Secret(s.Context(), "default", name); !env.NotFound(err) {
				s.Errorf("%s: %v, want not found", name, err)
			}
		}
		must.Get(s.kube.CoreV1().Secrets("default").Create(s.Context(), &v1.Secret{ObjectMeta: meta("none")}, metav1.CreateOptions{}))(s)
		synctest.Wait()
		if _, err := s.Secret(s.Context(), "default", "none"); err != nil || s.changes.Load() == 0 {
			s.Errorf("%v after %d changes, want the new object", err, s.changes.Load())
		}
	})
}

// If Services cannot be listed, a pod waits only a moment: a static pod that then starts without them may be the API
// server.
func TestE5_ServicesAreNotWaitedForForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, err := objects.New(objects.Config{Kube: fake.NewClientset(), Pods: func() []*v1.Pod { return nil }}) // Run is not called, so that nothing is listed
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if services, err := o.Services(ctx, "default"); err == nil || ctx.Err() != nil {
			t.Errorf("%v, %v: want an error before a minute is over", services, err)
		}
	})
}

func TestTokenIsBoundToThePod(t *testing.T) {
	onShelf(t, nil, func(s *shelf) {
		var asked *authenticationv1.TokenRequest
		var fails error
		s.kube.Lock() // informers read the reactors concurrently
		s.kube.PrependReactor("create", "serviceaccounts", func(a ktesting.Action) (bool, runtime.Object, error) {
			asked = a.(ktesting.CreateAction).GetObject().(*authenticationv1.TokenRequest)
			return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: "a.b.c"}}, fails
		})
		s.kube.Unlock()
		pod := &v1.Pod{ObjectMeta: meta("web"), Spec: v1.PodSpec{ServiceAccountName: "builder"}}
		pod.UID = "1"
		ask := &v1.ServiceAccountTokenProjection{Audience: "vault", ExpirationSeconds: new(int64(600))}
		token, err := s.Token(s.Context(), pod, ask)
		if err != nil || token != "a.b.c" {
			s.Fatalf("%q, %v, want %q and no error", token, err, "a.b.c")
		}
		spec := asked.Spec
		if spec.BoundObjectRef.Name != "web" || spec.BoundObjectRef.UID != "1" || *spec.ExpirationSeconds != 600 || spec.Audiences[0] != "vault" {
			s.Errorf("asked for %+v", spec)
		}
		fails = errors.New("unavailable")
		if token, err := s.Token(s.Context(), pod, ask); err == nil || token != "" || strings.Contains(err.Error(), "a.b.c") {
			s.Errorf("%q, %v, want an error and %q and no %q in it", token, err, "", "a.b.c")
		}
	})
}
