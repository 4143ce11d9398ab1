package sh

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// maxFile is the maximum size of a file that a tool creates.
const maxFile = 64 << 20

// fileTools returns a program that works on files.
func fileTools(name string) applet {
	switch name {
	case "cat":
		return cat
	case "ls":
		return ls
	case "touch":
		return touch
	case "mkdir":
		return mkdir
	case "rmdir", "rm":
		return remove
	case "cp", "mv":
		return carry
	case "dd":
		return dd
	case "tee":
		return tee
	}
	return nil
}

// complain prints why a tool failed at a file, and returns 1.
func (s *shell) complain(tool, what, name string, err error) int {
	s.errorf("%s: %s '%s': %s", tool, what, name, reason(err))
	return 1
}

// unread prints why a tool cannot read a file.
func (s *shell) unread(tool, name string, err error) {
	if tool == "cat" || tool == "tail" {
		s.complain(tool, "can't open", name, err)
		return
	}
	s.errorf("%s: %s: %s", tool, name, reason(err))
}

// inputs calls use for each named file, and for the standard input if there is none or for -.
func (s *shell) inputs(tool string, names []string, use func(name string, r io.Reader) int) int {
	if len(names) == 0 {
		names = []string{"-"}
	}
	code := 0
	for _, name := range names {
		if s.ctx.Err() != nil {
			return 1
		}
		if name == "-" {
			if r := s.fds[0].r; r != nil {
				code = max(code, use(name, r))
			}
			continue
		}
		f, err := s.openInput(name)
		if err != nil || f.r == nil {
			s.unread(tool, name, err)
			code = max(code, 1)
			continue
		}
		code = max(code, use(name, f.r))
	}
	return code
}

func cat(s *shell, args []string) int {
	_, names, ok := s.flags(args, "u")
	if !ok {
		return 1
	}
	return s.inputs("cat", names, func(_ string, r io.Reader) int { return copied(s, s.fds[1].w, r) })
}

// copied copies until the input or the process ends.
func copied(s *shell, to io.Writer, from io.Reader) int {
	b := make([]byte, 32<<10)
	for s.ctx.Err() == nil {
		n, err := from.Read(b)
		if n > 0 {
			if _, werr := to.Write(b[:n]); werr != nil {
				return 1
			}
		}
		if err != nil {
			return oneIf(!errors.Is(err, io.EOF))
		}
	}
	return 1
}

func ls(s *shell, args []string) int {
	set, names, ok := s.flags(args, "1aAldRh")
	if !ok || has(set, 'R') {
		s.errorf("ls: only -1, -a, -A, -l, -h and -d are supported")
		return 1
	}
	if len(names) == 0 {
		names = []string{"."}
	}
	code := 0
	for _, name := range names {
		info, err := s.p.cfg.Files.Stat(s.path(name))
		if err != nil {
			s.errorf("ls: %s: %s", name, reason(err))
			code = 1
			continue
		}
		if !info.IsDir() || has(set, 'd') {
			code = max(code, s.print(listed(set, name, info)))
			continue
		}
		if len(names) > 1 {
			code = max(code, s.print(name+":\n"))
		}
		entries, err := s.p.cfg.Files.ReadDir(s.path(name))
		if err != nil {
			code = s.complain("ls", "can't open", name, err)
		}
		for _, e := range entries {
			if info, err := e.Info(); err == nil && (has(set, 'a') || has(set, 'A') || !strings.HasPrefix(e.Name(), ".")) {
				code = max(code, s.print(listed(set, e.Name(), info)))
			}
		}
	}
	return code
}

func listed(set map[byte]string, name string, info fs.FileInfo) string {
	if !has(set, 'l') {
		return name + "\n"
	}
	return fmt.Sprintf("%s    1 root     root     %9d %s %s\n", info.Mode(), info.Size(), info.ModTime().UTC().Format("Jan _2 15:04"), name)
}

func touch(s *shell, args []string) int {
	_, names, ok := s.flags(args, "cm")
	if !ok {
		return 1
	}
	for _, name := range names {
		if err := s.p.cfg.Files.WriteFile(s.path(name), nil, true); err != nil {
			s.errorf("touch: %s: %s", name, reason(err))
			return 1
		}
	}
	return 0
}

func mkdir(s *shell, args []string) int {
	set, names, ok := s.flags(args, "pm:")
	if !ok {
		return 1
	}
	for _, name := range names {
		dirs := []string{s.path(name)}
		for has(set, 'p') && dirs[0] != "/" {
			dirs = slices.Insert(dirs, 0, path.Dir(dirs[0]))
		}
		for _, dir := range dirs {
			err := s.p.cfg.Files.Mkdir(dir)
			if has(set, 'p') && errors.Is(err, fs.ErrExist) && s.isDir(dir) {
				continue
			}
			if err != nil {
				return s.complain("mkdir", "can't create directory", name, err)
			}
		}
	}
	return 0
}

func (s *shell) isDir(name string) bool {
	info, err := s.p.cfg.Files.Stat(name)
	return err == nil && info.IsDir()
}

