package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// heard is the output of a command. It may be read while the command runs.
type heard struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (h *heard) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(b)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}

const webManifest = `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  initContainers:
  - {name: first, image: registry.test/app:1, command: [sh, -c, "exit 0"]}
  containers:
  - {name: app, image: registry.test/app:1, command: [sh, -c, "echo one; echo two; while true; do sleep 0.05; test -e /go && echo go && rm /go; done"]}
  - {name: other, image: registry.test/app:1, command: [sh, -c, "echo of the other; sleep infinity"]}
`

// TestLook inspects an agent with each command.
func TestLook(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	a := startAgent(t, "-serve", "unix://"+socket)
	if err := os.WriteFile(filepath.Join(a.manifests, "web.yaml"), []byte(webManifest), 0o600); err != nil {
		t.Fatal(err)
	}
	// do runs a command with an input, and returns its output.
	do := func(in string, args ...string) (string, error) {
		input, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer input.Close()
		_, err = io.WriteString(w, in)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		var out heard
		err = runCommand(t.Context(), append([]string{args[0], "-serve", "unix://" + socket}, args[1:]...), console{input, &out, &out})
		return out.String(), err
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if got, err := do("", "logs", "web-n1", "-c", "other"); err == nil && got == "of the other\n" {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("%q, %v", got, err)
		}
	}
	for _, tt := range []struct {
		in   string
		args []string
		want string // the output, and then the error, if there is one
	}{
		{"", []string{"get", "web"}, "pod \"default/web\" does not exist\nDid you mean web-n1?"},
		{"", []string{"get", "-o", "xml"}, "-o xml: want json or yaml"},
		{"", []string{"get", "-h"}, "Usage: nodeagent get [-serve ENDPOINT] [-A] [-o json|yaml] [[NAMESPACE/]POD]\n"},
		{"", []string{"gett", "web-n1"}, `unknown command "gett"` + "\nDid you mean get? " + seeHelp},
		{"", []string{"describe", "web-n1"}, "The commands are get, explain, logs,"},
		{"", []string{"logs", "web-n1"}, "Defaulted container \"app\" out of: app, other, first (init)\none\ntwo\n"},
		{"", []string{"logs", "web-n2"}, "pod \"default/web-n2\" does not exist\nDid you mean web-n1?"},
		{"", []string{"logs", "prod/web-n1"}, "pod \"prod/web-n1\" does not exist\nDid you mean default/web-n1?"},
		{"", []string{"logs", "-h"}, "\n  -c container\n"},
		{"", []string{"logs", "web-n1", "app"}, `unexpected argument "app" after the pod`},
		{"", []string{"logs", "default/web-n1", "-c", "app", "-tail", "1"}, "two\n"},
		{"", []string{"logs", "-tai", "1", "web-n1"}, "flag provided but not defined: -tai; did you mean -tail?"},
		{"", []string{"logs", "--previous", "web-n1"}, `previous terminated container "app" in pod "web-n1" not found`},
		{"", []string{"logs", "-p", "web-n1"}, `previous terminated container "app" in pod "web-n1" not found`},
		{"", []string{"logs", "web-n1", "-c", "app", "-tail=-5"}, "one\ntwo\n"},
		{"", []string{"logs", "none"}, `pod "default/none" does not exist`},
		{"", []string{"logs", "web-n1", "-c", "none"}, `container "none" not found in pod "web-n1"`},
		{"", []string{"logs"}, "POD is missing"},
		{"", []string{"logs", "-x", "web-n1"}, "flag provided but not defined: -x"},
		{"", []string{"exec", "web-n1", "-c", "app", "--", "sh", "-c", "echo a; echo b >&2; exit 3"}, "a\nb\ncommand terminated with exit code 3"},
		{"hello", []string{"exec", "-i", "web-n1", "-c", "app", "--", "cat"}, "hello"},
		{"echo a; exit 4\n", []string{"exec", "-it", "web-n1", "-c", "other", "--", "sh"}, "echo a; exit 4\r\na\r\ncommand terminated with exit code 4"},
		{"", []string{"exec", "web-n1", "--", "none"}, "executable file not found"},
		{"", []string{"exec", "web-n1"}, "COMMAND is missing"},
		{"", []string{"attach", "none"}, `pod "default/none" does not exist`},
		{"", []string{"top", "web-n1"}, "NAME      CPU(cores)   MEMORY(bytes)\nweb-n1    30m          3Mi\n  app     10m          1Mi\n  other   10m          1Mi\n"},
		{"", []string{"top", "none"}, `pod "default/none" does not run`},
		{"", []string{"explain", "web-n1"}, `State: syncing.
The pod is as it should be.
Init container "first" is left alone: initialization is over. The runtime reports attempt 0 of it as exited with exit code 0 (Completed); its restart policy is Always.
Container "app" is left alone: it runs as it should. The runtime reports attempt 0 of it as running; its restart policy is Always.
Container "other" is left alone: it runs as it should. The runtime reports attempt 0 of it as running; its restart policy is Always.
`},
		{"", []string{"explain", "none"}, `pod "default/none" does not exist`},
		{"", []string{"explain", "web"}, "pod \"default/web\" does not exist\nDid you mean web-n1?"},
		{"", []string{"timeline", "none"}, `pod "default/none" is not known`},
		{"", []string{"timeline", "-o", "svg"}, "-o svg: want html or trace"},
		{"", []string{"port-forward", "web-n1"}, "PORT is missing"},
		{"", []string{"port-forward", "web-n1", "http"}, `"http" is neither PORT`},
	} {
		got, err := do(tt.in, tt.args...)
		if err != nil {
			got += err.Error()
		}
		if got != tt.want && (err == nil || !strings.Contains(got, tt.want)) {
			t.Errorf("%v: %q, want %q", tt.args, got, tt.want)
		}
	}
	if got, err := do("", "top"); err != nil || !strings.HasPrefix(got, "NAME     CPU(cores)   MEMORY(bytes)\nn1  ") || !strings.HasSuffix(got, "\nweb-n1   30m          3Mi\n") {
		t.Errorf("top: %q, %v", got, err)
	}
	if got, err := do("", "get", "web-n1"); err != nil || !strings.HasPrefix(got, "NAME     READY   STATUS    RESTARTS   AGE\nweb-n1   2/2     Running   0 ") {
		t.Errorf("get: %q, %v", got, err)
	}
	if got, err := do("", "timeline"); err != nil || !strings.HasPrefix(got, "<!DOCTYPE html>") || !strings.Contains(got, `"n":"default/web-n1"`) {
		t.Errorf("timeline: %.200q, %v, want it to begin with %q and %q in it and no error", got, err, "<!DOCTYPE html>", `"n":"default/web-n1"`)
	}
	if got, err := do("", "timeline", "-o", "trace", "web-n1"); err != nil || !json.Valid([]byte(got)) || !strings.Contains(got, `"cat":"sandbox"`) {
		t.Errorf("timeline: %q, %v, want JSON with %q in it", got, err, `"cat":"sandbox"`)
	}
	t.Setenv(serveVariable, "unix://"+socket)
	var out heard
	if err := runCommand(t.Context(), []string{"get", "-o", "json"}, console{nil, &out, &out}); err != nil || !json.Valid(out.text.Bytes()) || !strings.Contains(out.String(), `"name": "web-n1"`) {
		t.Errorf("get with %s: %v, %s", serveVariable, err, &out)
	}
	testPlans(t, a.manifests, do)
	testFollowing(t, socket)
	testForwarding(t, socket)
	a.interrupt()
	if err := <-a.ended; err != nil {
		t.Error(err)
	}
	if _, err := do("", "logs", "web-n1"); err == nil || !strings.Contains(err.Error(), "Does the agent run") {
		t.Errorf("without an agent: %v", err)
	}
}

