package devices

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// knownVersion is that of the format of the file.
const knownVersion = 1

// A knownFile has the resources that plugins have registered, so that the next agent starts no
// container without a device that it asks for before its plugin has registered again.
type knownFile struct {
	path string

	mu      sync.Mutex
	written []byte
}

// known is the content of the file.
type known struct {
	Version   int                 `json:"version"`
	Resources map[string][]string `json:"resources"`
}

// read returns the devices of each resource.
func (f *knownFile) read() (map[string][]string, error) {
	text, err := os.ReadFile(f.path)
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
		return nil, fmt.Errorf("%s, which says what device plugins there were: %w", f.path, err)
	}
	return k.Resources, nil
}

// remember writes which devices there are, if that has changed.
func (m *Manager) remember() error {
	f := &m.known
	f.mu.Lock()
	defer f.mu.Unlock()
	m.mu.Lock()
	now := known{knownVersion, m.ledger.Snapshot(time.Now())}
	m.mu.Unlock()
	text, err := json.Marshal(now)
	if err != nil || bytes.Equal(text, f.written) {
		return err
	}
	if err := f.replace(text); err != nil {
		return err
	}
	f.written = text
	return nil
}

func (f *knownFile) replace(text []byte) error {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(f.path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(f.path+".tmp", f.path)
}
