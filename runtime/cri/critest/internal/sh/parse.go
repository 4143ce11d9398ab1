package sh

import (
	"fmt"
	"slices"
	"strings"
)

// A list is commands in order. Each has the operator that joins it to the previous one.
type list []item

type item struct {
	command    command
	join       string // "", "&&" or "||"
	background bool
}

// A command is exactly one of these forms.
type command struct {
	simple   *simple
	loop     *loop
	branch   *branch
	group    list // ( list ) and { list; }
	subshell bool // the group is in parentheses
}

type simple struct {
	words  []word
	redirs []redirection
}

type redirection struct {
	op     string
	fd     int
	target word
}

type loop struct {
	cond, body list
	until      bool
}

type branch struct {
	cond, then, otherwise list
}

type parser struct {
	toks []token
	pos  int
}

func parse(script string) (list, error) { return parseAt(script, 0) }

// parseAt parses a script inside depth substitutions.
func parseAt(script string, depth int) (list, error) {
	toks, err := lex(script, depth)
	if err != nil {
		return nil, err
	}
	p := parser{toks: toks}
	l, err := p.list()
	if err != nil {
		return nil, err
	}
	if p.pos < len(p.toks) {
		return nil, fmt.Errorf("unexpected %q", p.describe())
	}
	return l, nil
}

func (p *parser) at(op string) bool {
	return p.pos < len(p.toks) && p.toks[p.pos].op == op
}

// atWord reports whether the next token is one of these keywords.
func (p *parser) atWord(keywords ...string) bool {
	return p.at("") && slices.Contains(keywords, p.toks[p.pos].word.literal())
}

func (p *parser) describe() string {
	if p.pos >= len(p.toks) {
		return "end of script"
	}
	if t := p.toks[p.pos]; t.op != "" {
		return t.op
	}
	return p.toks[p.pos].word.literal()
}

func (p *parser) expect(keyword string) error {
	if !p.atWord(keyword) {
		return fmt.Errorf("expected %q, found %q", keyword, p.describe())
	}
	p.pos++
	return nil
}

// list parses commands up to the end, a closing parenthesis, or a keyword that ends the enclosing
// construct.
func (p *parser) list() (list, error) {
	var l list
	join := ""
	for {
		for join == "" && p.at(";") {
			p.pos++
		}
		if p.pos >= len(p.toks) || p.at(")") || p.atWord("do", "done", "then", "else", "fi", "}") {
			if join != "" {
				return nil, fmt.Errorf("nothing after %q", join)
			}
			return l, nil
		}
		c, err := p.command()
		if err != nil {
			return nil, err
		}
		it := item{command: c, join: join}
		join = ""
		switch {
		case p.at("&"):
			if it.join != "" {
				return nil, fmt.Errorf("a chain of commands in the background is not understood")
			}
			it.background = true
			p.pos++
		case p.at("&&"), p.at("||"):
			join = p.toks[p.pos].op
			p.pos++
		case p.at(";"):
			p.pos++
		}
		l = append(l, it)
	}
}

func (p *parser) command() (command, error) {
	switch {
	case p.atWord("while", "until"):
		return p.loop()
	case p.atWord("if"):
		return p.branch()
	case p.atWord("{"):
		p.pos++
		l, err := p.list()
		if err != nil {
			return command{}, err
		}
		return command{group: l}, p.expect("}")
	case p.at("("):
		p.pos++
		l, err := p.list()
		if err == nil && !p.at(")") {
			err = fmt.Errorf("expected \")\", found %q", p.describe())
		}
		p.pos++
		return command{group: l, subshell: true}, err
	case p.atWord("for", "case", "function"):
		return command{}, fmt.Errorf("%q is not understood", p.describe())
	}
	return p.simple()
}

func (p *parser) loop() (command, error) {
	l := &loop{until: p.atWord("until")}
	p.pos++
	var err error
	if l.cond, err = p.list(); err != nil {
		return command{}, err
	}
	if err := p.expect("do"); err != nil {
		return command{}, err
	}
	if l.body, err = p.list(); err != nil {
		return command{}, err
	}
	return command{loop: l}, p.expect("done")
}

func (p *parser) branch() (command, error) {
	b := &branch{}
	p.pos++
	var err error
	if b.cond, err = p.list(); err != nil {
		return command{}, err
	}
	if err := p.expect("then"); err != nil {
		return command{}, err
	}
	if b.then, err = p.list(); err != nil {
		return command{}, err
	}
	if p.atWord("else") {
		p.pos++
		if b.otherwise, err = p.list(); err != nil {
			return command{}, err
		}
	}
	return command{branch: b}, p.expect("fi")
}

func (p *parser) simple() (command, error) {
	s := &simple{}
	for p.pos < len(p.toks) {
		t := p.toks[p.pos]
		switch {
		case t.op == "":
			s.words = append(s.words, t.word)
			p.pos++
			continue
		case strings.HasPrefix(t.op, ">") || t.op == "<":
			p.pos++
			if !p.at("") {
				return command{}, fmt.Errorf("no file after %q", t.op)
			}
			s.redirs = append(s.redirs, redirection{op: t.op, fd: t.fd, target: p.toks[p.pos].word})
			p.pos++
			continue
		}
		break
	}
	if len(s.words) == 0 && len(s.redirs) == 0 {
		return command{}, fmt.Errorf("unexpected %q", p.describe())
	}
	return command{simple: s}, nil
}
