package source

import "errors"

// Unwatched makes a Folder only rescan periodically, which works in virtual time.
func (f *Folder) Unwatched() *Folder {
	f.watch = func(string) (*watch, error) { return nil, errors.New("too many watches") }
	return f
}
