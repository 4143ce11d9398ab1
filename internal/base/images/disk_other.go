//go:build !linux

package images

import "errors"

func statfs(string) (Disk, error) { return Disk{}, errors.ErrUnsupported }
