package env

import (
	"fmt"
)

// set lists variables, each name once, at its first position. It is limited to what the kernel
// accepts for a process.
type set struct {
	list   []Var
	index  map[string]int
	budget Budget
}

func newSet() *set { return &set{index: map[string]int{}} }

// set sets a variable. If the variable is too long, it returns an error, and the set must not be used any more.
func (s *set) set(name, value string) error {
	i, again := s.index[name]
	if again {
		s.budget.Remove(size(name, s.list[i].Value))
	}
	if err := s.budget.Add(size(name, value)); err != nil {
		return err
	}
	if again {
		s.list[i].Value = value
		return nil
	}
	s.index[name] = len(s.list)
	s.list = append(s.list, Var{name, value})
	return nil
}

// left returns the maximum length for a variable's value in bytes, negative if the variable does not
// fit.
func (s *set) left(name string) int {
	budget := s.without(name)
	return budget.Left() - size(name, "")
}

func (s *set) tooLong(name string) error {
	budget := s.without(name)
	return budget.TooLong()
}

// without returns the budget without a variable that is about to be replaced.
func (s *set) without(name string) Budget {
	budget := s.budget
	if value, ok := s.lookup(name); ok {
		budget.Remove(size(name, value))
	}
	return budget
}

// setNamed is set with an error that names the variable.
func (s *set) setNamed(name, value string) error {
	if err := s.set(name, value); err != nil {
		return fmt.Errorf("variable %s: %w", name, err)
	}
	return nil
}

func (s *set) lookup(name string) (string, bool) {
	if i, ok := s.index[name]; ok {
		return s.list[i].Value, true
	}
	return "", false
}

// size returns a variable's length in the form NAME=value, which a process receives.
func size(name, value string) int { return len(name) + len("=") + len(value) }
