//go:build !linux

package image

import "errors"

func statfs(string) (Disk, error) { return Disk{}, errors.ErrUnsupported }
