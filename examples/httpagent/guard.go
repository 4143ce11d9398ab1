package main

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// ownHost accepts only requests whose Host header is the address on which the server listens, an IP address, or
// localhost. Otherwise a page of another site, in a browser on this machine, could send requests to the server under the
// name of that site (DNS rebinding).
func ownHost(listen string, next http.Handler) http.Handler {
	own, _, err := net.SplitHostPort(listen)
	if err != nil {
		own = listen
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		host = strings.Trim(host, "[]")
		_, ipErr := netip.ParseAddr(host)
		if ipErr != nil && !strings.EqualFold(host, "localhost") && (own == "" || !strings.EqualFold(host, own)) {
			http.Error(w, "the Host header names another server", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}
