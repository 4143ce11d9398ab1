package csi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/podsync/podsync/modules/csi/registration"
)

// registerPause is the pause before a driver of Config.Drivers that does not answer is tried again.
const registerPause = 10 * time.Second

// register registers drivers until ctx ends. Each driver has a socket in the directory plugins_registry, which returns
// the driver's name and endpoint.
func (m *Manager) register(ctx context.Context) error {
	w := registration.Watcher{
		Directory: filepath.Join(m.layout.root, registryDir), Root: m.layout.root, Type: registerapi.CSIPlugin,
		Register: m.connect, Removed: m.removeDriver, Log: m.config.Log,
	}
	if err := w.Run(ctx); err != nil {
		return fmt.Errorf("csi: %w", err)
	}
	return nil
}

// connect connects to the socket at which a driver serves, and registers the driver.
func (m *Manager) connect(ctx context.Context, p registration.Plugin) error {
	if err := checkDriver(p.Name); err != nil {
		return err
	}
	if !slices.ContainsFunc(p.Versions, func(v string) bool { return strings.HasPrefix(strings.TrimPrefix(v, "v"), "1.") }) {
		return fmt.Errorf("driver %s supports none of the versions 1.x of CSI", p.Name)
	}
	conn, err := registration.Dial(p.Endpoint, maxAnswer)
	if err != nil {
		return err
	}
	d, err := queryDriver(ctx, p.Name, conn)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	d.socket, d.close = p.Socket, conn.Close
	m.addDriver(d)
	return nil
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
