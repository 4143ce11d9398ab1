package devices

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/podsync/podsync/runtime/hostfs"
)

// knownVersion is the version of the file's format.
const knownVersion = 1

// A knownFile lists the resources that plugins have registered, so that a restarted agent does not
// start a container without its devices before their plugin has registered again.
type knownFile struct {
	path string

	mu      sync.Mutex
	written []byte
	// failed means that the last write failed, and the file may be out of date.
	failed bool
}

// known is the file's content.
type known struct {
	Version   int                 `json:"version"`
	Resources map[string][]string `json:"resources"`
}

// read returns each resource's devices.
func (f *knownFile) read() (map[string][]string, error) {
	text, err := readBounded(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var k known
	if err == nil {
		err = json.Unmarshal(text, &k)
	}
	if err == nil && k.Version != knownVersion {
		err = fmt.Errorf("it has version %d, and this agent reads %d", k.Version, knownVersion)
	}
	for name := range k.Resources {
		err = errors.Join(err, checkResource(name))
	}
	if err != nil {
		return nil, fmt.Errorf("%s, the list of device plugins: %w", f.path, err)
	}
	return k.Resources, nil
}

// maxKnown is the most bytes that are read and written: names of some hundred thousand devices.
const maxKnown = 16 << 20

// readBounded reads a regular file.
func readBounded(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxKnown {
		return nil, fmt.Errorf("it is not a regular file of at most %d bytes", maxKnown)
	}
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // does not block if a FIFO has replaced the file
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if opened, err := file.Stat(); err != nil || !os.SameFile(info, opened) {
		return nil, errors.Join(errors.New("it was replaced while it was opened"), err)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxKnown+1))
	if err == nil && len(text) > maxKnown {
		err = fmt.Errorf("it has more than %d bytes", maxKnown)
	}
	return text, err
}

// saveKnown writes the list of devices if it has changed.
func (m *Manager) saveKnown() error {
	f := &m.known
	f.mu.Lock()
	defer f.mu.Unlock()
	m.mu.Lock()
	now := known{knownVersion, m.ledger.Snapshot(time.Now())}
	m.mu.Unlock()
	text, err := now.text()
	if err != nil || bytes.Equal(text, f.written) {
		return err
	}
	if err := f.replace(text); err != nil {
		f.written, f.failed = nil, true
		return err
	}
	f.written, f.failed = text, false
	return nil
}

// text returns the file's contents. If they would be too large to be read again, the error names
// the resource with the longest list: its plugin has registered too many devices, or names that
// are too long.
func (k known) text() ([]byte, error) {
	text, err := json.Marshal(k)
	if err != nil || len(text) <= maxKnown {
		return text, err
	}
	longest, most := "", -1
	for _, name := range slices.Sorted(maps.Keys(k.Resources)) {
		size := 0
		for _, id := range k.Resources[name] {
			size += len(id)
		}
		if size > most {
			longest, most = name, size
		}
	}
	return nil, fmt.Errorf("the devices of plugins take %d bytes, and at most %d are remembered: resource %s has %d devices with names of %d bytes",
		len(text), maxKnown, longest, len(k.Resources[longest]), most)
}

// retrySave retries failed writes of the list until ctx ends.
func (m *Manager) retrySave(ctx context.Context) {
	ticker := time.NewTicker(m.saveRetryPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !m.known.hasFailed() {
			continue
		}
		if err := m.saveKnown(); err != nil {
			m.config.Log.Error(err, "the list of devices cannot be saved")
		}
	}
}

func (f *knownFile) hasFailed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// replace replaces the file, and returns once the content and the name are on the disk.
func (f *knownFile) replace(text []byte) error {
	dir := filepath.Dir(f.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := hostfs.Replace(f.path, text, true); err != nil {
		return err
	}
	return hostfs.SyncDir(dir)
}
