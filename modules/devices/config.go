package devices

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/podsync/podsync/modules/devices/internal/ledger"
	"github.com/podsync/podsync/syncpod/device"
)

// DefaultDirectory is where device plugins look for a kubelet.
const DefaultDirectory = "/var/lib/kubelet/device-plugins"

const (
	// socketName is that of the socket at which plugins register.
	socketName = "kubelet.sock"
	// gracePeriod is how long a plugin that is away is waited for.
	gracePeriod = 5 * time.Minute
	// callTimeout is how long a plugin may take to answer: a kubelet's for PreStartContainer.
	callTimeout = pluginapi.KubeletPreStartContainerRPCTimeoutInSecs * time.Second
	// connectTimeout is how long one that registers may take until it can be called.
	connectTimeout = 10 * time.Second
	// waitTimeout is how long a container waits for a device, until it is tried again later.
	waitTimeout = 10 * time.Second
	// rememberPause is how long it takes until what could not be written is tried again.
	rememberPause = time.Minute
)

// Config is what a Manager is made of.
type Config struct {
	// State is a directory, an absolute path, for what was given and which plugins there were.
	// It is made when it is needed. Required.
	State string
	// Directory is the directory of the sockets of plugins, an absolute path. It must be for
	// nothing else: as plugins expect of a kubelet, the sockets in it are removed when Run
	// begins, so that plugins register anew. It is made if missing. Default DefaultDirectory.
	Directory string
	// Log gets a line for each plugin that comes or goes, and for what one does wrong.
	// Default silent.
	Log logr.Logger
}

// New returns a Manager that knows what an agent before has given. It writes nothing yet.
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
		config: c, callTimeout: callTimeout, waitTimeout: waitTimeout, rememberPause: rememberPause,
		known:  knownFile{path: filepath.Join(c.State, "resources.json")},
		ledger: ledger.New(gracePeriod), plugins: map[string]*plugin{}, preStarts: map[string]bool{}, changed: make(chan struct{}), notify: func(types.UID) {},
	}
	var err error
	if m.keeper, err = device.New(device.Config{State: filepath.Join(c.State, "pods"), Allocator: allocator{m}}); err != nil {
		return nil, fmt.Errorf("devices: %w", err)
	}
	return m, m.restore()
}

// restore reads what an agent before has left. A plugin that it knew is waited for from now on.
func (m *Manager) restore() error {
	known, err := m.known.read()
	if err != nil {
		return fmt.Errorf("devices: Config.State: %w", err)
	}
	for name, ids := range known {
		m.ledger.Restore(name, ids, time.Now())
	}
	given, unread, err := m.keeper.Allotments()
	if err != nil {
		return fmt.Errorf("devices: Config.State: %w", err)
	}
	for uid, containers := range given {
		for container, allotment := range containers {
			m.ledger.Take(uid, container, allotment.Resources)
		}
	}
	m.unread = unread
	for uid, err := range unread {
		m.config.Log.Error(err, "no devices are given until the pod is gone", "podUID", uid)
	}
	return nil
}

// errUnread is why nothing is given while it is not known what a pod has.
var errUnread = errors.New("another pod may have any of the devices")
