package main

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

//go:embed mutants.txt
var list string

// mutant is a change to one file.
type mutant struct {
	// number is its place in the list, from 1 on.
	number int
	// row is the name of the row in docs/FAILURES.md whose mechanism it breaks, and breaks describes the defect.
	row, breaks string
	// file is its path from the root of the module.
	file string
	// tests is the package whose tests must notice it, such as ./podworkers, because no
	// life can. It is empty if a life must notice it.
	tests string
	// from is the text that is replaced, and to what takes its place.
	from, to string
}

// mutants parses the list. The first line of each paragraph has the row and the file, and for a
// mutant that no life shows the package with the tests; the second line describes the mutant. Lines
// with a minus are replaced by those with a plus.
func mutants(list string) ([]mutant, error) {
	var all []mutant
	for _, paragraph := range strings.Split(strings.TrimSpace(list), "\n\n") {
		m := mutant{number: len(all) + 1}
		for i, line := range strings.Split(paragraph, "\n") {
			switch {
			case i == 0:
				m.row, m.file, _ = strings.Cut(line, " ")
				m.file, m.tests, _ = strings.Cut(m.file, " ")
			case i == 1:
				m.breaks = line
			case strings.HasPrefix(line, "-"):
				m.from += line[1:] + "\n"
			case strings.HasPrefix(line, "+"):
				m.to += line[1:] + "\n"
			default:
				return nil, fmt.Errorf("mutant %d: the line %q begins with neither - nor +", m.number, line)
			}
		}
		if m.row == "" || m.file == "" || m.breaks == "" || m.from == "" {
			return nil, fmt.Errorf("mutant %d: row, file, what is broken or the text to replace is missing", m.number)
		}
		all = append(all, m)
	}
	return all, nil
}

// mutated returns the file of a mutant as it has it. The text that is replaced must be whole
// lines that are in the file exactly once.
func (m mutant) mutated(root string) (string, error) {
	source, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return "", err
	}
	before, after, found := strings.Cut("\n"+string(source), "\n"+m.from)
	if !found || strings.Contains("\n"+after, "\n"+m.from) {
		return "", fmt.Errorf("mutant %d (%s): its text is in %s not exactly once:\n%s", m.number, m.row, m.file, m.from)
	}
	return strings.TrimPrefix(before+"\n"+m.to+after, "\n"), nil
}
