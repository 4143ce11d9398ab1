package sh

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// redirect opens a command's files. The returned function restores the file descriptors, unless exec has kept
// them, and reports whether everything was written.
func (s *shell) redirect(redirs []*syntax.Redirect) (undo func(fds) error, _ error) {
	var open []*target
	undo = func(before fds) error {
		if !s.keepFDs {
			s.fds = before
		}
		s.keepFDs = false
		for _, t := range open {
			if t.err != nil {
				return t.err
			}
		}
		return nil
	}
	for _, r := range redirs {
		n := 1
		switch {
		case r.N != nil:
			n = int(r.N.Value[0] - '0') // parse refuses other descriptors
		case r.Op == syntax.RdrIn || r.Op == syntax.DplIn || r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc || r.Op == syntax.WordHdoc:
			n = 0
		}
		f, err := s.open(r)
		if err != nil {
			return undo, err
		}
		s.fds[n] = f
		if r.Op == syntax.RdrAll || r.Op == syntax.AppAll {
			s.fds[2] = f
		}
		if t, ok := f.w.(*target); ok {
			open = append(open, t)
		}
	}
	return undo, nil
}

func (s *shell) open(r *syntax.Redirect) (file, error) {
	if r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc {
		text, err := s.document(r)
		return file{r: strings.NewReader(text)}, err
	}
	name, err := expand.Literal(s.cfg, r.Word)
	if err != nil {
		s.expandFailed(err)
		return file{}, errors.New("no file")
	}
	switch r.Op {
	case syntax.WordHdoc:
		return file{r: strings.NewReader(name + "\n")}, nil
	case syntax.DplIn, syntax.DplOut:
		return s.duplicate(name)
	case syntax.RdrIn:
		f, err := s.openInput(name)
		return f, unopened("open", name, "no such file", err)
	}
	f, err := s.openOutput(name, r.Op == syntax.AppOut || r.Op == syntax.AppAll)
	return f, unopened("create", name, "nonexistent directory", err)
}

// unopened words an error as the shell does, which has its own reason for a missing file.
func unopened(what, name, missing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("can't %s %s: %s", what, name, missing)
	}
	return fmt.Errorf("can't %s %s: %s", what, name, reason(err))
}

func (s *shell) duplicate(name string) (file, error) {
	if name == "-" {
		return file{r: strings.NewReader(""), w: closedWriter{}}, nil
	}
	if len(name) != 1 || name[0] < '0' || name[0] > '9' || s.fds[name[0]-'0'] == (file{}) {
		return file{}, fmt.Errorf("%s: bad file descriptor", name)
	}
	return s.fds[name[0]-'0'], nil
}

// document returns a here document's text.
func (s *shell) document(r *syntax.Redirect) (string, error) {
	if r.Hdoc == nil {
		return "", nil
	}
	w := *r.Hdoc
	if r.Op == syntax.DashHdoc {
		w.Parts = withoutTabs(w.Parts)
	}
	text, err := expand.Document(s.cfg, &w)
	if err != nil {
		s.expandFailed(err)
	}
	return text, err
}

// withoutTabs removes the tabs with which the lines in a here document begin.
func withoutTabs(parts []syntax.WordPart) []syntax.WordPart {
	var out []syntax.WordPart
	begins := true
	strip := func(text string) string {
		var b strings.Builder
		for line := range strings.Lines(text) {
			if begins {
				line = strings.TrimLeft(line, "\t")
			}
			b.WriteString(line)
			begins = strings.HasSuffix(line, "\n")
		}
		return b.String()
	}
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			out = append(out, &syntax.Lit{Value: strip(p.Value)})
		case *syntax.SglQuoted:
			out = append(out, &syntax.SglQuoted{Value: strip(p.Value)})
		default:
			out, begins = append(out, p), false
		}
	}
	return out
}

// device returns the descriptor of the shell that a name below /dev or /proc refers to.
func (s *shell) device(name string) (f file, ok bool) {
	switch name {
	case "/dev/null":
		return file{r: strings.NewReader(""), w: io.Discard}, true
	case "/dev/zero":
		return file{r: zeros{}, w: io.Discard}, true
	case "/dev/full":
		return file{r: zeros{}, w: closedWriter{}}, true
	case "/dev/urandom", "/dev/random":
		return file{r: rand.Reader, w: io.Discard}, true
	case "/dev/stdin", "/proc/self/fd/0":
		return s.fds[0], true
	case "/dev/stdout", "/proc/self/fd/1":
		return s.fds[1], true
	case "/dev/stderr", "/proc/self/fd/2":
		return s.fds[2], true
	case "/proc/1/fd/1":
		return file{w: s.p.cfg.Stdout}, true
	case "/proc/1/fd/2":
		return file{w: s.p.cfg.Stderr}, true
	}
	return file{}, false
}

func (s *shell) openInput(name string) (file, error) {
	if f, ok := s.device(s.path(name)); ok {
		return f, nil
	}
	b, err := s.p.cfg.Files.ReadFile(s.path(name))
	if err != nil {
		return file{}, err
	}
	return file{r: bytes.NewReader(b)}, nil
}

func (s *shell) openOutput(name string, add bool) (file, error) {
	if f, ok := s.device(s.path(name)); ok {
		return f, nil
	}
	t := &target{files: s.p.cfg.Files, name: s.path(name)}
	if err := t.files.WriteFile(t.name, nil, add); err != nil {
		return file{}, err
	}
	return file{w: t}, nil
}

// reason returns an error's text as programs print it.
func reason(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "No such file or directory"
	case errors.Is(err, fs.ErrExist):
		return "File exists"
	case errors.Is(err, fs.ErrPermission):
		return "Permission denied"
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

// A target appends a command's output to a file, as the command writes it.
type target struct {
	files Files
	name  string
	err   error
}

func (t *target) Write(b []byte) (int, error) {
	if err := t.files.WriteFile(t.name, b, true); err != nil {
		t.err = err
		return 0, err
	}
	return len(b), nil
}

type closedWriter struct{}

func (closedWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// zeros is /dev/zero.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
