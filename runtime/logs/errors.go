package logs

import (
	"errors"
	"fmt"
)

// ErrTruncated is the error of a read of a log that became shorter meanwhile:
// somebody else has cut it, and what was in it may be lost or read twice.
var ErrTruncated = errors.New("the log became shorter while it was read")

// ErrNotRegular is the error of a read of a log that is no regular file, but a link
// or a pipe for example. It is not opened.
var ErrNotRegular = errors.New("not a regular file")

// A DamagedError says what was left out of a log because it could not be read. All
// the rest was.
type DamagedError struct {
	// File is the name of the file in which the first damage is.
	File string
	// Offset is where that is in the file, in bytes, or in what was compressed.
	Offset int64
	// Places counts the damaged lines and files.
	Places int
	// Err is what is wrong with the first one.
	Err error
}

// Error names the place and the reason of the first damage.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s at byte %d: %v (%d places like this were left out)", e.File, e.Offset, e.Err, e.Places)
}

// Unwrap returns Err.
func (e *DamagedError) Unwrap() error { return e.Err }

// errFormat is what is wrong with a line that no runtime has written.
var errFormat = errors.New("not in the format of CRI: time, stream, tags, text")
