package main

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A fakeAPI is an API server over HTTPS with one node and no pods. It records the times of the lease's renewals, and
// counts the reviews.
type fakeAPI struct {
	*httptest.Server
	mu                  sync.Mutex
	objects             map[string]k8sruntime.Object // by path
	renewals            []time.Time
	reviews, mostAtOnce int
	reviewing           map[*http.Request]struct{}
}

// reviewTime is the duration of a review.
const reviewTime = 5 * time.Millisecond

func newFakeAPI(t *testing.T) *fakeAPI {
	f := &fakeAPI{objects: map[string]k8sruntime.Object{}, reviewing: map[*http.Request]struct{}{}}
	f.Server = httptest.NewUnstartedServer(f)
	f.EnableHTTP2 = true
	f.StartTLS()
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
	})
	return f
}

// kubeconfig writes a kubeconfig of the node.
func (f *fakeAPI) kubeconfig(t *testing.T, path string) {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{
		Server: f.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw}),
	}
	c.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "node"}
	c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	c.CurrentContext = "x"
	must.Do(t, clientcmd.WriteToFile(*c, path))
}

// lists maps resources to the kinds of their lists.
var lists = map[string]string{"pods": "PodList", "nodes": "NodeList", "services": "ServiceList", "runtimeclasses": "RuntimeClassList"}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 16<<20))
	resource := filepath.Base(r.URL.Path)
	switch {
	case r.Method == http.MethodGet && r.URL.Query().Get("sendInitialEvents") != "":
		f.fail(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid) // the client then requests a list instead
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") != "":
		w.Header().Set("Content-Type", "application/json")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case r.Method == http.MethodGet && lists[resource] != "":
		group := strings.TrimPrefix(strings.TrimPrefix(filepath.Dir(r.URL.Path), "/apis/"), "/api/")
		write(w, http.StatusOK, map[string]any{"kind": lists[resource], "apiVersion": group, "metadata": map[string]any{"resourceVersion": "1"}, "items": []any{}})
	case r.Method == http.MethodGet:
		f.get(w, r.URL.Path)
	case r.Method == http.MethodPatch:
		f.get(w, strings.TrimSuffix(r.URL.Path, "/status"))
	default:
		f.write(w, r, resource, body)
	}
}

func (f *fakeAPI) get(w http.ResponseWriter, path string) {
	f.mu.Lock()
	object := f.objects[path]
	f.mu.Unlock()
	if object == nil {
		f.fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	}
	write(w, http.StatusOK, object)
}

func (f *fakeAPI) write(w http.ResponseWriter, r *http.Request, resource string, body []byte) {
	object, kind, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		f.fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
		return
	}
	object.GetObjectKind().SetGroupVersionKind(*kind)
	switch o := object.(type) {
	case *authenticationv1.TokenReview:
		user, known := strings.CutPrefix(o.Spec.Token, "good-")
		o.Spec.Token = ""
		o.Status = authenticationv1.TokenReviewStatus{Authenticated: known, User: authenticationv1.UserInfo{Username: user}}
		f.review(r)
	case *authorizationv1.SubjectAccessReview:
		o.Status.Allowed = slices.Contains([]string{"ann", "eve", "apiserver"}, o.Spec.User)
		f.review(r)
	default:
		path := r.URL.Path
		if meta, ok := object.(metav1.Object); ok && r.Method == http.MethodPost {
			meta.SetUID(types.UID("uid-of-" + meta.GetName()))
			path += "/" + meta.GetName()
		}
		f.mu.Lock()
		f.objects[path] = object
		if filepath.Base(filepath.Dir(path)) == "leases" {
			f.renewals = append(f.renewals, time.Now())
		}
		f.mu.Unlock()
	}
	write(w, http.StatusCreated, object)
}

// review counts a review, and waits for reviewTime. A review whose client has cancelled it is not counted as concurrent:
// the handler of a cancelled request ends late on a busy machine.
func (f *fakeAPI) review(r *http.Request) {
	f.mu.Lock()
	f.reviews++
	f.reviewing[r] = struct{}{}
	atOnce := 0
	for other := range f.reviewing {
		if other.Context().Err() == nil {
			atOnce++
		}
	}
	f.mostAtOnce = max(f.mostAtOnce, atOnce)
	f.mu.Unlock()
	select {
	case <-time.After(reviewTime):
	case <-r.Context().Done():
	}
	f.mu.Lock()
	delete(f.reviewing, r)
	f.mu.Unlock()
}

func (f *fakeAPI) fail(w http.ResponseWriter, code int32, reason metav1.StatusReason) {
	write(w, int(code), &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: string(reason),
	})
}

func write(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object) // the client may have disconnected
}

// longestGap returns the longest time between two renewals of the lease since a time, and the number of renewals.
func (f *fakeAPI) longestGap(since time.Time) (gap time.Duration, renewals int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := since
	for _, at := range append(f.renewals[:len(f.renewals):len(f.renewals)], time.Now()) {
		if at.Before(since) {
			continue
		}
		gap, last = max(gap, at.Sub(last)), at
		renewals++
	}
	return gap, renewals - 1
}

// figures returns the number of reviews, and the maximum number of concurrent ones.
func (f *fakeAPI) figures() (reviews, atOnce int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reviews, f.mostAtOnce
}

func (f *fakeAPI) file(t *testing.T, path, text string) string {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
