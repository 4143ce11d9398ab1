package server

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"

	"github.com/podsync/podsync/runtime/hostfs"
)

// serveConfigz serves Config.Configz.
func (s *Server) serveConfigz(a *answer, r *http.Request) error {
	if s.config.Configz == nil {
		return notFound("there is no configuration to be shown")
	}
	return s.writeJSON(a, r, s.config.Configz)
}

// serveNodeLogs serves a file below the node's log directory, or lists a directory.
func (s *Server) serveNodeLogs(w http.ResponseWriter, r *http.Request) error {
	if s.config.NodeLogs == "" {
		return disabled("logs of the node")
	}
	root, err := os.OpenRoot(s.config.NodeLogs)
	if err != nil {
		return err
	}
	defer root.Close()
	http.StripPrefix("/logs", http.FileServerFS(regularFS{root})).ServeHTTP(w, r)
	return nil
}

// regularFS opens only regular files and directories, because opening any other file may block.
type regularFS struct{ root *os.Root }

// maxNames limits the names in the listing of a directory.
const maxNames = 10_000

// A shortDir lists only a directory's first names, because a container may create more than fit in memory.
type shortDir struct{ *os.File }

// ReadDir returns the first names, whatever their number.
func (d shortDir) ReadDir(int) ([]fs.DirEntry, error) {
	names, err := d.File.ReadDir(maxNames)
	if errors.Is(err, io.EOF) {
		err = nil // the directory is empty
	}
	return names, err
}

func (f regularFS) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) || strings.ContainsRune(name, 0) {
		return nil, fmt.Errorf("%q is no name: %w", name, fs.ErrNotExist)
	}
	name, err := hostfs.Resolve(f.root, name)
	var info fs.FileInfo
	if err == nil {
		info, err = f.root.Lstat(name)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s cannot be read: %w", name, fs.ErrPermission) // for example a link that leads out of the directory
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return nil, fmt.Errorf("%s is no regular file: %w", name, fs.ErrPermission)
	}
	if info.IsDir() {
		dir, err := f.root.Open(name + "/.") // it does not wait for a writer, even if a FIFO has replaced the file
		if err != nil {
			return nil, err
		}
		return shortDir{dir}, nil
	}
	file, _, err := hostfs.Open(f.root, name)
	return file, err
}
