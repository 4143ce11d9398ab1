// Package registration registers plugins of a node by their sockets in a directory, with the protocol of a kubelet's plugin
// watcher: CSI drivers, and drivers of dynamic resource allocation.
//
//	w := registration.Watcher{Directory: root + "/plugins_registry", Root: root, Type: registerapi.CSIPlugin, Register: connect, Removed: disconnect}
//	err := w.Run(ctx)
package registration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/podsync/podsync/runtime/foreign"
)

const (
	// registerTimeout is the timeout of the registration calls to a socket.
	registerTimeout = 10 * time.Second
	// scanPause is the interval between reads of the directory. With a shorter one, these reads would be most of the work of
	// an idle node.
	scanPause = 5 * time.Second
	// registerPause is the pause before a socket that failed to register is tried again.
	registerPause = 10 * time.Second
	// maxSockets is the maximum number of sockets in the directory; further ones are ignored. maxCalling is the number of
	// sockets that are called at the same time.
	maxSockets, maxCalling = 256, 16
	// maxEntries is the maximum number of names that are read of the directory.
	maxEntries = 64 << 10
	// maxSocketPath is the maximum length of the path of a Unix socket.
	maxSocketPath = 107
	// maxInfo is the maximum size of a registering plugin's answer in bytes, maxHeaders of the headers of an answer, and window of
	// the data in flight. maxText is the maximum length of a plugin's text in an error.
	maxInfo, maxHeaders, window, maxText = 1 << 20, 16 << 10, 64 << 10, 1024
	dirMode                              = 0o750
)

// A Watcher registers the plugins of one type. It ignores those of other types, for which another Watcher may watch the same
// directory. All fields but Log are required.
type Watcher struct {
	// Directory is the absolute path of the directory of the registration sockets. It is created if missing.
	Directory string
	// Root is the absolute path of the directory below which plugins must serve.
	Root string
	// Type is the type of the plugins, such as registerapi.CSIPlugin.
	Type string
	// Register registers a plugin. Its error is the answer to the plugin, which is tried again after 10 s. It must return when
	// ctx ends, and is called concurrently for different sockets.
	Register func(ctx context.Context, p Plugin) error
	// Removed is called when the registration socket of a registered plugin has disappeared or was replaced.
	Removed func(socket string)
	// Log receives a line for each plugin that cannot register. Default: no log.
	Log logr.Logger
}

// A Plugin is a plugin that registers. Its fields except Socket and Endpoint come from the plugin.
type Plugin struct {
	// Socket is the registration socket, and Endpoint the socket at which the plugin serves.
	Socket, Endpoint string
	// Name is the plugin's name. It may contain anything.
	Name string
	// Versions are the versions or services that the plugin supports.
	Versions []string
}

// Run registers plugins until ctx ends, and returns when all its calls have returned.
func (w *Watcher) Run(ctx context.Context) error {
	if err := os.MkdirAll(w.Directory, dirMode); err != nil {
		return fmt.Errorf("plugins cannot register: %w", err)
	}
	known := &registry{sockets: map[string]fs.FileInfo{}, calling: map[string]fs.FileInfo{}, lastTry: map[string]time.Time{}, answers: make(chan registered)}
	ticker := time.NewTicker(scanPause)
	defer ticker.Stop()
	for {
		w.scan(ctx, known)
		select {
		case <-ctx.Done():
			for range known.calling {
				<-known.answers
			}
			return nil
		case answer := <-known.answers:
			w.registered(answer, known)
		case <-ticker.C:
		}
	}
}

// A registry is the state of the sockets in the directory.
type registry struct {
	// sockets have registered. calling are the sockets with a registration call in progress.
	sockets, calling map[string]fs.FileInfo
	// lastTry is the time of the last call to each socket that has not registered.
	lastTry map[string]time.Time
	answers chan registered
}

// A registered is a registration call's result.
type registered struct {
	socket string
	err    error
}

// scan calls new sockets, and drops plugins whose socket has disappeared. A socket that was replaced counts as new. Few
// sockets are called at a time, the longest waiting ones first, so that sockets that do not answer delay others little.
func (w *Watcher) scan(ctx context.Context, known *registry) {
	sockets := socketsIn(w.Directory)
	for path, info := range known.sockets {
		if !isSame(sockets[path], info) {
			w.Removed(path)
			delete(known.sockets, path)
		}
	}
	maps.DeleteFunc(known.lastTry, func(path string, _ time.Time) bool { return sockets[path] == nil })
	for _, path := range known.due(sockets, time.Now()) {
		known.calling[path] = sockets[path]
		go func() { known.answers <- registered{path, w.registerSocket(ctx, path)} }()
	}
}

