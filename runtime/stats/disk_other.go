//go:build !linux

package stats

// StatFS returns nil: the usage of file systems is not implemented for this system.
func StatFS(string) (*FS, error) { return nil, nil }
