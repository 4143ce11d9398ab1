package sh

import (
	"regexp"
	"strconv"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// test returns 0 if a condition holds, 1 if it does not, and 2 if it is none.
func test(s *shell, args []string) int {
	if end := map[string]string{"[": "]", "[[": "]]"}[args[0]]; end != "" {
		if args[len(args)-1] != end {
			s.errorf("%s: missing %s", args[0], end)
			return 2
		}
		args = args[:len(args)-1]
	}
	t := tester{s: s, args: args[1:]}
	if len(t.args) == 0 {
		return 1
	}
	holds := t.or()
	if t.bad == "" && len(t.args) > 0 {
		t.bad = t.args[0] + ": unknown operand"
	}
	if t.bad != "" {
		s.errorf("sh: %s", t.bad)
		return 2
	}
	return oneIf(!holds)
}

// A tester reads a condition from its arguments.
type tester struct {
	s    *shell
	args []string
	bad  string // what it does not understand, for a message
}

func (t *tester) next() string {
	a := t.args[0]
	t.args = t.args[1:]
	return a
}

func (t *tester) or() bool {
	holds := t.and()
	for len(t.args) > 0 && t.args[0] == "-o" {
		t.next()
		right := t.and()
		holds = holds || right
	}
	return holds
}

func (t *tester) and() bool {
	holds := t.not()
	for len(t.args) > 0 && t.args[0] == "-a" {
		t.next()
		right := t.not()
		holds = holds && right
	}
	return holds
}

func (t *tester) not() bool {
	if len(t.args) > 1 && t.args[0] == "!" && !(len(t.args) > 2 && isBinary(t.args[1])) {
		t.next()
		return !t.not()
	}
	return t.primary()
}

func (t *tester) primary() bool {
	switch {
	case len(t.args) == 0:
		t.bad = "argument expected"
		return false
	case len(t.args) > 2 && isBinary(t.args[1]):
		left, op, right := t.next(), t.next(), t.next()
		holds, ok := t.s.compare(left, op, right)
		if !ok {
			t.bad = left + ": bad number"
			if _, err := strconv.Atoi(left); err == nil {
				t.bad = right + ": bad number"
			}
		}
		return holds
	case t.args[0] == "(" && len(t.args) > 2:
		t.next()
		holds := t.or()
		if len(t.args) == 0 || t.next() != ")" {
			t.bad = "closing paren expected"
		}
		return holds
	case len(t.args) > 1 && len(t.args[0]) == 2 && t.args[0][0] == '-':
		op, arg := t.next(), t.next()
		holds, ok := t.s.holds(op, arg)
		if !ok {
			t.bad = op + ": unknown operand"
		}
		return holds
	}
	return t.next() != ""
}

func isBinary(op string) bool {
	switch op {
	case "=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef":
		return true
	}
	return false
}

// holds reports whether a condition holds for a file or text.
func (s *shell) holds(op, arg string) (holds, ok bool) {
	switch op {
	case "-n":
		return arg != "", true
	case "-z":
		return arg == "", true
	case "-t":
		return s.p.cfg.Terminal, true
	case "-v":
		return s.vars[arg].Set, true
	}
	if _, device := s.device(s.path(arg)); device {
		return op == "-e" || op == "-r" || op == "-w" || op == "-c", true
	}
	info, err := s.p.cfg.Files.Stat(s.path(arg))
	switch op {
	case "-e", "-r", "-w":
		return err == nil, true
	case "-f":
		return err == nil && info.Mode().IsRegular(), true
	case "-d":
		return err == nil && info.IsDir(), true
	case "-x":
		return err == nil && (info.IsDir() || info.Mode()&0o111 != 0), true
	case "-s":
		return err == nil && info.Size() > 0, true
	case "-b", "-c", "-g", "-h", "-k", "-L", "-p", "-S", "-u":
		return false, true
	}
	return false, false
}

func (s *shell) compare(left, op, right string) (holds, ok bool) {
	switch op {
	case "=", "==":
		return left == right, true
	case "!=":
		return left != right, true
	case "<":
		return left < right, true
	case ">":
		return left > right, true
	case "-nt", "-ot", "-ef":
		a, errA := s.p.cfg.Files.Stat(s.path(left))
		b, errB := s.p.cfg.Files.Stat(s.path(right))
		switch {
		case op == "-ef":
			return errA == nil && s.path(left) == s.path(right), true
		case op == "-ot":
			a, errA, b, errB = b, errB, a, errA
		}
		return errA == nil && (errB != nil || a.ModTime().After(b.ModTime())), true
	}
	a, errA := strconv.Atoi(left)
	b, errB := strconv.Atoi(right)
	holds, known := map[string]bool{"-eq": a == b, "-ne": a != b, "-lt": a < b, "-le": a <= b, "-gt": a > b, "-ge": a >= b}[op]
	return holds, known && errA == nil && errB == nil
}

// testClause is [[ ]].
func (s *shell) testClause(x syntax.TestExpr) int {
	holds, err := s.testExpr(x)
	if err != nil {
		s.expandFailed(err)
		return s.last
	}
	return oneIf(!holds)
}

func (s *shell) testExpr(x syntax.TestExpr) (bool, error) {
	switch x := x.(type) {
	case *syntax.ParenTest:
		return s.testExpr(x.X)
	case *syntax.UnaryTest:
		if x.Op == syntax.TsNot {
			holds, err := s.testExpr(x.X)
			return !holds, err
		}
		w, _ := x.X.(*syntax.Word)
		arg, err := expand.Literal(s.cfg, w)
		holds, ok := s.holds(x.Op.String(), arg)
		if err == nil && !ok {
			err = &syntaxError{line: x.Pos().Line(), text: x.Op.String() + " is not supported"}
		}
		return holds, err
	case *syntax.BinaryTest:
		return s.binaryTest(x)
	case *syntax.Word:
		text, err := expand.Literal(s.cfg, x)
		return text != "", err
	}
	return false, &syntaxError{line: x.Pos().Line(), text: "this condition is not supported"}
}

func (s *shell) binaryTest(x *syntax.BinaryTest) (bool, error) {
	if x.Op == syntax.AndTest || x.Op == syntax.OrTest {
		holds, err := s.testExpr(x.X)
		if err != nil || holds == (x.Op == syntax.OrTest) {
			return holds, err
		}
		return s.testExpr(x.Y)
	}
	left, _ := x.X.(*syntax.Word)
	right, _ := x.Y.(*syntax.Word)
	a, err := expand.Literal(s.cfg, left)
	if err != nil {
		return false, err
	}
	switch x.Op {
	case syntax.TsMatch, syntax.TsMatchShort, syntax.TsNoMatch:
		p, err := expand.Pattern(s.cfg, right)
		return match(p, a) != (x.Op == syntax.TsNoMatch), err
	case syntax.TsReMatch:
		p, err := expand.Literal(s.cfg, right)
		if err != nil {
			return false, err
		}
		rx, err := regexp.Compile(p)
		return err == nil && rx.MatchString(a), err
	}
	b, err := expand.Literal(s.cfg, right)
	if err != nil {
		return false, err
	}
	holds, ok := s.compare(a, x.Op.String(), b)
	if !ok {
		return false, &syntaxError{line: x.Pos().Line(), text: a + " " + x.Op.String() + " " + b + " is not a comparison of numbers"}
	}
	return holds, nil
}
