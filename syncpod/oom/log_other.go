//go:build !linux

package oom

import (
	"errors"
	"fmt"
)

// openLog returns errors.ErrUnsupported: only Linux has this log.
func openLog() (kernelLog, error) {
	return nil, fmt.Errorf("the kernel's log: %w", errors.ErrUnsupported)
}
