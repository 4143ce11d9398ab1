package csi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const (
	// registerTimeout is the registration calls' timeout at a socket.
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
)

// register registers drivers until ctx ends. Each driver has a socket in the directory plugins_registry, which returns
// the driver's name and endpoint.
func (m *Manager) register(ctx context.Context) error {
	dir := filepath.Join(m.layout.root, registryDir)
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return fmt.Errorf("csi: drivers cannot register: %w", err)
	}
	known := &registry{sockets: map[string]fs.FileInfo{}, calling: map[string]fs.FileInfo{}, lastTry: map[string]time.Time{}, answers: make(chan registered)}
	ticker := time.NewTicker(scanPause)
	defer ticker.Stop()
	for {
		m.scan(ctx, dir, known)
		select {
		case <-ctx.Done():
			for range known.calling {
				<-known.answers
			}
			return nil
		case answer := <-known.answers:
			m.registered(answer, known)
		case <-ticker.C:
		}
	}
}

// A registry is the sockets' state in the directory.
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

// scan calls new sockets, and drops drivers whose socket has disappeared. A socket that was replaced counts as new. Few
// sockets are called at a time, the longest waiting ones first, so that sockets that do not answer delay others little.
func (m *Manager) scan(ctx context.Context, dir string, known *registry) {
	sockets := socketsIn(dir)
	for path, info := range known.sockets {
		if !isSame(sockets[path], info) {
			m.removeDriver(path)
			delete(known.sockets, path)
		}
	}
	maps.DeleteFunc(known.lastTry, func(path string, _ time.Time) bool { return sockets[path] == nil })
	for _, path := range known.due(sockets, time.Now()) {
		known.calling[path] = sockets[path]
		go func() { known.answers <- registered{path, m.registerSocket(ctx, path)} }()
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
// driver.
func (m *Manager) registered(answer registered, known *registry) {
	info := known.calling[answer.socket]
	delete(known.calling, answer.socket)
	if answer.err == nil {
		known.sockets[answer.socket] = info
		delete(known.lastTry, answer.socket)
		return
	}
	known.lastTry[answer.socket] = time.Now()
	m.config.Log.Error(answer.err, "a CSI driver cannot register", "socket", filepath.Base(answer.socket))
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

// registerSocket asks the plugin at a socket for its name, and registers it. Plugins that are not CSI drivers are
// ignored.
func (m *Manager) registerSocket(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	if len(path) > maxSocketPath {
		return fmt.Errorf("the path of the socket has %d bytes, more than %d", len(path), maxSocketPath)
	}
	conn, err := dialDriver(path)
	if err != nil {
		return err
	}
	defer conn.Close()
	client := registerapi.NewRegistrationClient(conn)
	info, err := client.GetInfo(ctx, &registerapi.InfoRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return &callError{call: "GetInfo", err: err}
	}
	if info.GetType() != registerapi.CSIPlugin {
		return nil
	}
	answer := &registerapi.RegistrationStatus{PluginRegistered: true}
	failed := m.connect(ctx, path, info)
	if failed != nil {
		answer = &registerapi.RegistrationStatus{Error: failed.Error()}
	}
	_, err = client.NotifyRegistrationStatus(ctx, answer)
	if failed == nil && err != nil {
		m.config.Log.Info("a CSI driver does not accept the confirmation of its registration", "driver", info.GetName(), "error", (&callError{call: "NotifyRegistrationStatus", err: err}).Error())
	}
	return failed
}

// connect connects to the socket at which a driver serves, and registers the driver.
func (m *Manager) connect(ctx context.Context, socket string, info *registerapi.PluginInfo) error {
	if err := checkDriver(info.GetName()); err != nil {
		return err
	}
	if !slices.ContainsFunc(info.GetSupportedVersions(), func(v string) bool { return strings.HasPrefix(strings.TrimPrefix(v, "v"), "1.") }) {
		return fmt.Errorf("driver %s supports none of the versions 1.x of CSI", info.GetName())
	}
	path, err := m.endpoint(socket, info.GetEndpoint())
	if err != nil {
		return fmt.Errorf("driver %s: endpoint %.200q: %w", info.GetName(), info.GetEndpoint(), err)
	}
	conn, err := dialDriver(path)
	if err != nil {
		return err
	}
	d, err := queryDriver(ctx, info.GetName(), conn)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	d.socket, d.close = socket, conn.Close
	m.addDriver(d)
	return nil
}

// endpoint returns a driver's socket path, which must be below the agent's root. An empty endpoint means the
// registration socket itself.
func (m *Manager) endpoint(socket, endpoint string) (string, error) {
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
	if rel, err := filepath.Rel(m.layout.root, path); err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", fmt.Errorf("the socket must be below %s", m.layout.root)
	}
	info, err := os.Lstat(path)
	if err == nil && info.Mode()&fs.ModeSocket == 0 {
		err = errors.New("it is not a socket")
	}
	return path, err
}

// connectConfigured registers a driver of Config.Drivers as soon as it answers.
func (m *Manager) connectConfigured(ctx context.Context, name string, conn grpc.ClientConnInterface) {
	for {
		d, err := queryDriver(ctx, name, conn)
		if err == nil {
			m.addDriver(d)
			return
		}
		m.config.Log.Error(err, "a CSI driver does not answer", "driver", name)
		select {
		case <-ctx.Done():
			return
		case <-time.After(registerPause):
		}
	}
}

// addDriver registers a driver, replaces one of the same name, and starts work on its volumes.
func (m *Manager) addDriver(d *driver) {
	m.mu.Lock()
	if m.running == nil || m.running.Err() != nil {
		m.mu.Unlock()
		_ = d.close() // the error changes nothing
		return
	}
	before := m.drivers[d.name]
	m.drivers[d.name] = d
	m.mu.Unlock()
	if before != nil {
		_ = before.close() // calls in progress fail and are retried
	}
	m.config.Log.Info("CSI driver registered", "driver", d.name, "node", d.info.NodeID)
	m.driversChanged()
}

// removeDriver deregisters the driver that registered at a socket.
func (m *Manager) removeDriver(socket string) {
	m.mu.Lock()
	var left *driver
	for name, d := range m.drivers {
		if d.socket == socket {
			left = d
			delete(m.drivers, name)
		}
	}
	m.mu.Unlock()
	if left == nil {
		return
	}
	_ = left.close() // the error changes nothing
	m.config.Log.Info("CSI driver deregistered", "driver", left.name)
	m.driversChanged()
}

// driversChanged reports the drivers, and starts work on all volumes.
func (m *Manager) driversChanged() {
	infos := m.Drivers()
	m.mu.Lock()
	for id, e := range m.volumes {
		if e.record.Source.Plugin == csiPlugin {
			m.enqueue(id)
		}
	}
	m.mu.Unlock()
	if m.config.Registered != nil {
		m.config.Registered(infos)
	}
}

// Drivers returns the reports of the registered drivers about the node, by name.
func (m *Manager) Drivers() []DriverInfo {
	m.mu.Lock()
	defer m.mu.Unlock()
	var infos []DriverInfo
	for _, name := range slices.Sorted(maps.Keys(m.drivers)) {
		infos = append(infos, m.drivers[name].info)
	}
	return infos
}
