package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestForeignHostIsRefused(t *testing.T) {
	for _, tt := range []struct {
		listen, host string
		ok           bool
	}{
		{"127.0.0.1:8010", "127.0.0.1:8010", true},
		{"127.0.0.1:8010", "localhost:8010", true},
		{"127.0.0.1:8010", "LOCALHOST", true},
		{"[::1]:8010", "[::1]:8010", true},
		{"node1:8010", "node1:8010", true},
		{":8010", "10.0.0.1:8010", true},
		{"127.0.0.1:8010", "evil.example:8010", false},
		{"127.0.0.1:8010", "localhost.evil.example", false},
		{"127.0.0.1:8010", "127.0.0.1.evil.example", false},
		{":8010", "evil.example", false},
		{":8010", "", false},
	} {
		reached := false
		h := ownHost(tt.listen, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
		r := httptest.NewRequest(http.MethodGet, "/pods", nil)
		r.Host = tt.host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if reached != tt.ok || !tt.ok && w.Code != http.StatusMisdirectedRequest {
			t.Errorf("listens to %s, Host %q: %d, want it to pass: %t", tt.listen, tt.host, w.Code, tt.ok)
		}
	}
}
