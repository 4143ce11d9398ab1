package sh

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/expand"
)

// applets returns a program that exists as a file in the image. Each of them is a program of busybox, too.
func applets(name string) applet {
	switch name {
	case "sh", "ash", "bash", "dash":
		return runShell
	case "sleep":
		return sleep
	case "echo":
		return echo
	case "printf":
		return printf
	case "true":
		return func(*shell, []string) int { return 0 }
	case "false":
		return func(*shell, []string) int { return 1 }
	case "test", "[", "[[":
		return test
	case "expr":
		return expr
	case "env":
		return env
	case "kill":
		return kill
	case "date":
		return date
	case "seq":
		return seq
	case "id":
		return id
	case "hostname":
		return func(s *shell, _ []string) int { return s.print(s.p.cfg.Host + "\n") }
	case "pwd":
		return func(s *shell, _ []string) int { return s.print(s.dir + "\n") }
	case "basename":
		return basename
	case "dirname":
		return func(s *shell, args []string) int { return s.print(path.Dir(last(args)) + "\n") }
	case "timeout":
		return timeout
	}
	if a := fileTools(name); a != nil {
		return a
	}
	return textTools(name)
}

func last(args []string) string { return args[len(args)-1] }

func (s *shell) print(text string) int {
	_, err := io.WriteString(s.fds[1].w, text)
	return oneIf(err != nil)
}

// flags reads a program's options. known has their letters; a colon follows one that has a value.
func (s *shell) flags(args []string, known string) (set map[byte]string, rest []string, ok bool) {
	set = map[byte]string{}
	name := args[0]
	for args = args[1:]; len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-'; args = args[1:] {
		if args[0] == "--" {
			args = args[1:]
			break
		}
		for i := 1; i < len(args[0]); i++ {
			o := args[0][i]
			at := strings.IndexByte(known, o)
			if at < 0 || o == ':' {
				s.errorf("%s: unrecognized option '%s'", name, args[0])
				return nil, nil, false
			}
			if at+1 == len(known) || known[at+1] != ':' {
				set[o] = ""
				continue
			}
			value := args[0][i+1:]
			if value == "" && len(args) > 1 {
				args = args[1:]
				value = args[0]
			}
			set[o] = value
			break
		}
	}
	return set, args, true
}

func has(set map[byte]string, o byte) bool {
	_, ok := set[o]
	return ok
}

// readLine reads up to a line's end, and not further: the next command reads on.
func readLine(r io.Reader) (string, error) {
	var line []byte
	for len(line) < 8*maxScript {
		var b [1]byte
		n, err := r.Read(b[:])
		if n > 0 && b[0] == '\n' {
			return string(line), nil
		}
		line = append(line, b[:n]...)
		if err != nil {
			return string(line), err
		}
	}
	return string(line), nil
}

func sleep(s *shell, args []string) int {
	var total time.Duration
	for _, a := range args[1:] {
		d, err := duration(a)
		if err != nil {
			s.errorf("sleep: invalid number '%s'", a)
			return 1
		}
		if total += d; total < 0 || d == forever {
			total = forever
			break
		}
	}
	s.sleep(total)
	return 0
}

// duration parses seconds, or a number with one of the suffixes s, m, h and d.
func duration(a string) (time.Duration, error) {
	if a == "infinity" || a == "inf" {
		return forever, nil
	}
	unit := time.Second
	if n := len(a) - 1; n > 0 {
		if u, ok := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}[a[n]]; ok {
			unit, a = u, a[:n]
		}
	}
	f, err := strconv.ParseFloat(a, 64)
	if err != nil || f < 0 {
		return 0, fmt.Errorf("invalid number %q", a)
	}
	if f*float64(unit) >= float64(forever) {
		return forever, nil
	}
	return time.Duration(f * float64(unit)), nil
}

// timeout runs a program, and ends it with SIGTERM after a time.
func timeout(s *shell, args []string) int {
	set, rest, ok := s.flags(args, "s:k:")
	if !ok || len(rest) < 2 || len(set) > 0 {
		s.errorf("timeout: only timeout SECS PROG ARGS is supported")
		return 1
	}
	d, err := duration(rest[0])
	if err != nil {
		s.errorf("timeout: invalid number '%s'", rest[0])
		return 1
	}
	child := s.fork()
	ctx, end := context.WithTimeout(s.ctx, d)
	defer end()
	child.ctx = ctx
	code := child.runProgram(rest[1:])
	if ctx.Err() != nil && s.ctx.Err() == nil {
		return exitBySignal(SIGTERM)
	}
	return code
}

