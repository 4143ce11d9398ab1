package csi

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/backoff"
	"github.com/podsync/podsync/runtime/stats"
)

const (
	// firstRetry and lastRetry are the shortest and the longest back-off for a failed step, as in a
	// kubelet.
	firstRetry, lastRetry = 500 * time.Millisecond, 2*time.Minute + 2*time.Second
	// waitTimeout is how long SetUp waits for a driver or an attachment. Then SetUp returns an error that names the
	// missing part, and the caller retries.
	waitTimeout = 10 * time.Second
	// attachPause is the interval between reads of an attachment that is missing.
	attachPause = time.Second
	// republishPause is the interval between calls to NodePublishVolume for a driver with requiresRepublish.
	republishPause = time.Minute
)

// Config configures a Manager.
type Config struct {
	// Root is the agent's root directory, an absolute path: the Root of syncpod.Config. Volumes are below it in a
	// kubelet's layout, and records for them in its directory csi. Required.
	Root string
	// Node is the node's name, which is part of VolumeAttachments' names. Required if there is an
	// Objects.Attachment.
	Node string
	// Objects gets the claims, PersistentVolumes and pod secrets. [Static] returns Objects for an agent without an API
	// server.
	Objects Objects
	// Drivers are connections to drivers that need not register, by name. The caller closes them after Run has
	// returned.
	Drivers map[string]grpc.ClientConnInterface
	// Registered is called when the set of registered drivers has changed, for the CSINode. It must return soon.
	// Default: none.
	Registered func([]DriverInfo)
	// Expansions records how the node expands PersistentVolumes. Default: nothing records it.
	Expansions Expansions
	// Log receives a line for each step, and for each driver that registers. Default: no log.
	Log logr.Logger
}

// New returns a Manager that has read an earlier agent's records. It changes nothing on the node.
func New(c Config) (*Manager, error) {
	if !filepath.IsAbs(c.Root) {
		return nil, fmt.Errorf("csi: Config.Root is %q, want an absolute path", c.Root)
	}
	if c.Objects.Attachment != nil && c.Node == "" {
		return nil, errors.New("csi: Config.Node is missing: it is part of the name of each VolumeAttachment")
	}
	for name := range c.Drivers {
		if err := checkDriver(name); err != nil {
			return nil, fmt.Errorf("csi: Config.Drivers: %w", err)
		}
	}
	root, err := filepath.EvalSymlinks(c.Root)
	if errors.Is(err, os.ErrNotExist) {
		root, err = filepath.Clean(c.Root), nil
	}
	if err != nil {
		return nil, fmt.Errorf("csi: Config.Root: %w", err)
	}
	c.Objects.node = c.Node
	retries, err := backoff.New(backoff.Config[retryKey]{Initial: firstRetry, Max: lastRetry, WaitFirst: true})
	if err != nil {
		return nil, fmt.Errorf("csi: %w", err)
	}
	m := &Manager{
		config: c, layout: layout{root: root}, boot: bootID(), retries: retries,
		volumes: map[VolumeID]*entry{}, pods: map[types.UID]map[string]VolumeID{}, drivers: map[string]*driver{}, measuring: map[string]chan struct{}{},
		unmeasurable: map[string]time.Time{}, inStatFS: map[VolumeID]bool{}, statfs: stats.StatFS,
	}
	m.restore()
	return m, nil
}

// restore reads an earlier agent's records. It leaves a record that cannot be read in place: the pod's directory
// stays as long as something is mounted in it.
func (m *Manager) restore() {
	records, err := readRecords(m.layout)
	if err != nil {
		m.config.Log.Error(err, "records of volumes cannot be read: their mounts are not unmounted")
	}
	for _, r := range records {
		r.reconstruct(m.layout, m.boot)
		e := newEntry(r)
		m.volumes[r.Source.id()] = e
		for uid, u := range r.Pods {
			for _, name := range u.Names {
				m.bind(uid, name, r.Source.id())
			}
		}
	}
}
