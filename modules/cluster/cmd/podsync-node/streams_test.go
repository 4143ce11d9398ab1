//go:build linux

package main

import (
	"net/http"
	"testing"
)

// TestDebuggingHandlersAreOff: the server honours enableDebuggingHandlers of the configuration: it then serves no exec,
// attach, port-forward or log.
func TestDebuggingHandlersAreOff(t *testing.T) {
	n := newTarget(t, "enableDebuggingHandlers: false")
	for _, path := range []string{
		"/exec/default/web-n1/app?command=true&output=1", "/attach/default/web-n1/app?output=1", "/portForward/default/web-n1?port=80", "/containerLogs/default/web-n1/app",
	} {
		code, text, err := n.ask("127.0.0.1", "good-ann", path)
		if err != nil || code != http.StatusMethodNotAllowed || text != "Debug endpoints are disabled.\n" {
			t.Errorf("%s: %d %q %v, want it disabled", path, code, text, err)
		}
	}
}

// TestIdleStreamsOfTheNodeEnd: the server honours streamingConnectionIdleTimeout of the configuration. The default is
// four hours.
func TestIdleStreamsOfTheNodeEnd(t *testing.T) {
	n := newTarget(t, "streamingConnectionIdleTimeout: 300ms")
	code, text, err := n.ask("127.0.0.1", "good-ann", "/containerLogs/default/web-n1/quiet?follow=true")
	if err != nil || code != http.StatusOK || text != "once\n" {
		t.Errorf("the log of a silent container: %d %q %v, want its line and the end", code, text, err)
	}
}
