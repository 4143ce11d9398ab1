package sh

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// textTools returns a program that works on lines.
func textTools(name string) applet {
	switch name {
	case "grep", "egrep", "fgrep":
		return grep
	case "head":
		return head
	case "tail":
		return tail
	case "wc":
		return wc
	case "sort":
		return sortLines
	}
	return nil
}

// lines calls use for each line, with its newline if it has one, until use returns false or the process ends.
func (s *shell) lines(r io.Reader, use func(line string) bool) int {
	b := bufio.NewReader(r)
	for s.ctx.Err() == nil {
		line, err := b.ReadString('\n')
		if line != "" && !use(line) {
			return 0
		}
		if err != nil {
			return oneIf(!errors.Is(err, io.EOF))
		}
	}
	return 1
}

// basicRegexp translates a basic regular expression, in which ( ) { } | + and ? have a meaning only after a backslash.
func basicRegexp(p string) string {
	var b strings.Builder
	for i := 0; i < len(p); i++ {
		switch {
		case p[i] == '\\' && i+1 < len(p):
			if i++; !strings.ContainsRune("(){}|+?", rune(p[i])) {
				b.WriteByte('\\')
			}
			b.WriteByte(p[i])
		case strings.IndexByte("(){}|+?", p[i]) >= 0, p[i] == '*' && i == 0:
			b.WriteString(`\` + p[i:i+1])
		default:
			b.WriteByte(p[i])
		}
	}
	return b.String()
}

// grep returns 0 if a line matches, 1 if none does, and 2 after an error.
func grep(s *shell, args []string) int {
	set, rest, ok := s.flags(args, "EFivqclnohHsxwe:m:")
	pattern, given := set['e']
	if ok && !given && len(rest) > 0 {
		pattern, rest = rest[0], rest[1:]
	} else if !given {
		s.errorf("usage: grep [-EFivqclnohHsxw] [-m N] PATTERN [FILE...]")
		return 2
	}
	match, err := matcher(args[0], set, pattern)
	limit := -1
	if n, given := set['m']; given && err == nil {
		limit, err = strconv.Atoi(n)
	}
	if err != nil {
		s.errorf("grep: %v", err)
		return 2
	}
	found := false
	if has(set, 's') {
		s = s.fork()
		s.fds[2] = file{w: io.Discard}
	}
	code := s.inputs("grep", rest, func(name string, r io.Reader) int {
		prefix, count, number := "", 0, 0
		if (len(rest) > 1 || has(set, 'H')) && !has(set, 'h') {
			prefix = name + ":"
		}
		var werr int
		code := s.lines(r, func(line string) bool {
			number++
			if limit >= 0 && count >= limit {
				return false
			}
			text := strings.TrimSuffix(line, "\n")
			hits := match.FindAllString(text, -1)
			if (hits == nil) != has(set, 'v') {
				return true
			}
			found = true
			count++
			switch {
			case has(set, 'q'), has(set, 'l'):
				return false
			case has(set, 'c'):
				return true
			case !has(set, 'o'):
				hits = []string{text}
			}
			at := prefix
			if has(set, 'n') {
				at += strconv.Itoa(number) + ":"
			}
			for _, hit := range hits {
				werr = s.print(at + hit + "\n")
			}
			return werr == 0
		})
		switch {
		case has(set, 'q'):
		case has(set, 'c'):
			s.print(prefix + strconv.Itoa(count) + "\n")
		case has(set, 'l') && count > 0:
			s.print(name + "\n")
		}
		return 2 * max(code, werr)
	})
	switch {
	case found && (code == 0 || has(set, 'q')):
		return 0
	case code != 0:
		return 2
	}
	return 1
}

func matcher(name string, set map[byte]string, pattern string) (*regexp.Regexp, error) {
	var all []string
	for p := range strings.SplitSeq(pattern, "\n") {
		switch {
		case has(set, 'F') || name == "fgrep":
			p = regexp.QuoteMeta(p)
		case !has(set, 'E') && name != "egrep":
			p = basicRegexp(p)
		}
		all = append(all, "(?:"+p+")")
	}
	expr := strings.Join(all, "|")
	switch {
	case has(set, 'x'):
		expr = "^(?:" + expr + ")$"
	case has(set, 'w'):
		expr = `\b(?:` + expr + `)\b`
	}
	if has(set, 'i') {
		expr = "(?i)" + expr
	}
	return regexp.Compile(expr)
}

// amount reads -n N, -N and -c N of head and tail. A value that begins with + counts from the start, for tail.
func (s *shell) amount(args []string, more string) (set map[byte]string, names []string, n int64, fromStart, ok bool) {
	if len(args) > 1 && len(args[1]) > 1 && args[1][0] == '-' && args[1][1] >= '0' && args[1][1] <= '9' {
		args = slices.Concat(args[:1], []string{"-n", args[1][1:]}, args[2:])
	}
	set, names, ok = s.flags(args, "n:c:q"+more)
	if !ok {
		return nil, nil, 0, false, false
	}
	text := "10"
	for _, o := range []byte("nc") {
		if v, given := set[o]; given {
			text = v
		}
	}
	text, fromStart = strings.CutPrefix(text, "+")
	n, err := size(text)
	if err != nil || n < 0 {
		s.errorf("%s: invalid number '%s'", args[0], text)
		return nil, nil, 0, false, false
	}
	return set, names, n, fromStart, true
}

func head(s *shell, args []string) int {
	set, names, n, _, ok := s.amount(args, "")
	if !ok {
		return 1
	}
	return s.inputs("head", names, func(name string, r io.Reader) int {
		if len(names) > 1 && !has(set, 'q') {
			s.print("==> " + name + " <==\n")
		}
		if has(set, 'c') {
			return copied(s, s.fds[1].w, io.LimitReader(r, n))
		}
		left := n
		for ; left > 0 && s.ctx.Err() == nil; left-- {
			line, err := readLine(r)
			if err != nil && line == "" {
				break
			}
			if s.print(line+"\n") != 0 {
				return 1
			}
		}
		return 0
	})
}

func tail(s *shell, args []string) int {
	set, names, n, fromStart, ok := s.amount(args, "fF")
	if !ok {
		return 1
	}
	code := s.inputs("tail", names, func(name string, r io.Reader) int {
		if len(names) > 1 && !has(set, 'q') {
			s.print("==> " + name + " <==\n")
		}
		b, err := io.ReadAll(io.LimitReader(r, maxFile))
		if err != nil {
			return 1
		}
		return s.print(string(ending(b, n, has(set, 'c'), fromStart)))
	})
	if (has(set, 'f') || has(set, 'F')) && len(names) > 0 {
		return s.follow(names)
	}
	return code
}

// ending returns the last n lines or bytes, or those from number n on.
func ending(b []byte, n int64, count, fromStart bool) []byte {
	var parts [][]byte
	if count {
		for i := range b {
			parts = append(parts, b[i:i+1])
		}
	} else {
		parts = slices.Collect(bytes.Lines(b))
	}
	k := max(int64(len(parts))-n, 0)
	if fromStart {
		k = min(max(n-1, 0), int64(len(parts)))
	}
	return bytes.Join(parts[k:], nil)
}

// follow prints what is appended to files, once a second.
func (s *shell) follow(names []string) int {
	var files []string
	printed := map[string]int{}
	for _, name := range names {
		if _, device := s.device(s.path(name)); device || name == "-" {
			continue // no more will come
		}
		files = append(files, name)
		b, _ := s.p.cfg.Files.ReadFile(s.path(name)) // it may be created later
		printed[name] = len(b)
	}
	if len(files) == 0 {
		s.sleep(forever)
	}
	for s.sleep(time.Second) {
		for _, name := range files {
			b, err := s.p.cfg.Files.ReadFile(s.path(name))
			if err != nil {
				continue
			}
			if len(b) < printed[name] {
				printed[name] = 0
			}
			if s.print(string(b[printed[name]:])) != 0 {
				return 1
			}
			printed[name] = len(b)
		}
	}
	return 1
}

func wc(s *shell, args []string) int {
	set, names, ok := s.flags(args, "lwcm")
	if !ok {
		return 1
	}
	if len(set) == 0 {
		set = map[byte]string{'l': "", 'w': "", 'c': ""}
	}
	return s.inputs("wc", names, func(name string, r io.Reader) int {
		b, err := io.ReadAll(io.LimitReader(r, maxFile))
		var counts []string
		for o, n := range map[byte]int{'l': bytes.Count(b, []byte{'\n'}), 'w': len(bytes.Fields(b)), 'c': len(b), 'm': len([]rune(string(b)))} {
			if has(set, o) {
				counts = append(counts, string(o)+strconv.Itoa(n))
			}
		}
		slices.SortFunc(counts, func(x, y string) int { return strings.IndexByte("lwcm", x[0]) - strings.IndexByte("lwcm", y[0]) })
		for i := range counts {
			counts[i] = counts[i][1:]
		}
		if name != "-" {
			counts = append(counts, name)
		}
		return max(s.print(strings.Join(counts, " ")+"\n"), oneIf(err != nil))
	})
}

func sortLines(s *shell, args []string) int {
	set, names, ok := s.flags(args, "rnuf")
	if !ok {
		return 2
	}
	var all []string
	code := s.inputs("sort", names, func(_ string, r io.Reader) int {
		return s.lines(r, func(line string) bool {
			all = append(all, strings.TrimSuffix(line, "\n"))
			return len(all) < maxSeq
		})
	})
	number := func(line string) float64 {
		fields := append(strings.Fields(line), "")
		f, _ := strconv.ParseFloat(fields[0], 64) // other lines count as 0
		return f
	}
	compare := func(x, y string) int {
		if has(set, 'f') {
			x, y = strings.ToUpper(x), strings.ToUpper(y)
		}
		if has(set, 'n') {
			switch a, b := number(x), number(y); {
			case a < b:
				return -1
			case a > b:
				return 1
			case has(set, 'u'):
				return 0
			}
		}
		return strings.Compare(x, y)
	}
	slices.SortStableFunc(all, compare)
	if has(set, 'u') {
		all = slices.CompactFunc(all, func(x, y string) bool { return compare(x, y) == 0 })
	}
	if has(set, 'r') {
		slices.Reverse(all)
	}
	if len(all) == 0 {
		return code
	}
	return max(code, s.print(strings.Join(all, "\n")+"\n"))
}
