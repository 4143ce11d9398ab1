//go:build !linux

package stats

// statfs returns nil: the usage of file systems is not implemented for this system.
func statfs(string) (*FS, error) { return nil, nil }
