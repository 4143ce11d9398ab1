package source

import (
	"fmt"
	"strings"
)

// A ManifestError says what is wrong with a manifest, or what of it is not
// heeded. Values that may be secrets are not in its text.
type ManifestError struct {
	// File is the path of the file, or the folder if that cannot be read.
	File string
	// Document counts the documents of the file from 1. Zero means the whole file.
	Document int
	// Object is what the error is about, as "Pod default/web", empty if that could
	// not be told.
	Object string
	// Err is what is wrong. For an invalid pod it is an aggregate of *field.Error.
	Err error
	// Kept: what was read before in its place still counts.
	Kept bool
	// key is that of the object, zero if it is not known.
	key objectKey
}

// Error names the file, the document, the object and the fields.
func (e *ManifestError) Error() string {
	parts := []string{e.File}
	if e.Document > 0 {
		parts = append(parts, fmt.Sprintf("document %d", e.Document))
	}
	if e.Object != "" {
		parts = append(parts, e.Object)
	}
	return strings.Join(append(parts, e.Err.Error()), ": ")
}

// Unwrap returns Err.
func (e *ManifestError) Unwrap() error { return e.Err }