// due returns the sockets to call now.
func (r *registry) due(sockets map[string]fs.FileInfo, now time.Time) []string {
	var due []string
	for path := range sockets {
		last, tried := r.lastTry[path]
		if r.sockets[path] == nil && r.calling[path] == nil && (!tried || now.Sub(last) >= registerPause) {
			due = append(due, path)
		}
	}
	slices.SortFunc(due, func(a, b string) int { return cmp.Or(r.lastTry[a].Compare(r.lastTry[b]), cmp.Compare(a, b)) })
	return due[:min(len(due), maxCalling-len(r.calling))]
}

// registered records a registration call's result. If the socket was replaced during the call, the next scan drops the
// plugin.
func (w *Watcher) registered(answer registered, known *registry) {
	info := known.calling[answer.socket]
	delete(known.calling, answer.socket)
	if answer.err == nil {
		known.sockets[answer.socket] = info
		delete(known.lastTry, answer.socket)
		return
	}
	known.lastTry[answer.socket] = time.Now()
	w.Log.Error(answer.err, "a plugin cannot register", "type", w.Type, "socket", filepath.Base(answer.socket))
}

// isSame reports whether a socket is still the same file.
func isSame(now, before fs.FileInfo) bool {
	return now != nil && os.SameFile(now, before) && now.ModTime().Equal(before.ModTime())
}

// socketsIn returns the sockets in a directory.
func socketsIn(dir string) map[string]fs.FileInfo {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	found := map[string]fs.FileInfo{}
	for range maxEntries / maxSockets { // other files must not hide the sockets
		entries, err := f.ReadDir(maxSockets)
		for _, e := range entries { // those that cannot be read count as missing
			if strings.HasPrefix(e.Name(), ".") || e.Type()&fs.ModeSocket == 0 {
				continue
			}
			if info, err := e.Info(); err == nil {
				found[filepath.Join(dir, e.Name())] = info
			}
			if len(found) == maxSockets {
				return found
			}
		}
		if err != nil {
			break
		}
	}
	return found
}

// registerSocket asks the plugin at a socket for its name, and registers it. Plugins of other types are ignored.
func (w *Watcher) registerSocket(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	if len(path) > maxSocketPath {
		return fmt.Errorf("the path of the socket has %d bytes, more than %d", len(path), maxSocketPath)
	}
	conn, err := Dial(path, maxInfo)
	if err != nil {
		return err
	}
	defer conn.Close()
	client := registerapi.NewRegistrationClient(conn)
	info, err := client.GetInfo(ctx, &registerapi.InfoRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("GetInfo: %w", shorten(err))
	}
	if info.GetType() != w.Type {
		return nil
	}
	answer := &registerapi.RegistrationStatus{PluginRegistered: true}
	failed := w.register(ctx, path, info)
	if failed != nil {
		answer = &registerapi.RegistrationStatus{Error: failed.Error()}
	}
	_, err = client.NotifyRegistrationStatus(ctx, answer)
	if failed == nil && err != nil {
		w.Log.Info("a plugin does not accept the confirmation of its registration", "type", w.Type, "name", foreign.Cut(info.GetName(), maxText), "error", shorten(err).Error())
	}
	return failed
}

// register registers a plugin that has answered.
func (w *Watcher) register(ctx context.Context, socket string, info *registerapi.PluginInfo) error {
	path, err := w.endpoint(socket, info.GetEndpoint())
	if err != nil {
		return fmt.Errorf("plugin %.200q: endpoint %.200q: %w", info.GetName(), info.GetEndpoint(), err)
	}
	return w.Register(ctx, Plugin{Socket: socket, Endpoint: path, Name: info.GetName(), Versions: info.GetSupportedVersions()})
}

// endpoint returns a plugin's socket path, which must be below the root. An empty endpoint means the
// registration socket itself.
func (w *Watcher) endpoint(socket, endpoint string) (string, error) {
	if endpoint == "" {
		return socket, nil
	}
	endpoint = strings.TrimPrefix(endpoint, "unix://")
	if !filepath.IsAbs(endpoint) || len(endpoint) > maxSocketPath {
		return "", fmt.Errorf("want an absolute path of at most %d bytes", maxSocketPath)
	}
	path, err := filepath.EvalSymlinks(endpoint)
	if err != nil {
		return "", err
	}
	if rel, err := filepath.Rel(w.Root, path); err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", fmt.Errorf("the socket must be below %s", w.Root)
	}
	info, err := os.Lstat(path)
	if err == nil && info.Mode()&fs.ModeSocket == 0 {
		err = errors.New("it is not a socket")
	}
	return path, err
}

// Dial connects to a plugin's socket. Answers have at most maxAnswer bytes, and their headers, which contain errors, 16 KiB.
func Dial(path string, maxAnswer int) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)), grpc.WithMaxHeaderListSize(maxHeaders),
		grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}))
}

// A shortened is an error of a plugin with a truncated text.
type shortened struct {
	text string
	error
}

func (s shortened) Error() string { return s.text }
func (s shortened) Unwrap() error { return s.error }

// shorten bounds and escapes a plugin's error text, because the plugin chooses the text.
func shorten(err error) error { return shortened{foreign.Cut(err.Error(), maxText), err} }
