//go:build !linux

package mounts

import "errors"

// Below returns the mount points at or below dir, the deepest first. Outside of Linux it returns
// none: no mounts are made for pods there.
func Below(string) ([]string, error) { return nil, nil }

// At reports whether path is a mount point.
func At(string) (bool, error) { return false, nil }

// Shared reports whether the mount that holds dir is shared.
func Shared(string) (bool, error) { return false, nil }

// Share does nothing: only Linux has propagation.
func Share(string) error { return nil }

// Detach returns an error: nothing is mounted for pods outside of Linux.
func Detach(string) error { return errors.ErrUnsupported }
