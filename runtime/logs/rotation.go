package logs

import "fmt"

// RotationPolicy determines when a container's log is rotated, and how many files are kept.
// The zero RotationPolicy is a kubelet's default.
type RotationPolicy struct {
	// MaxSize is the size in bytes at which a log is rotated. A log may grow beyond it before the
	// next check. Default 10 MiB.
	MaxSize int64
	// MaxFiles limits the files in one log: the file that the runtime writes to, and
	// the rotated ones. At least 2. Default 5.
	MaxFiles int
}

// Validate returns an error that names the invalid field.
func (p RotationPolicy) Validate() error {
	if p.MaxSize < 0 {
		return fmt.Errorf("MaxSize is negative: %d", p.MaxSize)
	}
	if p.MaxFiles != 0 && p.MaxFiles < 2 {
		return fmt.Errorf("MaxFiles is %d: it must be 2 at least, one to write to and one rotated file", p.MaxFiles)
	}
	return nil
}