func echo(s *shell, args []string) int {
	end, escapes := "\n", false
	for args = args[1:]; len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' && strings.Trim(args[0][1:], "neE") == ""; args = args[1:] {
		for _, o := range args[0][1:] {
			if o == 'n' {
				end = ""
			} else {
				escapes = o == 'e'
			}
		}
	}
	text := strings.Join(args, " ")
	if escapes {
		text, _, _ = strings.Cut(text, `\c`)
		text, _, _ = expand.Format(s.cfg, strings.ReplaceAll(text, "%", "%%"), []string{})
	}
	return s.print(text + end)
}

// printf repeats the format until it has used all arguments.
func printf(s *shell, args []string) int {
	if len(args) < 2 {
		s.errorf("usage: printf FORMAT [ARG...]")
		return 1
	}
	format, rest := args[1], slices.Clone(args[2:])
	if rest == nil {
		rest = []string{}
	}
	var out strings.Builder
	for {
		text, used, err := expand.Format(s.cfg, format, rest)
		if err != nil {
			s.errorf("printf: %s: %v", format, err)
			return 1
		}
		out.WriteString(text)
		if rest = rest[used:]; used == 0 || len(rest) == 0 || out.Len() > maxOutput {
			return s.print(out.String())
		}
	}
}

// env prints the environment, or runs a program with its own variables.
func env(s *shell, args []string) int {
	s = s.fork()
	for args = args[1:]; len(args) > 0; args = args[1:] {
		name, value, ok := strings.Cut(args[0], "=")
		switch {
		case args[0] == "-i" || args[0] == "-":
			clear(s.vars)
		case args[0] == "-u" && len(args) > 1:
			delete(s.vars, args[1])
			args = args[1:]
		case ok:
			s.vars[name] = expand.Variable{Set: true, Exported: true, Kind: expand.String, Str: value}
		default:
			return s.runProgram(args)
		}
	}
	all := s.exported()
	var out strings.Builder
	for _, k := range slices.Sorted(maps.Keys(all)) {
		out.WriteString(k + "=" + all[k] + "\n")
	}
	return s.print(out.String())
}

// date prints the time of the runtime's clock, which is UTC.
func date(s *shell, args []string) int {
	set, rest, ok := s.flags(args, "uI:d:R")
	if !ok {
		return 1
	}
	now := time.Now().UTC()
	if text, given := set['d']; given {
		n, err := strconv.ParseInt(strings.TrimPrefix(text, "@"), 10, 64)
		if err != nil {
			s.errorf("date: only -d @SECONDS is supported")
			return 1
		}
		now = time.Unix(n, 0).UTC()
	}
	format := "%a %b %e %H:%M:%S UTC %Y"
	if len(rest) == 1 && strings.HasPrefix(rest[0], "+") {
		format = rest[0][1:]
	} else if how, given := set['I']; given {
		format = "%Y-%m-%d"
		if how != "" && how != "date" {
			format = "%Y-%m-%dT%H:%M:%S+00:00"
		}
	} else if has(set, 'R') {
		format = "%a, %d %b %Y %H:%M:%S +0000"
	} else if len(rest) > 0 {
		s.errorf("date: invalid date '%s'", rest[0])
		return 1
	}
	text, err := strftime(now, format)
	if err != nil {
		s.errorf("date: %v", err)
		return 1
	}
	return s.print(text + "\n")
}

