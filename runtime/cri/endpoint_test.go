package cri

import (
	"strings"
	"testing"
)

func TestParseEndpoint(t *testing.T) {
	for in, want := range map[string]string{
		"unix:///run/containerd/containerd.sock": "/run/containerd/containerd.sock",
		"/run/crio/crio.sock":                    "/run/crio/crio.sock",
		"unix:///a b/c.sock":                     "/a b/c.sock",
	} {
		if got, err := parseEndpoint(in); err != nil || got != (endpoint{"unix", want}) {
			t.Errorf("parseEndpoint(%q) = %v, %v; want unix %q", in, got, err, want)
		}
	}
}

func TestParseEndpointErrors(t *testing.T) {
	for in, want := range map[string]string{
		"":                                    "empty",
		"run/containerd.sock":                 "neither a URL nor an absolute path",
		"unix://run/containerd.sock":          "not absolute",
		"unix://":                             "names no socket",
		"unix:///":                            "names no socket",
		"unix:///run/":                        "names a directory",
		"tcp://127.0.0.1:3735":                `scheme "tcp" is not supported`,
		"unix:///" + strings.Repeat("x", 200): "201 bytes",
	} {
		_, err := parseEndpoint(in)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "endpoint") {
			t.Errorf("parseEndpoint(%q): error %v, want one that says %q", in, err, want)
		}
	}
}

func TestPipeEndpoint(t *testing.T) {
	got, err := pipeEndpoint("//./pipe/containerd-containerd", "windows")
	if want := (endpoint{"npipe", `\\.\pipe\containerd-containerd`}); err != nil || got != want {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	for _, bad := range []string{"", "//./pipe/", "/run/x", "%zz"} {
		if got, err := pipeEndpoint(bad, "windows"); err == nil {
			t.Errorf("pipeEndpoint(%q) = %v, want an error", bad, got)
		}
	}
	if _, err := pipeEndpoint("//./pipe/containerd-containerd", "linux"); err == nil || !strings.Contains(err.Error(), "Windows only") {
		t.Errorf("on linux: %v, want an error and %q in it", err, "Windows only")
	}
}
