package mounts

import (
	"fmt"
	"os"
)

// Below returns the mount points at or below dir, the deepest first. dir must
// exist.
func Below(dir string) ([]string, error) {
	dir, err := real(dir)
	if err != nil {
		return nil, err
	}
	table, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer table.Close()
	points, err := below(table, dir)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", table.Name(), err)
	}
	return points, nil
}