func TestNearest(t *testing.T) {
	names := []string{"db-n1", "logs", "top", "web-n1", "web-canary-n1"}
	for word, want := range map[string]string{
		"lgs": "logs", "tpo": "top", "log": "logs", "web": "web-canary-n1", "weeb-n1": "web-n1", "web-canary": "web-canary-n1", "db-n2": "db-n1", "describe": "", "": "",
	} {
		if got := nearest(word, names); got != want {
			t.Errorf("nearest(%q) is %q, want %q", word, got, want)
		}
	}
}

// testFollowing follows a log until the context ends.
func testFollowing(t *testing.T, socket string) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- runCommand(ctx, []string{"logs", "-f", "-tail", "0", "-serve", "unix://" + socket, "web-n1"}, console{nil, w, io.Discard})
	}()
	go func() {
		for ctx.Err() == nil { // until the follower is connected
			_ = runCommand(ctx, []string{"exec", "-serve", "unix://" + socket, "web-n1", "--", "touch", "/go"}, console{nil, io.Discard, io.Discard})
			time.Sleep(100 * time.Millisecond)
		}
	}()
	if line, err := bufio.NewReader(r).ReadString('\n'); err != nil || line != "go\n" {
		t.Errorf("%q, %v, want %q and no error", line, err, "go\n")
	}
	cancel()
	r.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// testForwarding forwards a port on which no process listens.
func testForwarding(t *testing.T, socket string) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	var errs heard
	ended := make(chan error, 1)
	go func() {
		ended <- runCommand(ctx, []string{"port-forward", "-serve", "unix://" + socket, "web-n1", "0:80"}, console{nil, w, &errs})
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	var address, remote string
	if _, serr := fmt.Sscanf(line, "Forwarding from %s -> %s", &address, &remote); err != nil || serr != nil || remote != "80" {
		t.Fatalf("%q, %v, %v, want no error and %q and no error", line, err, serr, "80")
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); err != nil {
		t.Error(err)
	}
	conn.Close()
	cancel()
	if err := <-ended; err != nil || !strings.Contains(errs.String(), "connection refused") {
		t.Errorf("%v, %q, want %q in it and no error", err, &errs, "connection refused")
	}
}
