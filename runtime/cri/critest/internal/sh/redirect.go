package sh

import (
	"fmt"
	"io"
)

// redirect opens the files of a command. The returned function reports afterwards whether everything
// was written.
func (s *shell) redirect(redirs []redirection, std stdio) (_ stdio, written func() error, _ error) {
	var open []*target
	written = func() error {
		for _, t := range open {
			if err := t.err; err != nil {
				return err
			}
		}
		return nil
	}
	for _, r := range redirs {
		w, err := s.open(r, std)
		if err != nil {
			return std, written, err
		}
		if t, ok := w.(*target); ok {
			open = append(open, t)
		}
		switch r.fd {
		case 1:
			std.out = w
		case 2:
			std.err = w
		}
	}
	return std, written, nil
}

func (s *shell) open(r redirection, std stdio) (io.Writer, error) {
	name := s.expand(r.target, std)
	switch {
	case r.op == "<":
		if !s.p.cfg.Files.Exists(file(name)) && name != "/dev/null" {
			return nil, fmt.Errorf("can't open %s: no such file", name)
		}
		return nil, nil
	case r.op == ">&" && name == "1", name == "/dev/stdout", name == "/proc/1/fd/1":
		return std.out, nil
	case r.op == ">&" && name == "2", name == "/dev/stderr", name == "/proc/1/fd/2":
		return std.err, nil
	case r.op == ">&":
		return nil, fmt.Errorf("%s: bad file descriptor", name)
	case name == "/dev/null":
		return io.Discard, nil
	}
	t := &target{files: s.p.cfg.Files, name: file(name)}
	if r.op == ">" {
		if err := t.files.WriteFile(t.name, nil, false); err != nil {
			return nil, fmt.Errorf("can't create %s: %w", name, err)
		}
	}
	return t, nil
}

// A target appends the output of a command to a file, as the command writes it.
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
