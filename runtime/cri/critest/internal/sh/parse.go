package sh

import (
	"errors"
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/pattern"
	"mvdan.cc/sh/v3/syntax"
)

// maxScript is the maximum length of a script. Linux limits an argument to the same size.
const maxScript = 128 << 10

// A syntaxError names the line of a script that cannot run.
type syntaxError struct {
	line       uint
	text       string
	incomplete bool // another line could complete the script
}

func (e *syntaxError) Error() string { return fmt.Sprintf("syntax error: line %d: %s", e.line, e.text) }

// parse returns a script's statements. Constructs of bash are errors in other shells.
func parse(script string, bash bool) ([]*syntax.Stmt, error) {
	if len(script) > maxScript {
		return nil, &syntaxError{line: 1, text: "the script is too long"}
	}
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
	if err != nil {
		return nil, parseError(err)
	}
	c := checker{bash: bash, quoted: map[*syntax.Word]bool{}}
	syntax.Walk(f, c.visit)
	if c.err != nil {
		return nil, c.err
	}
	return f.Stmts, nil
}

func parseError(err error) error {
	if e, ok := errors.AsType[syntax.ParseError](err); ok {
		return &syntaxError{line: e.Pos.Line(), text: e.Text, incomplete: syntax.IsIncomplete(err)}
	}
	return &syntaxError{line: 1, text: err.Error()}
}

// A checker finds constructs that this package does not run, and prepares words for package expand.
type checker struct {
	bash   bool
	quoted map[*syntax.Word]bool // words within double quotes or here documents
	err    error
}

func (c *checker) visit(n syntax.Node) bool {
	if n == nil || c.err != nil {
		return false
	}
	if text := c.unsupported(n); text != "" {
		c.err = &syntaxError{line: n.Pos().Line(), text: text + " is not supported"}
		return false
	}
	switch n := n.(type) {
	case *syntax.Redirect:
		c.quoted[n.Hdoc] = true
	case *syntax.DblQuoted:
		c.quoteWithin(n.Parts)
	case *syntax.ParamExp:
		c.prepareExpansion(n)
	case *syntax.Word:
		if c.quoted[n] {
			c.quoteWithin(n.Parts)
			break
		}
		n.Parts = c.split(n.Parts)
	}
	return true
}

func (c *checker) quoteWithin(parts []syntax.WordPart) {
	for _, p := range parts {
		if e, ok := p.(*syntax.ParamExp); ok && e.Exp != nil {
			c.quoted[e.Exp.Word] = true
		}
	}
}

// split turns escaped characters into quoted ones, which package expand treats alike everywhere. A brace is such a
// character outside of bash.
func (c *checker) split(parts []syntax.WordPart) []syntax.WordPart {
	var out []syntax.WordPart
	for _, p := range parts {
		l, ok := p.(*syntax.Lit)
		if !ok || !strings.ContainsAny(l.Value, `\{`) {
			out = append(out, p)
			continue
		}
		out = append(out, c.splitLit(l.Value)...)
	}
	return out
}

func (c *checker) splitLit(s string) (out []syntax.WordPart) {
	start := 0
	quote := func(i, n int) {
		if i > start {
			out = append(out, &syntax.Lit{Value: s[start:i]})
		}
		out = append(out, &syntax.SglQuoted{Value: s[i+n-1 : i+n]})
		start = i + n
	}
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			quote(i, 2)
			i++
		case s[i] == '{' && !c.bash:
			quote(i, 1)
		}
	}
	if start < len(s) {
		out = append(out, &syntax.Lit{Value: s[start:]})
	}
	return out
}

