package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// maxBody is a request's maximum size: a little more than an API server accepts.
const maxBody = 4 << 20

// A refusal is a client's error with its HTTP status.
type refusal struct {
	code int
	err  error
}

func (r *refusal) Error() string { return r.err.Error() }

func refuse(code int, format string, args ...any) error {
	return &refusal{code, fmt.Errorf(format, args...)}
}

// Handler returns the agent's HTTP API.
func (a *Agent) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /pods", answer(a.list))
	mux.Handle("PUT /pods", answer(a.putAll))
	mux.Handle("GET /pods/{namespace}/{name}", answer(a.get))
	mux.Handle("PUT /pods/{namespace}/{name}", answer(a.put))
	mux.Handle("DELETE /pods/{namespace}/{name}", answer(a.delete))
	mux.Handle("GET /health", answer(a.health))
	return mux
}

// answer writes a function's result: a status code, and a value as JSON.
func answer(serve func(r *http.Request) (int, any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		code, value, err := serve(r)
		if err != nil {
			code, value = codeOf(err), map[string]string{"error": err.Error()}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(value)
	})
}

func codeOf(err error) int {
	if r := (*refusal)(nil); errors.As(err, &r) {
		return r.code
	}
	switch {
	case errors.Is(err, errNotFound):
		return http.StatusNotFound
	case errors.Is(err, errStopping):
		return http.StatusConflict
	}
	return http.StatusUnprocessableEntity // well-formed but invalid
}

func (a *Agent) list(*http.Request) (int, any, error) {
	return http.StatusOK, v1.PodList{Items: a.List()}, nil
}

func (a *Agent) get(r *http.Request) (int, any, error) {
	pod, err := a.Get(pathOf(r))
	return http.StatusOK, pod, err
}

func (a *Agent) put(r *http.Request) (int, any, error) {
	var pod v1.Pod
	if err := decode(r.Body, &pod); err != nil {
		return 0, nil, err
	}
	path := pathOf(r)
	if err := complete(&pod, path.Namespace, path.Name); err != nil {
		return 0, nil, err
	}
	created, err := a.Put(&pod)
	if err != nil {
		return 0, nil, err
	}
	code := http.StatusOK
	if created {
		code = http.StatusCreated
	}
	shown, err := a.Get(path)
	return code, shown, err
}

func (a *Agent) putAll(r *http.Request) (int, any, error) {
	var pods v1.PodList
	if err := decode(r.Body, &pods); err != nil {
		return 0, nil, err
	}
	for i := range pods.Items {
		if err := complete(&pods.Items[i], pods.Items[i].Namespace, pods.Items[i].Name); err != nil {
			return 0, nil, fmt.Errorf("items[%d]: %w", i, err)
		}
	}
	if err := a.PutAll(pods.Items); err != nil {
		return 0, nil, err
	}
	return a.list(r)
}

func (a *Agent) delete(r *http.Request) (int, any, error) {
	grace, err := graceOf(r)
	if err != nil {
		return 0, nil, err
	}
	if err := a.Delete(pathOf(r), grace); err != nil {
		return 0, nil, err
	}
	pod, err := a.Get(pathOf(r))
	if errors.Is(err, errNotFound) {
		return http.StatusOK, struct{}{}, nil // the pod had stopped already
	}
	return http.StatusAccepted, pod, err
}

func (a *Agent) health(*http.Request) (int, any, error) {
	h := a.Health()
	if !h.OK() {
		return 0, nil, refuse(http.StatusServiceUnavailable, "%v", h)
	}
	return http.StatusOK, map[string]string{"status": "ok"}, nil
}

func pathOf(r *http.Request) types.NamespacedName {
	return types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
}

// graceOf returns the requested grace period in seconds, nil if the request has none.
func graceOf(r *http.Request) (*int64, error) {
	text := r.URL.Query().Get("gracePeriodSeconds")
	if text == "" {
		return nil, nil
	}
	grace, err := strconv.ParseInt(text, 10, 64)
	if err != nil || grace < 0 {
		return nil, refuse(http.StatusBadRequest, "gracePeriodSeconds=%s: want a number of seconds, 0 or more", text)
	}
	return &grace, nil
}

// decode reads exactly one JSON value. An unknown field is an error, because it would have no effect.
func decode(body io.Reader, value any) error {
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	err := d.Decode(value)
	if err == nil && d.More() {
		err = errors.New("there is something after the object")
	}
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return refuse(http.StatusRequestEntityTooLarge, "more than %d bytes", tooLarge.Limit)
	}
	if err != nil {
		return refuse(http.StatusBadRequest, "the body is no such object in JSON: %w", err)
	}
	return nil
}

// complete checks a pod's metadata, and sets its name and namespace.
func complete(pod *v1.Pod, namespace, name string) error {
	switch {
	case pod.Kind != "" && pod.Kind != "Pod":
		return refuse(http.StatusBadRequest, "kind: %s is no Pod", pod.Kind)
	case pod.APIVersion != "" && pod.APIVersion != "v1":
		return refuse(http.StatusBadRequest, "apiVersion: %s is not v1", pod.APIVersion)
	case pod.Namespace != "" && pod.Namespace != namespace:
		return refuse(http.StatusBadRequest, "metadata.namespace: %s, and the path says %s", pod.Namespace, namespace)
	case pod.Name != "" && pod.Name != name:
		return refuse(http.StatusBadRequest, "metadata.name: %s, and the path says %s", pod.Name, name)
	case pod.UID != "" || pod.DeletionTimestamp != nil:
		return refuse(http.StatusBadRequest, "metadata.uid, metadata.deletionTimestamp: these are the agent's to set")
	}
	pod.Namespace, pod.Name = namespace, name
	pod.Status = v1.PodStatus{}
	return nil
}