// remove is rm and rmdir.
func remove(s *shell, args []string) int {
	set, names, ok := s.flags(args, "rRfi")
	if !ok {
		return 1
	}
	code := 0
	for _, name := range names {
		err := s.removeAll(s.path(name), has(set, 'r') || has(set, 'R'), args[0] == "rmdir")
		if err != nil && !(has(set, 'f') && errors.Is(err, fs.ErrNotExist)) {
			if code = 1; args[0] == "rmdir" {
				s.errorf("rmdir: '%s': %s", name, reason(err))
				continue
			}
			s.complain(args[0], "can't remove", name, err)
		}
	}
	return code
}

func (s *shell) removeAll(name string, recursive, dirs bool) error {
	if s.isDir(name) {
		switch {
		case recursive:
			entries, err := s.p.cfg.Files.ReadDir(name)
			if err != nil {
				return err
			}
			for _, e := range entries {
				if err := s.removeAll(path.Join(name, e.Name()), true, false); err != nil {
					return err
				}
			}
		case !dirs:
			//lint:ignore ST1005 as programs print it
			return errors.New("Is a directory")
		}
	}
	return s.p.cfg.Files.Remove(name)
}

// carry is cp and mv.
func carry(s *shell, args []string) int {
	set, names, ok := s.flags(args, "rRapfn")
	if !ok || len(names) < 2 {
		s.errorf("usage: %s SOURCE... DEST", args[0])
		return 1
	}
	recursive := args[0] == "mv" || has(set, 'r') || has(set, 'R') || has(set, 'a')
	code, to := 0, names[len(names)-1]
	for _, name := range names[:len(names)-1] {
		at := s.path(to)
		if s.isDir(at) {
			at = path.Join(at, path.Base(s.path(name)))
		}
		err := s.copyAll(s.path(name), at, recursive)
		if err == nil && args[0] == "mv" {
			err = s.removeAll(s.path(name), true, false)
		}
		if err != nil {
			code = s.complain(args[0], map[string]string{"cp": "can't stat", "mv": "can't rename"}[args[0]], name, err)
		}
	}
	return code
}

func (s *shell) copyAll(from, to string, recursive bool) error {
	if !s.isDir(from) {
		b, err := s.p.cfg.Files.ReadFile(from)
		if err != nil {
			return err
		}
		return s.p.cfg.Files.WriteFile(to, b, false)
	}
	switch {
	case !recursive:
		return errors.New("omitting directory")
	case to == from || strings.HasPrefix(to, from+"/"):
		return errors.New("it would contain itself")
	}
	entries, err := s.p.cfg.Files.ReadDir(from)
	if err != nil {
		return err
	}
	if err := s.p.cfg.Files.Mkdir(to); err != nil && !s.isDir(to) {
		return err
	}
	for _, e := range entries {
		if err := s.copyAll(path.Join(from, e.Name()), path.Join(to, e.Name()), true); err != nil {
			return err
		}
	}
	return nil
}

func tee(s *shell, args []string) int {
	set, names, ok := s.flags(args, "a")
	if !ok {
		return 1
	}
	out, code := []io.Writer{s.fds[1].w}, 0
	for _, name := range names {
		f, err := s.openOutput(name, has(set, 'a'))
		if err != nil {
			s.unread("tee", name, err)
			code = 1
			continue
		}
		out = append(out, f.w)
	}
	return max(code, copied(s, io.MultiWriter(out...), s.fds[0].r))
}

// dd copies count blocks of bs bytes.
func dd(s *shell, args []string) int {
	set := map[string]string{"bs": "512"}
	for _, a := range args[1:] {
		name, value, _ := strings.Cut(a, "=")
		switch name {
		case "if", "of", "bs", "count":
			set[name] = value
		case "status", "conv", "oflag":
		default:
			s.errorf("dd: invalid argument '%s'", a)
			return 1
		}
	}
	in, out, limit := s.fds[0], s.fds[1], int64(maxFile)
	var err error
	if name := set["if"]; name != "" {
		if in, err = s.openInput(name); err != nil {
			return s.complain("dd", "can't open", name, err)
		}
	}
	if name := set["of"]; name != "" {
		if out, err = s.openOutput(name, false); err != nil {
			return s.complain("dd", "can't open", name, err)
		}
	}
	if count, given := set["count"]; given {
		var blocks int64
		if limit, err = size(set["bs"]); err == nil {
			blocks, err = size(count)
		}
		if err == nil && (limit < 0 || blocks < 0 || limit > maxFile || blocks > maxFile || limit*blocks > maxFile) {
			//lint:ignore ST1005 as programs print it
			err = errors.New("No space left on device")
		}
		limit *= blocks
	}
	if err != nil {
		s.errorf("dd: %v", err)
		return 1
	}
	return copied(s, out.w, io.LimitReader(in.r, limit))
}

// size parses a number with one of the suffixes k, K, M and G.
func size(text string) (int64, error) {
	text = strings.TrimSuffix(text, "B")
	unit := int64(1)
	if n := len(text) - 1; n > 0 {
		if u, ok := map[byte]int64{'k': 1 << 10, 'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30}[text[n]]; ok {
			unit, text = u, text[:n]
		}
	}
	v, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("invalid number '%s'", text)
	}
	return v * unit, nil
}
