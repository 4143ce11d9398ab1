package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime/logs"
	"github.com/podsync/podsync/syncpod/loop"
)

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"pods", `unexpected argument "pods": a command precedes all flags`},
		{"-bogus", "not defined: -bogus"},
		{"-o yaml", "-o yaml: want json"},
		{"-runtime unix:///run/x.sock", "-manifests is missing"},
		{"-runtime memori -manifests m", "-runtime memori: want memory, or an endpoint"},
		{"-drain=perhaps", "-drain"},
		{"-page 8080", "-page 8080: want an address and a port"},
		{"-page 0.0.0.0:8080", "-page 0.0.0.0:8080: want a loopback address, such as 127.0.0.1:8080"},
		{"-page :8080", "want a loopback address"},
		{"-page localhost.example:8080", "want a loopback address"},
		{"-page 127.0.0.1:65536", "-page 127.0.0.1:65536: want an address and a port"},
		{"-tls-cert c", "-tls-cert c: it needs -serve with an address such as https://:10250"},
		{"-serve :10250", "-serve :10250: want an endpoint"},
		{"-serve https://:10250 -tls-cert c -tls-key k", "-tls-ca is missing"},
		{"-container-log-max-size ten", "-container-log-max-size ten: want a size above 0, such as 10Mi"},
		{"-container-log-max-size -1Mi", "-container-log-max-size -1Mi: want a size above 0"},
		{"-container-log-max-size 0 -container-log-max-files 3", "-container-log-max-size 0: want a size above 0"},
		{"-container-log-max-files 1", "-container-log-max-files 1: want 2 files or more"},
		{"-container-log-max-files -4", "-container-log-max-files -4: want 2 files or more"},
		{"-owner a/b", "-owner a/b: want up to 63 letters"},
		{"-node Edge_7", "-node Edge_7: want lower-case letters"},
		{"-manifest m", "not defined: -manifest; did you mean -manifests?"},
	} {
		_, err := parse(strings.Fields(tt.args), io.Discard)
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasSuffix(err.Error(), seeHelp) || exitCode(err) != exitUsage {
			t.Errorf("%s: exit code %d, %v", tt.args, exitCode(err), err)
		}
	}
}

// Errors of the library are in the words of the flags, and a folder that cannot be written is no surprise later.
func TestRunRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ flag, value, want string }{
		{"-record", file, "-record: mkdir " + file + ": not a directory"},
		{"-cgroups", "edge", "-cgroups edge: the runtime's cgroup driver is systemd, and nodeagent supports cgroupfs only\nWithout -cgroups the runtime creates the cgroups."},
		{"-serve", "unix://" + file, "-serve unix://" + file + ": " + file + " is there and no socket\n"},
	} {
		a := startAgent(t, tt.flag, tt.value)
		err := <-a.ended
		if said, readErr := os.ReadFile(a.out); err == nil || !strings.HasPrefix(err.Error(), tt.want) || readErr != nil || strings.Contains(string(said), "context") {
			t.Errorf("%s %s: %v\n%s\nwant %s", tt.flag, tt.value, err, said, tt.want)
		}
	}
}

// Logs are rotated as by a kubelet, unless the flags say otherwise.
func TestParseRotation(t *testing.T) {
	for args, want := range map[string]logs.RotationPolicy{
		"":                              {},
		"-container-log-max-size 1.5Mi": {MaxSize: 3 << 19},
		"-container-log-max-files 7":    {MaxFiles: 7},
		"-container-log-max-size 1Ki -container-log-max-files 2": {MaxSize: 1024, MaxFiles: 2},
	} {
		o, err := parse(strings.Fields(args), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		o.discard()
		if got, err := o.logs.policy(); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", args, got, err, want)
		}
	}
}

func TestParseHelp(t *testing.T) {
	var help bytes.Buffer
	if _, err := parse([]string{"-h"}, &help); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("got %v", err)
	}
	for _, want := range []string{"nodeagent COMMAND [-serve ENDPOINT]", serveVariable, "\n  get           print", "\n  port-forward  forward", "Ctrl-C", "-manifests folder", "-runtime endpoint", "-drain", "-root", "-pod-logs", "-node", "-owner name", "-cgroups cgroup", "-container-log-max-size size", "-container-log-max-files number", "-o "} {
		if !strings.Contains(help.String(), want) {
			t.Errorf("help lacks %s:\n%s", want, &help)
		}
	}
}