func strftime(t time.Time, format string) (string, error) {
	layouts := map[byte]string{
		'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'd': "02", 'e': "_2", 'H': "15", 'I': "03", 'm': "01", 'M': "04", 'p': "PM",
		'S': "05", 'y': "06", 'Y': "2006", 'Z': "MST", 'z': "-0700", 'F': "2006-01-02", 'T': "15:04:05", 'D': "01/02/06", 'R': "15:04",
		'j': "002", 'h': "Jan", 'c': "Mon Jan _2 15:04:05 2006",
	}
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		layout, ok := layouts[format[i]]
		switch {
		case ok:
			b.WriteString(t.Format(layout))
		case format[i] == 's':
			b.WriteString(strconv.FormatInt(t.Unix(), 10))
		case format[i] == 'N':
			fmt.Fprintf(&b, "%09d", t.Nanosecond())
		case format[i] == 'n':
			b.WriteByte('\n')
		case format[i] == '%':
			b.WriteByte('%')
		default:
			return "", fmt.Errorf("%%%c is not supported", format[i])
		}
	}
	return b.String(), nil
}

// maxSeq is the maximum number of lines that seq prints at once.
const maxSeq = 1 << 20

func seq(s *shell, args []string) int {
	set, rest, ok := s.flags(append(args[:1:1], protectNegative(args[1:])...), "ws:")
	if !ok || len(rest) < 1 || len(rest) > 3 {
		s.errorf("usage: seq [FIRST [INC]] LAST")
		return 1
	}
	var n []int
	for _, a := range rest {
		v, err := strconv.Atoi(a)
		if err != nil {
			s.errorf("seq: only integers are supported: %s", a)
			return 1
		}
		n = append(n, v)
	}
	first, step := 1, 1
	if len(n) > 1 {
		first = n[0]
	}
	if len(n) > 2 {
		step = n[1]
	}
	end := n[len(n)-1]
	if step == 0 || (end-first)/step > maxSeq {
		s.errorf("seq: too many numbers")
		return 1
	}
	between, width := "\n", 0
	if v, given := set['s']; given {
		between = v
	}
	if has(set, 'w') {
		width = max(len(strconv.Itoa(first)), len(strconv.Itoa(end)))
	}
	var lines []string
	for v := first; step > 0 && v <= end || step < 0 && v >= end; v += step {
		lines = append(lines, fmt.Sprintf("%0*d", width, v))
	}
	if len(lines) == 0 {
		return 0
	}
	return s.print(strings.Join(lines, between) + "\n")
}

// protectNegative ends the options before a negative number.
func protectNegative(args []string) []string {
	for i, a := range args {
		if len(a) < 2 || a[0] != '-' {
			break
		}
		if a[1] >= '0' && a[1] <= '9' {
			return slices.Concat(args[:i], []string{"--"}, args[i:])
		}
	}
	return args
}

func id(s *shell, args []string) int {
	set, rest, ok := s.flags(args, "ugnG")
	if !ok || len(rest) > 0 {
		return 1
	}
	user, groups := s.p.cfg.User, s.p.cfg.Groups
	if len(groups) == 0 {
		groups = []int64{0}
	}
	show := func(n int64) string {
		if has(set, 'n') {
			return accountName(n)
		}
		return strconv.FormatInt(n, 10)
	}
	all := func(show func(int64) string, between string) string {
		var names []string
		for _, g := range groups {
			names = append(names, show(g))
		}
		return strings.Join(names, between)
	}
	switch {
	case has(set, 'u'):
		return s.print(show(user) + "\n")
	case has(set, 'g'):
		return s.print(show(groups[0]) + "\n")
	case has(set, 'G'):
		return s.print(all(show, " ") + "\n")
	}
	full := func(n int64) string {
		number, name := strconv.FormatInt(n, 10), accountName(n)
		if name == number {
			return number
		}
		return number + "(" + name + ")"
	}
	return s.print("uid=" + full(user) + " gid=" + full(groups[0]) + " groups=" + all(full, ",") + "\n")
}

// Nobody is the number of the user and the group nobody.
const Nobody = 65534

// accountName returns the name that a user or a group has in most images, or the number.
func accountName(n int64) string {
	switch n {
	case 0:
		return "root"
	case Nobody:
		return "nobody"
	}
	return strconv.FormatInt(n, 10)
}

func basename(s *shell, args []string) int {
	if len(args) < 2 {
		s.errorf("usage: basename FILE [SUFFIX]")
		return 1
	}
	base := path.Base(args[1])
	if len(args) > 2 && base != args[2] {
		base = strings.TrimSuffix(base, args[2])
	}
	return s.print(base + "\n")
}
