package fleet_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/podsync/podsync/modules/cluster/internal/clientlog"
	"github.com/podsync/podsync/modules/cluster/internal/fleet"
	"github.com/podsync/podsync/modules/cluster/internal/gate"
	"github.com/podsync/podsync/modules/cluster/internal/tracked"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/server"
)

func TestMain(m *testing.M) { os.Exit(clientlog.Run(m)) }

// A badge authenticates the requests that carry its own token, and authorizes all of them.
type badge string

func (b badge) AuthenticateRequest(r *http.Request) (server.User, bool, error) {
	return server.User{Name: "admin"}, r.Header.Get("Authorization") == "Bearer "+string(b), nil
}

func (badge) Authorize(context.Context, server.Attributes) (bool, string, error) {
	return true, "", nil
}

// All nodes report one address, and the pod's node answers a request.
func TestHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New(&tracked.Server{Store: tracked.New(scheme.Scheme)}, tracked.VerbAndResource)
		kube, err := kubernetes.NewForConfig(&rest.Config{Host: "http://fleet", Transport: g, QPS: -1})
		if err != nil {
			t.Fatal(err)
		}
		f := must.Get(fleet.New(fleet.Config{Kube: kube, Dir: t.TempDir(), Address: netip.MustParseAddr("192.0.2.1"), Port: 10250, Authenticator: badge("right"), Authorizer: badge("right")}))(t)
		defer f.Close()
		for _, name := range []string{"n1", "n2"} {
			n, err := f.Add(fleet.Spec{Name: name})
			if err == nil {
				err = n.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			must.Get(kube.CoreV1().Pods("default").Create(t.Context(), &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "on-" + name}, Spec: v1.PodSpec{
				NodeName: name, Containers: []v1.Container{{Name: "app", Image: "busybox", Command: []string{"sh", "-c", "echo I am on " + name + "; sleep 3600"}}},
			}}, metav1.CreateOptions{}))(t)
		}
		time.Sleep(time.Minute)
		node, err := kube.CoreV1().Nodes().Get(t.Context(), "n2", metav1.GetOptions{})
		if err != nil || node.Status.Addresses[0].Address != "192.0.2.1" || node.Status.DaemonEndpoints.KubeletEndpoint.Port != 10250 {
			t.Errorf("the node is %+v, %v, want address %s and port %d", node.Status, err, "192.0.2.1", 10250)
		}
		// A kubelet reports these resources, and a pod that requests one of them is scheduled to no node without it.
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage, v1.ResourcePods} {
			if q := node.Status.Allocatable[name]; q.IsZero() {
				t.Errorf("the node has %v, want %s in it", node.Status.Allocatable, name)
			}
		}
		handler := f.Handler()
		ask := func(path, token string) (int, string) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			return w.Code, w.Body.String()
		}
		if code, log := ask("/containerLogs/default/on-n2/app", "right"); code != http.StatusOK || log != "I am on n2\n" {
			t.Errorf("the log is %d %q, want %q", code, log, "I am on n2\n")
		}
		for path, want := range map[string]int{"/containerLogs/default/other/app": http.StatusNotFound, "/pods": http.StatusNotFound} {
			if code, _ := ask(path, "right"); code != want {
				t.Errorf("%s answers %d, want %d", path, code, want)
			}
		}
		if code, _ := ask("/containerLogs/default/other/app", "wrong"); code != http.StatusUnauthorized {
			t.Errorf("a wrong token reads logs of a pod: %d, want %d", code, http.StatusUnauthorized)
		}
		if code, log := ask("/containerLogs/default/on-n1/app", "wrong"); code != http.StatusUnauthorized || strings.Contains(log, "I am") {
			t.Errorf("a wrong token gets %d %q, want %d", code, log, http.StatusUnauthorized)
		}
	})
}

// If the test runs as root, Secrets are in mounts of memory. Close unmounts them.
func TestCloseLeavesNoMount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		g := gate.New(&tracked.Server{Store: tracked.New(scheme.Scheme)}, tracked.VerbAndResource)
		kube, err := kubernetes.NewForConfig(&rest.Config{Host: "http://fleet", Transport: g, QPS: -1})
		if err != nil {
			t.Fatal(err)
		}
		f := must.Get(fleet.New(fleet.Config{Kube: kube, Dir: dir}))(t)
		n, err := f.Add(fleet.Spec{Name: "n1"})
		if err == nil {
			err = n.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = kube.CoreV1().Secrets("default").Create(t.Context(), &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"k": []byte("v")}}, metav1.CreateOptions{})
		if err == nil {
			_, err = kube.CoreV1().Pods("default").Create(t.Context(), &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1.PodSpec{
				NodeName: "n1", Containers: []v1.Container{{Name: "app", Image: "nginx", VolumeMounts: []v1.VolumeMount{{Name: "s", MountPath: "/s"}}}},
				Volumes: []v1.Volume{{Name: "s", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s"}}}},
			}}, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if pod, err := kube.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{}); err != nil || pod.Status.Phase != v1.PodRunning {
			t.Errorf("the pod is %v, %v, want it running", pod.Status.Phase, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("the directory of a closed fleet cannot be removed: %v", err)
		}
	})
}
