package source

import "errors"

// Unwatched has a Folder read every so often only, which goes by virtual time.
func (f *Folder) Unwatched() *Folder {
	f.watch = func(string) (*watch, error) { return nil, errors.New("too many watches") }
	return f
}
