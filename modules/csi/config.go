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

	"github.com/podsync/podsync/internal/base/backoff"
)

const (
	// firstRetry and lastRetry are the waits before a step that failed is tried again: a kubelet's.
	firstRetry, lastRetry = 500 * time.Millisecond, 2*time.Minute + 2*time.Second
	// waitTimeout is how long SetUp waits for a driver or an attachment before it returns an error that says what it waits for. It is called
	// again later.
	waitTimeout = 10 * time.Second
	// attachPause is how often an attachment that is missing is read.
	attachPause = time.Second
	// republishPause is how often NodePublishVolume is called for a driver with requiresRepublish.
	republishPause = time.Minute
)

// Config is what a Manager is made of.
type Config struct {
	// Root is the root directory of the agent, an absolute path: the Root of syncpod.Config. Volumes are below it in a
	// kubelet's layout, and records of them in its directory csi. Required.
	Root string
	// Node is the name of the node, which is part of the names of VolumeAttachments. Required if there is an
	// Objects.Attachment.
	Node string
	// Objects gets the claims, PersistentVolumes and secrets of pods. [Static] returns those of an agent without an API
	// server.
	Objects Objects
	// Drivers are the connections to drivers that need not register, by name. The caller closes them after Run.
	Drivers map[string]grpc.ClientConnInterface
	// Registered is called when the set of registered drivers has changed, for the CSINode. It must return soon.
	// Default: none.
	Registered func([]DriverInfo)
	// Expanded is called when the node has expanded the file system of a PersistentVolume. It must return soon.
	// Default: none.
	Expanded func(volume string, bytes int64)
	// Log gets a line for each step, and for each driver that registers. Default silent.
	Log logr.Logger
}

// New returns a Manager that knows what an earlier agent has mounted. It reads records, and changes nothing.
func New(c Config) (*Manager, error) {
	if !filepath.IsAbs(c.Root) {
		return nil, fmt.Errorf("csi: Config.Root is %q, want an absolute path", c.Root)
	}
	if c.Objects.Attachment != nil && c.Node == "" {
		return nil, errors.New("csi: Config.Node is missing: with it attachments are found")
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
		volumes: map[VolumeID]*entry{}, pods: map[types.UID]map[string]VolumeID{}, drivers: map[string]*driver{},
	}
	m.restore()
	return m, nil
}

// restore takes over what an earlier agent has recorded. A record that cannot be read is left where it is: the
// directory of its pod stays as long as something is mounted in it.
func (m *Manager) restore() {
	records, err := readRecords(m.layout)
	if err != nil {
		m.config.Log.Error(err, "records of volumes cannot be read: what they mount is not unmounted")
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
