package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// nodeagent drain stops the pods, with its progress, and ends the agent with success. Beyond its timeout it fails, and the agent
// does not end.
func TestDrainOfARunningAgent(t *testing.T) {
	a := startAgent(t) // -serve has a default on the runtime in memory
	socket := filepath.Join(filepath.Dir(a.manifests), "agent.sock")
	for name, grace := range map[string]string{"slow": "5", "web": "2"} {
		text := "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec:\n  terminationGracePeriodSeconds: " + grace +
			"\n  containers: [{name: app, image: registry.test/app:1, command: [sh, -c, \"trap '' TERM; while true; do sleep 0.05; done\"]}]\n"
		if err := os.WriteFile(filepath.Join(a.manifests, name+".yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a.says("Pod", "Running", "slow-n1")
	a.says("Pod", "Running", "web-n1")
	l := &invocation{serve: "unix://" + socket}
	resp, err := l.get(t.Context(), "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(text), "\nkubelet_running_pods 2\n") {
		t.Errorf("metrics over the socket: %v %s", err, text)
	}
	var out heard
	drain := func(args ...string) error {
		return runCommand(t.Context(), append([]string{"drain", "-serve", "unix://" + socket}, args...), console{nil, &out, &out})
	}
	if err := drain("-timeout", "100ms"); err == nil || !strings.Contains(err.Error(), "goes on stopping the pods") {
		t.Errorf("before the pods could stop: %v, %s", err, out.String())
	}
	select {
	case err := <-a.ended:
		t.Fatalf("the agent has ended: %v", err)
	default:
	}
	if err := drain(); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"1 pod to stop: slow-n1", drainedLine} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the progress does not have %q: %s", want, out.String())
		}
	}
	select {
	case err := <-a.ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the agent does not end")
	}
	a.says("No pod of the folder runs.")
}

// The unit has flags that the agent accepts, and systemd accepts the unit, where there is one.
func TestUnit(t *testing.T) {
	unit, err := os.ReadFile("nodeagent.service")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindStringSubmatch(strings.ReplaceAll(string(unit), "\\\n", " "))
	if command == nil {
		t.Fatal("no ExecStart")
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "etc/pods"), 0o755); err != nil {
		t.Fatal(err)
	}
	args := strings.Fields(strings.NewReplacer("=/etc", "="+dir+"/etc", "=/var", "="+dir+"/var").Replace(command[1]))
	o, err := parse(args[1:], io.Discard)
	if err != nil || o.serve != "unix://"+defaultServe || o.root != filepath.Join(dir, defaultRoot) || o.podLogs != filepath.Join(dir, defaultPodLogs) {
		t.Errorf("%+v: %v", o, err)
	}
	for _, want := range []string{"\nRestart=on-failure\n", "\nKillMode=process\n", "\nRestartPreventExitStatus=2\n"} {
		if !strings.Contains(string(unit), want) {
			t.Errorf("the unit does not have %q", want)
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is missing, so systemd's own check is left out")
		return
	}
	program := filepath.Join(dir, "nodeagent")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "nodeagent.service")
	if err := os.WriteFile(copied, []byte(strings.Replace(string(unit), "/usr/local/bin/nodeagent", program, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	said, err := exec.CommandContext(ctx, analyze, "verify", "--man=no", copied).CombinedOutput()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Skip("systemd-analyze does not answer")
	}
	if strings.Contains(string(said), "nodeagent.service:") {
		t.Errorf("systemd-analyze: %v %s", err, said)
	}
}
