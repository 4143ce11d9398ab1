package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// transport is a function that is an http.RoundTripper.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A request at the port and one through the port as a proxy reach the agent. The agent receives nothing but GET requests.
func TestHandler(t *testing.T) {
	h := handler(&url.URL{Scheme: "https", Host: "n1:10250"}, transport(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(r.Method + " " + r.URL.String()))}, nil
	}))
	for _, tc := range []struct {
		method, url, body string
		code              int
	}{
		{http.MethodGet, "/metrics", "GET https://n1:10250/metrics", http.StatusOK},
		{http.MethodGet, "http://0.0.0.0:0/stats/summary?only_cpu_and_memory=true", "GET https://n1:10250/stats/summary?only_cpu_and_memory=true", http.StatusOK},
		{http.MethodPost, "/run/a/b/c", "the read-only port serves GET requests\n", http.StatusMethodNotAllowed},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(tc.method, tc.url, nil))
		if w.Code != tc.code || w.Body.String() != tc.body {
			t.Errorf("%s %s: %d %q, want %d %q", tc.method, tc.url, w.Code, w.Body, tc.code, tc.body)
		}
	}
}
