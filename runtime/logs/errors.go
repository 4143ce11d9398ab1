package logs

import (
	"errors"
	"fmt"
)

// ErrTruncated means that the log became shorter while it was read, because another process truncated
// it. Its lines may be lost or read twice.
var ErrTruncated = errors.New("the log became shorter while it was read")

// ErrNotRegular means that the log is not a regular file but, for example, a link or a pipe. Such a
// file is not opened.
var ErrNotRegular = errors.New("not a regular file")

// A DamagedError reports which log parts could not be read and were skipped. All other parts were
// read.
type DamagedError struct {
	// File names the first damaged file.
	File string
	// Offset is the damage's position in the file, in bytes, after decompression.
	Offset int64
	// Places counts the damaged lines and files.
	Places int
	// Err is the first damage's cause.
	Err error
}

// Error names the first damage's position and cause.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s at byte %d: %v (%d places like this were left out)", e.File, e.Offset, e.Err, e.Places)
}

// Unwrap returns Err.
func (e *DamagedError) Unwrap() error { return e.Err }

// errFormat reports a line that is not in CRI's format.
var errFormat = errors.New("not in the format of CRI: time, stream, tags, text")