// Without arguments the agent uses the samples in a temporary folder.
func TestParseNothing(t *testing.T) {
	o, err := parse(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer o.discard()
	files, _ := filepath.Glob(filepath.Join(o.manifests, "*.yaml"))
	if len(files) != 4 || !strings.HasPrefix(o.manifests, o.scratch) || !strings.HasPrefix(o.podLogs, o.scratch) || o.node == "" || o.node != strings.ToLower(o.node) {
		t.Errorf("options are %+v, with the files %v", o, files)
	}
	o.discard()
	if _, err := os.Stat(o.root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder stays: %v", err)
	}
}

func TestParsePaths(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	o, err := parse(strings.Fields("-runtime unix:///run/x.sock -manifests m -create-manifests -root r -pod-logs l -node edge-7 -owner second -o json -drain"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	want := options{
		manifests: filepath.Join(here, "m"), root: filepath.Join(here, "r"), podLogs: filepath.Join(here, "l"),
		runtime: "unix:///run/x.sock", node: "edge-7", owner: "second", output: "json", drain: true, createManifests: true,
	}
	if o != want {
		t.Errorf("options are %+v", o)
	}
	for _, dir := range []string{o.manifests, o.root, o.podLogs} {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			t.Errorf("%s: %v", dir, err)
		}
	}
	o.discard()
	if _, err := os.Stat(o.root); err != nil {
		t.Errorf("a folder that was given is removed: %v", err)
	}
}

// If one folder cannot be created, the temporary folder is removed.
func TestParseLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := parse([]string{"-manifests", filepath.Join(file, "m")}, io.Discard); exitCode(err) != exitOther || !strings.Contains(err.Error(), "-manifests: stat "+file) {
		t.Errorf("exit code %d, %v", exitCode(err), err)
	}
	if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
		t.Errorf("%v is left, want nothing", left)
	}
}

// A missing folder of manifests is an error: created, it would be empty, and an empty folder has no pods.
func TestParseWantsTheManifests(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	missing := filepath.Join(t.TempDir(), "manifest")
	_, err := parse([]string{"-manifests", missing}, io.Discard)
	if exitCode(err) != exitUsage || !strings.Contains(err.Error(), "no folder "+missing) || !strings.Contains(err.Error(), "-create-manifests") {
		t.Errorf("exit code %d, %v", exitCode(err), err)
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("the folder was created")
	}
	o, err := parse([]string{"-manifests", missing, "-create-manifests"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	o.discard()
	if _, err := os.Stat(missing); err != nil {
		t.Error(err)
	}
}

func TestFarewell(t *testing.T) {
	inMemory, real := options{runtime: memory}, options{runtime: "unix:///run/x.sock", drain: true}
	leaving := options{runtime: "unix:///run/x.sock"}
	for got, want := range map[string]string{
		inMemory.farewell(0, 0): "No pod of the folder runs.",
		inMemory.farewell(1, 0): "Detached from 1 running pod. The runtime in memory ends",
		real.farewell(2, 0):     "Detached from 2 running pods. The next agent takes over",
		real.farewell(2, 9):     "Detached from 2 running pods and 9 pods without a running container. The next agent takes over",
		real.farewell(0, 1):     "Detached from 1 pod without a running container. The next agent takes over",
		inMemory.atEnd():        "with it the runtime in memory and its pods",
		leaving.atEnd():         "leaves the pods",
		real.atEnd():            "stops the pods",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A pod in back-off does not count as running.
func TestRunningPods(t *testing.T) {
	of := func(phase podworkers.Phase, containers ...v1.ContainerStatus) loop.Pod {
		return loop.Pod{Phase: phase, Status: v1.PodStatus{ContainerStatuses: containers}}
	}
	runs, waits := container("app", isRunning()), container("app", v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}})
	initializing := loop.Pod{Status: v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{runs}, ContainerStatuses: []v1.ContainerStatus{waits}}}
	running, waiting := running([]loop.Pod{of(0, runs, waits), of(0, waits), of(0), initializing, of(podworkers.Terminating, runs), of(podworkers.Terminated, waits)})
	if running != 3 || waiting != 2 {
		t.Errorf("%d run and %d wait, want 3 and 2", running, waiting)
	}
}