// prepareExpansion keeps quoted characters of patterns apart from those with a meaning: package expand removes the quotes.
func (c *checker) prepareExpansion(e *syntax.ParamExp) {
	if e.Exp == nil || e.Exp.Word == nil {
		return
	}
	switch e.Exp.Op {
	case syntax.RemSmallPrefix, syntax.RemLargePrefix, syntax.RemSmallSuffix, syntax.RemLargeSuffix:
		for i, p := range e.Exp.Word.Parts {
			if q, ok := p.(*syntax.SglQuoted); ok {
				e.Exp.Word.Parts[i] = &syntax.Lit{Value: pattern.QuoteMeta(q.Value, 0)}
			}
		}
		c.quoted[e.Exp.Word] = true
	}
}

// unsupported returns the construct's name if it is not supported.
func (c *checker) unsupported(n syntax.Node) string {
	switch n := n.(type) {
	case *syntax.Stmt:
		if n.Coprocess || n.Disown {
			return "a coprocess"
		}
	case *syntax.Assign:
		return c.assignment(n)
	case *syntax.DeclClause:
		if v := n.Variant.Value; v != "export" && v != "readonly" && v != "local" {
			return v
		}
	case *syntax.ForClause:
		if _, words := n.Loop.(*syntax.WordIter); n.Select || !words {
			return "select, or a for loop with an expression,"
		}
	case *syntax.ArithmCmd:
		if !c.bash {
			return "(("
		}
	case *syntax.TimeClause:
		return "time"
	case *syntax.CoprocClause, *syntax.TestDecl, *syntax.ProcSubst, *syntax.ExtGlob, *syntax.ArrayExpr, *syntax.FlagsArithm:
		return fmt.Sprintf("this construct of other shells (%s)", strings.TrimPrefix(fmt.Sprintf("%T", n), "*syntax."))
	case *syntax.BinaryTest:
		if !c.bash && (n.Op == syntax.AndTest || n.Op == syntax.OrTest || n.Op == syntax.TsReMatch) {
			return n.Op.String() + " in [["
		}
	case *syntax.ParenTest:
		if !c.bash {
			return "( in [["
		}
	case *syntax.BinaryCmd:
		if n.Op == syntax.PipeAll && !c.bash {
			return "|&"
		}
	case *syntax.CaseItem:
		if n.Op != syntax.Break {
			return n.Op.String()
		}
	case *syntax.DblQuoted:
		if n.Dollar {
			return `$"`
		}
	case *syntax.ArithmExp:
		if n.Bracket || n.Unsigned {
			return "$["
		}
	case *syntax.CmdSubst:
		if n.TempFile || n.ReplyVar {
			return "${ "
		}
	case *syntax.Redirect:
		return c.redirect(n)
	case *syntax.ParamExp:
		return c.parameter(n)
	}
	return ""
}

func (c *checker) assignment(a *syntax.Assign) string {
	switch {
	case a.Array != nil || a.Index != nil:
		return "an array"
	case a.Append && !c.bash:
		return "+="
	case a.Name == nil:
		return "a declaration without a name"
	}
	return ""
}

func (c *checker) redirect(r *syntax.Redirect) string {
	switch {
	case r.N != nil && (len(r.N.Value) != 1 || r.N.Value[0] < '0' || r.N.Value[0] > '9'):
		return "the file descriptor " + r.N.Value
	case r.Op == syntax.WordHdoc && !c.bash, r.Op == syntax.RdrInOut:
		return r.Op.String()
	}
	return ""
}

func (c *checker) parameter(e *syntax.ParamExp) string {
	switch {
	case e.Param == nil || e.Flags != nil || e.Width || e.IsSet || e.NestedParam != nil || e.Index != nil || e.Names != 0 ||
		len(e.Modifiers) > 0 || e.Excl && !c.bash:
		return "this form of ${}"
	case e.Exp == nil:
		return ""
	}
	switch e.Exp.Op {
	case syntax.UpperFirst, syntax.UpperAll, syntax.LowerFirst, syntax.LowerAll:
		if c.bash {
			return ""
		}
	case syntax.OtherParamOps:
	default:
		return ""
	}
	return "this form of ${}"
}
