package source

import (
	"fmt"
	"strings"

	"github.com/podsync/podsync/runtime/foreign"
)

// A ManifestError reports an error in a manifest, or an ignored part. Its text does not
// contain values that may be secret.
type ManifestError struct {
	// File is the file's path, or the folder if that cannot be read.
	File string
	// Document counts the file's documents from 1. Zero means the whole file.
	Document int
	// Object is the error's object, such as "Pod default/web", empty if unknown.
	Object string
	// Err is the error. For an invalid pod it aggregates *field.Error.
	Err error
	// Kept means that the previous version is still in use.
	Kept bool
	// key is the object's key, zero if unknown.
	key objectKey
}

// maxErrorText is the maximum length of the reason in an error, in bytes: a manifest may have a hundred mistakes.
const maxErrorText = 16 << 10

// Error names the file, the document, the object and the fields. A hostile file name is escaped and cut.
func (e *ManifestError) Error() string {
	parts := []string{foreign.Line(e.File)}
	if e.Document > 0 {
		parts = append(parts, fmt.Sprintf("document %d", e.Document))
	}
	if e.Object != "" {
		parts = append(parts, foreign.Line(e.Object))
	}
	return strings.Join(append(parts, foreign.CutText(e.Err.Error(), maxErrorText)), ": ")
}

// Unwrap returns Err.
func (e *ManifestError) Unwrap() error { return e.Err }
