package devices

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/podsync/podsync/modules/devices/internal/ledger"
	"github.com/podsync/podsync/syncpod/device"
)

// DefaultDirectory is the directory in which device plugins expect the kubelet's socket.
const DefaultDirectory = "/var/lib/kubelet/device-plugins"

const (
	// socketName is the socket's name at which plugins register.
	socketName = "kubelet.sock"
	// gracePeriod is how long a disconnected plugin's resources are kept.
	gracePeriod = 5 * time.Minute
	// callTimeout is the call timeout to a plugin. It is the kubelet's for PreStartContainer.
	callTimeout = pluginapi.KubeletPreStartContainerRPCTimeoutInSecs * time.Second
	// connectTimeout is the connection's timeout to a plugin that registers.
	connectTimeout = 10 * time.Second
	// waitTimeout is how long a container waits for a device before its start fails and is retried
	// later.
	waitTimeout = 10 * time.Second
	// saveRetryPause is the pause before a failed write of the known resources is retried.
	saveRetryPause = time.Minute
)

// Config configures a Manager.
type Config struct {
	// State is an absolute path of a directory for allocations and known plugins. It is created
	// when it is needed. Required.
	State string
	// Directory is the absolute path of the directory of plugin sockets. It must have no other use:
	// as plugins expect of a kubelet, Run removes all sockets in it, so that plugins register
	// again. It is created if missing. Default DefaultDirectory.
	Directory string
	// PodResourcesCalled, if set, is called after each call of the pod resources API, with its method's full name, such as
	// /v1.PodResourcesLister/List, and its error. It must not block, and may be called concurrently. Calls that are rejected
	// because there are too many are not reported.
	PodResourcesCalled func(method string, err error)
	// Log receives a line for each plugin that registers or disconnects, and for plugin errors.
	// Default: no log.
	Log logr.Logger
}

// New returns a Manager with the allocations of earlier agents. It writes nothing yet.
func New(c Config) (*Manager, error) {
	if c.Directory == "" {
		c.Directory = DefaultDirectory
	}
	for _, f := range []struct{ name, value string }{{"State", c.State}, {"Directory", c.Directory}} {
		if !filepath.IsAbs(f.value) {
			return nil, fmt.Errorf("devices: Config.%s is %q, want an absolute path", f.name, f.value)
		}
	}
	m := &Manager{
		config: c, callTimeout: callTimeout, waitTimeout: waitTimeout, saveRetryPause: saveRetryPause,
		known:  knownFile{path: filepath.Join(c.State, "resources.json")},
		ledger: ledger.New(gracePeriod), registrations: rate.NewLimiter(rate.Every(pause), registrationBurst), plugins: map[string]*plugin{}, preStarts: map[string]bool{}, changed: make(chan struct{}), notify: func(types.UID) {},
	}
	var err error
	if m.keeper, err = device.New(device.Config{State: filepath.Join(c.State, "pods"), Allocator: allocator{m}}); err != nil {
		return nil, fmt.Errorf("devices: %w", err)
	}
	return m, m.restore()
}

// restore reads an earlier agent's state. The plugins' grace period in it starts now.
func (m *Manager) restore() error {
	known, err := m.known.read()
	if err != nil {
		return fmt.Errorf("devices: Config.State: %w", err)
	}
	for name, ids := range known {
		m.ledger.Restore(name, ids, time.Now())
	}
	given, unread, err := m.keeper.Allocations()
	if err != nil {
		return fmt.Errorf("devices: Config.State: %w", err)
	}
	for uid, containers := range given {
		for container, allocation := range containers {
			m.ledger.Take(uid, container, allocation.Resources)
		}
	}
	m.unreadable = unread
	for uid, err := range unread {
		m.config.Log.Error(err, "no devices are allocated until this pod is removed", "podUID", uid)
	}
	return nil
}

// errUnreadable is returned while another pod's allocation cannot be read.
var errUnreadable = errors.New("another pod may have any of the devices")
