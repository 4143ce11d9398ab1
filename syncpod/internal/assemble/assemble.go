// Package assemble creates the parts of an agent that need a connection to the runtime. A Syncer and a Loop both use
// it, so that no part is configured in two ways.
package assemble

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"github.com/go-logr/logr"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/image"
	podreader "github.com/podsync/podsync/runtime/reader"
	"github.com/podsync/podsync/sandbox/run"
	"github.com/podsync/podsync/syncpod/lifecycle/handler"
)

// Runtime is a connection to a runtime, with the settings that several parts share.
type Runtime struct {
	Client *cri.Client
	// Name is the type in container IDs. Empty means the name that the Client reports.
	Name  string
	Owner cri.Owner
	Log   logr.Logger
	// Root is the directory that the agent writes below, empty for none.
	Root string
	// DialPod connects to pods, nil for a net.Dialer.
	DialPod func(ctx context.Context, network, address string) (net.Conn, error)
}

// CheckClient returns an error for a Client that no function of package cri has made.
func CheckClient(c *cri.Client) error {
	if c != nil && (c.RuntimeServiceClient == nil || c.ImageServiceClient == nil) {
		return errors.New("not connected: make it with cri.Dial or cri.NewClient")
	}
	return nil
}

// RuntimeName returns the type in container IDs.
func (r Runtime) RuntimeName() (string, error) {
	name := cmp.Or(r.Name, r.Client.RuntimeName())
	return name, CheckRuntimeName(name)
}

// CheckRuntimeName returns an error for a name that no container ID can begin with.
func CheckRuntimeName(name string) error {
	switch {
	case name == "":
		return errors.New("RuntimeName is missing: only a Client of cri.Dial knows it; " +
			`it is what the runtime calls itself, such as "containerd" or "cri-o"`)
	case strings.ContainsAny(name, ":/"):
		return fmt.Errorf("RuntimeName %q has a colon or a slash, which end it in a container ID", name)
	}
	return nil
}

// Reader returns a reader of pod statuses.
func (r Runtime) Reader() (*podreader.Reader, error) {
	name, err := r.RuntimeName()
	if err != nil {
		return nil, err
	}
	reader, err := podreader.New(podreader.Config{Runtime: r.Client, RuntimeName: name, Owner: r.Owner})
	return reader, made("a reader of statuses", err)
}

// Sandboxes returns a Runner, which creates, stops and removes sandboxes.
func (r Runtime) Sandboxes() (*run.Runner, error) {
	runner, err := run.New(run.Config{Runtime: r.Client, Owner: r.Owner, Log: r.Log})
	return runner, made("a runner of sandboxes", err)
}

// Images returns a Manager, which ensures that images are present.
func (r Runtime) Images() (*image.Manager, error) {
	c := image.Config{Settings: image.Settings{Runtime: r.Client}, Log: r.Log}
	if r.Root != "" {
		c.Dir = filepath.Join(r.Root, "images")
	}
	manager, err := image.New(c)
	return manager, made("a manager of images", err)
}

// Hooks runs postStart and preStop handlers.
func (r Runtime) Hooks() (*handler.Runner, error) {
	runner, err := handler.New(handler.Config{Exec: r.Client, Dial: r.DialPod})
	return runner, made("a runner of handlers", err)
}

func made(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s of the Client: %w", what, err)
	}
	return nil
}
