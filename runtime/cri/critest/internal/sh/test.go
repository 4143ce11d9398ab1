package sh

import (
	"fmt"
	"strconv"
)

// test supports -e, -f, -r, -s, -n, -z, =, !=, comparisons of integers and a leading !.
func test(s *shell, args []string, io stdio) int {
	if end := map[string]string{"[": "]", "[[": "]]"}[args[0]]; end != "" {
		if args[len(args)-1] != end {
			fmt.Fprintf(io.err, "%s: missing %s\n", args[0], end)
			return 2
		}
		args = args[:len(args)-1]
	}
	args = args[1:]
	not := len(args) > 1 && args[0] == "!"
	if not {
		args = args[1:]
	}
	holds, ok := s.holds(args)
	switch {
	case !ok:
		fmt.Fprintln(io.err, "test: only -e, -f, -r, -s, -n, -z, =, !=, -eq, -ne, -lt, -le, -gt and -ge are understood")
		return 2
	case holds == not:
		return 1
	}
	return 0
}

func (s *shell) holds(args []string) (holds, ok bool) {
	switch len(args) {
	case 0:
		return false, true
	case 1:
		return args[0] != "", true
	case 2:
		return s.holdsOf(args[0], args[1])
	case 3:
		return compare(args[0], args[1], args[2])
	}
	return false, false
}

// holdsOf reports whether a condition holds for a file or text.
func (s *shell) holdsOf(op, arg string) (holds, ok bool) {
	switch op {
	case "-e", "-f", "-r":
		return s.p.cfg.Files.Exists(file(arg)), true
	case "-s":
		b, err := s.p.cfg.Files.ReadFile(file(arg))
		return err == nil && len(b) > 0, true
	case "-n":
		return arg != "", true
	case "-z":
		return arg == "", true
	}
	return false, false
}

func compare(left, op, right string) (holds, ok bool) {
	switch op {
	case "=", "==":
		return left == right, true
	case "!=":
		return left != right, true
	}
	a, errA := strconv.Atoi(left)
	b, errB := strconv.Atoi(right)
	holds, known := map[string]bool{"-eq": a == b, "-ne": a != b, "-lt": a < b, "-le": a <= b, "-gt": a > b, "-ge": a >= b}[op]
	return holds, known && errA == nil && errB == nil
}

// expr supports one operation on two integers. As in expr, the result 0 has the exit code 1.
func expr(_ *shell, args []string, io stdio) int {
	result, ok := 0, false
	if len(args) == 4 {
		result, ok = calculate(args[1], args[2], args[3])
	}
	if !ok {
		fmt.Fprintln(io.err, "expr: only A + B, A - B, A * B, A / B and A % B are understood")
		return 2
	}
	fmt.Fprintln(io.out, result)
	if result == 0 {
		return 1
	}
	return 0
}

func calculate(left, op, right string) (result int, ok bool) {
	a, errA := strconv.Atoi(left)
	b, errB := strconv.Atoi(right)
	if errA != nil || errB != nil || b == 0 && (op == "/" || op == "%") {
		return 0, false
	}
	switch op {
	case "+":
		return a + b, true
	case "-":
		return a - b, true
	case "*":
		return a * b, true
	case "/":
		return a / b, true
	case "%":
		return a % b, true
	}
	return 0, false
}
