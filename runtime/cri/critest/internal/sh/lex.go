package sh

import (
	"errors"
	"fmt"
	"strings"
)

// A part is a piece of a word: literal text, the name of a variable, or commands whose output replaces it.
type part struct {
	text         string
	variable     bool
	substitution bool
	commands     list
}

// A word expands to exactly one argument. Unlike a shell, sh never splits an unquoted variable or
// substitution into several arguments.
type word struct {
	parts  []part
	quoted bool
}

// literal returns the word if it is plain text without quotes, otherwise "".
func (w word) literal() string {
	if w.quoted || len(w.parts) != 1 || w.parts[0].variable || w.parts[0].substitution {
		return ""
	}
	return w.parts[0].text
}

type token struct {
	op   string // "" for a word; ";" "&" "&&" "||" "(" ")" ">" ">>" "<" ">&"
	fd   int    // the file descriptor of a redirection
	word word
}

type lexer struct {
	src []rune
	pos int
	// depth is the number of substitutions that contain the script.
	depth int
}

// maxDepth is the maximum depth of nested substitutions.
const maxDepth = 10

var errBackquotes = errors.New("backquotes are not understood, use $( )")

// lex splits a script into tokens.
func lex(script string, depth int) ([]token, error) {
	l := lexer{src: []rune(script), depth: depth}
	var toks []token
	for {
		l.skipBlanks()
		if l.pos >= len(l.src) {
			return toks, nil
		}
		tok, err := l.next()
		if err != nil {
			return nil, err
		}
		toks = append(toks, tok)
	}
}

func (l *lexer) peek(ahead int) rune {
	if l.pos+ahead >= len(l.src) {
		return 0
	}
	return l.src[l.pos+ahead]
}

func (l *lexer) skipBlanks() {
	for {
		switch c := l.peek(0); {
		case c == ' ' || c == '\t':
			l.pos++
		case c == '\\' && l.peek(1) == '\n':
			l.pos += 2
		case c == '#':
			for l.pos < len(l.src) && l.src[l.pos] != '\n' {
				l.pos++
			}
		default:
			return
		}
	}
}

func (l *lexer) next() (token, error) {
	if tok, ok := l.redirection(); ok {
		return tok, nil
	}
	switch c := l.peek(0); c {
	case '\n', ';':
		l.pos++
		return token{op: ";"}, nil
	case '&', '|':
		return l.operator(c)
	case '(', ')':
		l.pos++
		return token{op: string(c)}, nil
	case '`':
		return token{}, errBackquotes
	}
	w, err := l.word()
	return token{word: w}, err
}

func (l *lexer) operator(c rune) (token, error) {
	if l.peek(1) == c {
		l.pos += 2
		return token{op: string([]rune{c, c})}, nil
	}
	if c == '|' {
		return token{}, fmt.Errorf("pipes are not understood")
	}
	l.pos++
	return token{op: "&"}, nil
}

// redirection reads [N]>, [N]>>, [N]>&M (as ">&" and the word M) and <.
func (l *lexer) redirection() (token, bool) {
	fd, at := -1, 0
	if c := l.peek(0); (c == '1' || c == '2') && l.peek(1) == '>' {
		fd, at = int(c-'0'), 1
	}
	switch l.peek(at) {
	case '<':
		l.pos += at + 1
		return token{op: "<", fd: 0}, true
	case '>':
	default:
		return token{}, false
	}
	if fd < 0 {
		fd = 1
	}
	l.pos += at + 1
	for _, op := range []rune{'>', '&'} {
		if l.peek(0) == op {
			l.pos++
			return token{op: ">" + string(op), fd: fd}, true
		}
	}
	return token{op: ">", fd: fd}, true
}

func (l *lexer) word() (word, error) {
	var w word
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			w.parts = append(w.parts, part{text: text.String()})
			text.Reset()
		}
	}
	var quote rune
	for ; l.pos < len(l.src); l.pos++ {
		c := l.src[l.pos]
		switch {
		case c == quote && quote != 0:
			quote = 0
		case quote == '\'':
			text.WriteRune(c)
		case quote == 0 && (c == '\'' || c == '"'):
			quote, w.quoted = c, true
		case c == '\\' && l.peek(1) != 0:
			l.pos++
			if quote == '"' && !strings.ContainsRune("\"$\\`", l.src[l.pos]) {
				text.WriteByte('\\')
			}
			text.WriteRune(l.src[l.pos])
			w.quoted = true
		case c == '`':
			return w, errBackquotes
		case c == '$' && l.peek(1) == '(':
			commands, err := l.substitution()
			if err != nil {
				return w, err
			}
			flush()
			w.parts = append(w.parts, part{substitution: true, commands: commands})
		case c == '$':
			if name := l.variable(); name != "" {
				flush()
				w.parts = append(w.parts, part{text: name, variable: true})
			} else {
				text.WriteByte('$')
			}
		case quote == 0 && strings.ContainsRune(" \t\n;&|()<>", c):
			flush()
			return w, nil
		default:
			text.WriteRune(c)
		}
	}
	flush()
	if quote != 0 {
		return w, fmt.Errorf("unterminated quote")
	}
	return w, nil
}

// substitution reads the commands of $( ) and leaves the position on the closing parenthesis.
func (l *lexer) substitution() (list, error) {
	if l.peek(2) == '(' {
		return nil, errors.New("arithmetic is not understood, use expr")
	}
	if l.depth == maxDepth {
		return nil, fmt.Errorf("more than %d substitutions in each other are not understood", maxDepth)
	}
	first := l.pos + 2
	open := 1
	var quote rune
	for l.pos = first; l.pos < len(l.src); l.pos++ {
		switch c := l.src[l.pos]; {
		case quote != 0 && c == quote:
			quote = 0
		case c == '\\' && quote != '\'':
			l.pos++
		case quote != 0:
		case c == '\'' || c == '"':
			quote = c
		case c == '(':
			open++
		case c == ')':
			if open--; open == 0 {
				return parseAt(string(l.src[first:l.pos]), l.depth+1)
			}
		}
	}
	return nil, errors.New("unterminated $(")
}

// variable reads a name after '$' and leaves the position on its last rune.
func (l *lexer) variable() string {
	rest := l.src[l.pos+1:]
	if len(rest) == 0 {
		return ""
	}
	if rest[0] == '?' || rest[0] == '$' {
		l.pos++
		return string(rest[0])
	}
	open := rest[0] == '{'
	if open {
		rest = rest[1:]
	}
	n := 0
	for n < len(rest) && isNameRune(rest[n]) {
		n++
	}
	if n == 0 || open && (n >= len(rest) || rest[n] != '}') {
		return ""
	}
	l.pos += n
	if open {
		l.pos += 2
	}
	return string(rest[:n])
}

func isNameRune(c rune) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
