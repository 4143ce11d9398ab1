//go:build !linux

package oom

import (
	"errors"
	"fmt"
)

// openLog tells that there is no such log.
func openLog() (Log, error) { return nil, fmt.Errorf("the kernel's log: %w", errors.ErrUnsupported) }
