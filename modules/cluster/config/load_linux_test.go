package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/podsync/podsync/modules/cluster/config"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A FIFO in the place of the configuration or of a drop-in is not opened, and a file of a terabyte is not read.
func TestConfigurationInAFIFO(t *testing.T) {
	for want, change := range map[string]func(path string) error{
		"not a regular file": func(path string) error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) },
		"more than 262144":   func(path string) error { return os.Truncate(path, 1<<40) },
	} {
		for _, dropIn := range []bool{false, true} {
			s := dropIns(t, whole, map[string]string{"a.conf": head})
			path := s.File
			if dropIn {
				path = filepath.Join(s.DropIns, "a.conf")
			}
			must.Do(t, change(path))
			if _, _, err := config.Load(s); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want an error with %q", path, err, want)
			}
		}
	}
}
