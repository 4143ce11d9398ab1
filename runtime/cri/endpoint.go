package cri

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	goruntime "runtime"
	"strings"
)

// maxSocketPath is the longest path for a unix socket. sun_path has 108 bytes on Linux and
// Windows, 104 on the BSDs and macOS; one is the terminating zero.
const maxSocketPath = 103

// endpoint is a runtime's address.
type endpoint struct {
	network string // "unix" or "npipe"
	address string // a path as the operating system writes it
}

// parseEndpoint parses the forms that kubelets and crictl accept. The error describes the
// problem.
func parseEndpoint(s string) (endpoint, error) {
	ep, err := splitEndpoint(s)
	if err != nil {
		return endpoint{}, fmt.Errorf("cri: endpoint %q: %w", s, err)
	}
	return ep, nil
}

func splitEndpoint(s string) (endpoint, error) {
	scheme, rest, hasScheme := strings.Cut(s, "://")
	switch {
	case s == "":
		return endpoint{}, errors.New("is empty; want unix:///path/to/socket")
	case !hasScheme && filepath.IsAbs(s):
		return unixEndpoint(s)
	case !hasScheme:
		return endpoint{}, errors.New("is neither a URL nor an absolute path; want unix:///path/to/socket")
	case scheme == "unix":
		return unixEndpoint(rest)
	case scheme == "npipe":
		return pipeEndpoint(rest, goruntime.GOOS)
	}
	return endpoint{}, fmt.Errorf("the scheme %q is not supported; want unix:// (or npipe:// on Windows)", scheme)
}

func unixEndpoint(path string) (endpoint, error) {
	switch {
	case path == "" || path == "/":
		return endpoint{}, errors.New("names no socket")
	case strings.HasSuffix(path, "/"):
		return endpoint{}, errors.New("names a directory, not a socket")
	case !isAbsSocket(path):
		return endpoint{}, fmt.Errorf("the path %q is not absolute; want unix:/// with three slashes", path)
	case len(path) > maxSocketPath:
		return endpoint{}, fmt.Errorf("the path has %d bytes, a socket's may have %d", len(path), maxSocketPath)
	}
	return endpoint{network: "unix", address: path}, nil
}

// isAbsSocket accepts "/run/x.sock" on every system, and every path that is absolute on this one.
func isAbsSocket(path string) bool { return strings.HasPrefix(path, "/") || filepath.IsAbs(path) }

// pipeEndpoint turns npipe:////./pipe/name into \\.\pipe\name.
func pipeEndpoint(rest, goos string) (endpoint, error) {
	if goos != "windows" {
		return endpoint{}, errors.New("named pipes exist on Windows only")
	}
	u, err := url.Parse("npipe://" + rest)
	if err != nil {
		return endpoint{}, errors.New("is not a URL")
	}
	path := strings.ReplaceAll(u.Host+u.Path, "/", `\`)
	if name, ok := strings.CutPrefix(path, `\\.\pipe\`); !ok || name == "" {
		return endpoint{}, errors.New("want npipe:////./pipe/name")
	}
	return endpoint{network: "npipe", address: path}, nil
}
