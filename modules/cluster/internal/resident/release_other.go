//go:build !linux

package resident

// Release does nothing: only Linux is known to need it.
func Release() error { return nil }
