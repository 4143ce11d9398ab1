package devices

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// wsaConnRefused is Windows' code for a refused connection, which differs from syscall.ECONNREFUSED there.
const wsaConnRefused = syscall.Errno(10061)

// serve registers plugins until ctx ends.
func (m *Manager) serve(ctx context.Context) error {
	listener, err := m.listen(ctx)
	if err != nil && ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("devices: Config.Directory: %w", err)
	}
	server := newServer()
	pluginapi.RegisterRegistrationServer(server, registration{m: m, ctx: ctx})
	stopped := context.AfterFunc(ctx, server.Stop)
	defer stopped()
	defer server.Stop()
	if err := server.Serve(&boundedListener{Listener: listener}); ctx.Err() == nil {
		return fmt.Errorf("devices: plugins cannot register: %w", err)
	}
	return nil
}

// listen creates the manager's socket. It removes all other sockets in the directory: plugins take that for a kubelet
// restart, and register again.
func (m *Manager) listen(ctx context.Context) (net.Listener, error) {
	dir := m.config.Directory
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, socketName)
	if err := notServed(ctx, path); err != nil { // before its plugins see their sockets removed
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Type()&os.ModeSocket != 0 {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	if err != nil {
		return nil, err
	}
	return ListenUnix(ctx, path)
}

// ListenUnix listens at a Unix socket. It creates the directory with mode 0750, and replaces a socket that an earlier
// agent has left. It returns an error if a process serves the socket, or if the file is not a socket.
func ListenUnix(ctx context.Context, path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, err
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket == 0 {
		return nil, fmt.Errorf("%s is not a socket", path)
	}
	if err := notServed(ctx, path); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return (&net.ListenConfig{}).Listen(ctx, "unix", path)
}

// notServed returns nil only if it is certain that no process serves the socket: a busy server may refuse a connection.
func notServed(ctx context.Context, path string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		return errors.Join(fmt.Errorf("%s is served by a kubelet or another agent", path), conn.Close())
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, wsaConnRefused):
		return nil
	}
	return fmt.Errorf("check whether a process serves %s: %w", path, err)
}

// registration is the registration service at the manager's socket.
type registration struct {
	pluginapi.UnimplementedRegistrationServer
	m *Manager
	// ctx ends with the manager, and ends the connections to plugins.
	ctx context.Context
}

// Register connects to the plugin. It replaces an earlier plugin of the same resource.
func (r registration) Register(ctx context.Context, req *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	if !r.m.registrations.Allow() { // without a line in the log, which plugins could fill
		return nil, status.Errorf(codes.ResourceExhausted, "more than %d registrations, and then one in %v, are too many", registrationBurst, pause)
	}
	err := checkRegistration(req)
	if err == nil {
		err = r.m.connect(r.ctx, ctx, req)
	}
	if err != nil {
		r.m.config.Log.Error(err, "a device plugin cannot register", "resource", req.GetResourceName())
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return &pluginapi.Empty{}, nil
}

// checkRegistration validates a registration.
func checkRegistration(req *pluginapi.RegisterRequest) error {
	switch endpoint := req.GetEndpoint(); {
	case !slices.Contains(pluginapi.SupportedVersions[:], req.GetVersion()):
		return fmt.Errorf("version is %.100q: only %v is spoken", req.GetVersion(), pluginapi.SupportedVersions)
	case endpoint == "" || endpoint == "." || endpoint == ".." || endpoint == socketName || strings.ContainsAny(endpoint, "/\\\x00"):
		return fmt.Errorf("endpoint is %.100q: it must be the name of a socket in the directory of plugins", endpoint)
	}
	return checkResource(req.GetResourceName())
}

// checkResource returns an error unless the name is a valid extended resource name.
func checkResource(name string) error {
	if !strings.Contains(name, "/") || strings.Contains(name, v1.ResourceDefaultNamespacePrefix) || strings.HasPrefix(name, v1.DefaultResourceRequestsPrefix) {
		return fmt.Errorf("resource_name is %.400q: want the domain of a vendor before a slash", name)
	}
	if faults := validation.IsQualifiedName(v1.DefaultResourceRequestsPrefix + name); len(faults) > 0 {
		return fmt.Errorf("resource_name is %.400q: %s", name, strings.Join(faults, "; "))
	}
	return nil
}
