package sh

import (
	"regexp"
	"strconv"
)

// expr prints the value of an expression. As in expr, 0 and the empty text have the exit code 1.
func expr(s *shell, args []string) int {
	e := expression{args: args[1:]}
	value := e.binary(0)
	if e.err != "" || len(e.args) > 0 {
		s.errorf("expr: %s", map[bool]string{true: "syntax error", false: e.err}[e.err == ""])
		return 2
	}
	if s.print(value+"\n") != 0 {
		return 3
	}
	return oneIf(value == "" || value == "0")
}

// An expression reads operators by precedence.
type expression struct {
	args []string
	err  string
}

func precedence(op string) int {
	switch op {
	case "|":
		return 1
	case "&":
		return 2
	case "=", "==", "!=", "<", "<=", ">", ">=":
		return 3
	case "+", "-":
		return 4
	case "*", "/", "%":
		return 5
	case ":":
		return 6
	}
	return 0
}

func (e *expression) binary(above int) string {
	left := e.operand()
	for e.err == "" && len(e.args) > 0 {
		op := e.args[0]
		p := precedence(op)
		if p <= above {
			break
		}
		e.args = e.args[1:]
		left = e.apply(left, op, e.binary(p))
	}
	return left
}

func (e *expression) operand() string {
	if len(e.args) == 0 {
		e.err = "syntax error"
		return ""
	}
	a := e.args[0]
	e.args = e.args[1:]
	switch {
	case a == "(":
		value := e.binary(0)
		if len(e.args) == 0 || e.args[0] != ")" {
			e.err = "syntax error"
			return ""
		}
		e.args = e.args[1:]
		return value
	case a == "length" && len(e.args) > 0:
		return strconv.Itoa(len([]rune(e.operand())))
	}
	return a
}

func (e *expression) apply(left, op, right string) string {
	if e.err != "" {
		return ""
	}
	null := func(v string) bool { return v == "" || v == "0" }
	switch op {
	case "|":
		if !null(left) {
			return left
		}
		return right
	case "&":
		if null(left) || null(right) {
			return "0"
		}
		return left
	case ":":
		return e.match(left, right)
	}
	a, errA := strconv.Atoi(left)
	b, errB := strconv.Atoi(right)
	numbers := errA == nil && errB == nil
	if precedence(op) == 3 {
		less, same := left < right, left == right
		if numbers {
			less, same = a < b, a == b
		}
		holds := map[string]bool{"=": same, "==": same, "!=": !same, "<": less, "<=": less || same, ">": !less && !same, ">=": !less}[op]
		return strconv.Itoa(oneIf(holds))
	}
	switch {
	case !numbers:
		e.err = "non-numeric argument"
	case (op == "/" || op == "%") && b == 0:
		e.err = "division by zero"
	case op == "+":
		return strconv.Itoa(a + b)
	case op == "-":
		return strconv.Itoa(a - b)
	case op == "*":
		return strconv.Itoa(a * b)
	case op == "/":
		return strconv.Itoa(a / b)
	default:
		return strconv.Itoa(a % b)
	}
	return ""
}

// match returns the part that \( \) has matched, or how many characters match.
func (e *expression) match(left, right string) string {
	rx, err := regexp.Compile("^(?:" + basicRegexp(right) + ")")
	if err != nil {
		e.err = err.Error()
		return ""
	}
	m := rx.FindStringSubmatch(left)
	switch {
	case len(m) > 1:
		return m[1]
	case m == nil && rx.NumSubexp() > 0:
		return ""
	case m == nil:
		return "0"
	}
	return strconv.Itoa(len([]rune(m[0])))
}
