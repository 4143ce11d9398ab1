//go:build !linux

package mounts

// Below returns the mount points at or below dir, the deepest first. Outside of Linux it returns
// none: no mounts are made for pods there.
func Below(string) ([]string, error) { return nil, nil }

// At reports whether path is a mount point.
func At(string) (bool, error) { return false, nil }

// Shared reports whether the mount that holds dir is shared.
func Shared(string) (bool, error) { return false, nil }
