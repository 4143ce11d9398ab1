package tracked

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// maxBody is the maximum size of a request's body, in bytes.
const maxBody = 8 << 20

// A Server is the client transport: it answers their requests from a Store, without a network.
type Server struct {
	Store *Store
	// Proxy answers the requests that an API server forwards to nodes: pods/log. If it is nil, they return 404.
	Proxy http.Handler
}

// RoundTrip answers a request.
func (s *Server) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := readBody(req)
	if err != nil {
		return nil, err
	}
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	r, ok := parse(req.URL.Path)
	if !ok || r.Resource == "" {
		return s.Store.discover(req)
	}
	if r.Resource == "pods" && r.subresource == "log" && s.Proxy != nil {
		return s.proxy(req), nil
	}
	if verb(req) == "watch" {
		return s.watch(req, r), nil
	}
	answer, err := s.Store.do(req, r, body)
	if err != nil {
		return errorResponse(req, err), nil
	}
	code := http.StatusOK
	if req.Method == http.MethodPost {
		code = http.StatusCreated
	}
	return jsonResponse(req, code, answer), nil
}

func readBody(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	defer req.Body.Close()
	body, err := io.ReadAll(io.LimitReader(req.Body, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = errors.New("the body of the request is too large")
	}
	return body, err
}

// do serves all requests except watches.
func (s *Store) do(req *http.Request, r request, body []byte) (any, error) {
	switch verb(req) {
	case "get":
		return s.get(r)
	case "list":
		o, err := listOptions(req.URL.Query())
		if err != nil {
			return nil, err
		}
		return s.answerList(r, o)
	case "create":
		if r.name != "" {
			return s.post(r, body)
		}
		made, err := s.decode(r, body)
		if err != nil {
			return nil, err
		}
		return s.create(r, made)
	case "update":
		asked, err := s.decode(r, body)
		if err != nil {
			return nil, err
		}
		return s.update(r, asked)
	case "patch":
		return s.patch(r, types.PatchType(req.Header.Get("Content-Type")), body, metav1.PatchOptions{FieldManager: req.URL.Query().Get("fieldManager")})
	default:
		return s.answerDelete(req, r, body)
	}
}

func (s *Store) answerList(r request, o metav1.ListOptions) (any, error) {
	found, version, err := s.list(r, o)
	if err != nil {
		return nil, err
	}
	gvk, err := s.kindOf(r)
	if err != nil {
		return nil, err
	}
	if found == nil {
		found = []object{}
	}
	return map[string]any{
		"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind + "List",
		"metadata": map[string]any{"resourceVersion": strconv.FormatInt(version, 10)}, "items": found,
	}, nil
}

// answerDelete deletes one object, or all selected objects.
func (s *Store) answerDelete(req *http.Request, r request, body []byte) (any, error) {
	var o metav1.DeleteOptions
	if len(body) > 0 {
		if _, _, err := s.decoder.Decode(body, new(schema.GroupVersionKind{Version: "v1", Kind: "DeleteOptions"}), &o); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if r.name != "" {
		return s.delete(r, o)
	}
	which, err := listOptions(req.URL.Query())
	if err != nil {
		return nil, err
	}
	found, _, err := s.list(r, which)
	for _, one := range found {
		of := r
		of.namespace, of.name = one.GetNamespace(), one.GetName()
		if _, failed := s.delete(of, o); failed != nil && !apierrors.IsNotFound(failed) {
			err = errors.Join(err, failed)
		}
	}
	return &metav1.Status{Status: metav1.StatusSuccess}, err
}

// watch sends events until the request ends or its timeout expires.
func (s *Server) watch(req *http.Request, r request) *http.Response {
	o, err := listOptions(req.URL.Query())
	if err != nil {
		return errorResponse(req, err)
	}
	w, end, err := s.Store.watch(r, o)
	if err != nil {
		return errorResponse(req, err)
	}
	ctx, cancel := req.Context(), context.CancelFunc(func() {})
	if o.TimeoutSeconds != nil {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(*o.TimeoutSeconds)*time.Second)
	}
	return response(req, http.StatusOK, &stream{watcher: w, ctx: ctx, end: func() { cancel(); end() }})
}

// A stream is the answer's body to a watch. Its reader encodes the events, so that an open watch has no
// goroutine of its own.
type stream struct {
	*watcher
	ctx  context.Context
	end  func()
	once sync.Once

	pending []event
	encoded bytes.Buffer
}

func (s *stream) Read(p []byte) (int, error) {
	for s.encoded.Len() == 0 {
		if len(s.pending) == 0 {
			s.pending = s.take()
		}
		if len(s.pending) > 0 {
			next := s.pending[0]
			s.pending = s.pending[1:]
			s.encoded.Reset()
			if err := json.NewEncoder(&s.encoded).Encode(next); err != nil {
				return 0, err
			}
			continue
		}
		select {
		case <-s.wake:
		case <-s.ctx.Done():
			return 0, io.EOF
		}
	}
	return s.encoded.Read(p)
}

func (s *stream) Close() error {
	s.once.Do(s.end)
	return nil
}

// proxy passes a request to its node.
func (s *Server) proxy(req *http.Request) *http.Response {
	w := &responseRecorder{header: http.Header{}, code: http.StatusOK}
	s.Proxy.ServeHTTP(w, req)
	answer := response(req, w.code, io.NopCloser(&w.body))
	answer.Header = w.header
	return answer
}

// responseRecorder records a handler's response.
type responseRecorder struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (r *responseRecorder) Header() http.Header         { return r.header }
func (r *responseRecorder) Write(p []byte) (int, error) { return r.body.Write(p) }
func (r *responseRecorder) WriteHeader(code int)        { r.code = code }
func (r *responseRecorder) Flush()                      {}

func jsonResponse(req *http.Request, code int, answer any) *http.Response {
	encoded, err := json.Marshal(answer)
	if err != nil {
		return errorResponse(req, err)
	}
	return response(req, code, io.NopCloser(bytes.NewReader(encoded)))
}

func errorResponse(req *http.Request, err error) *http.Response {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	s := status.Status()
	s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	encoded, err := json.Marshal(s)
	if err != nil {
		encoded = []byte(`{"apiVersion":"v1","kind":"Status","status":"Failure","code":500}`)
	}
	return response(req, int(s.Code), io.NopCloser(bytes.NewReader(encoded)))
}

func response(req *http.Request, code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}}, Body: body, ContentLength: -1, Request: req,
	}
}
