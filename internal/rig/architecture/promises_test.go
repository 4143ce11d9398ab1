package architecture

import (
	"cmp"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// substitution is s/PATTERN/TEXT/ of perl, in which a slash of either part has a backslash before it.
var substitution = regexp.MustCompile(`^s/((?:[^/\\]|\\.)+)/((?:[^/\\]|\\.)*)/$`)

// TestMechanismsOfPromises: each line of internal/rig/promises/mechanisms breaks its file as it is today, in a way that the parser of Go
// accepts, and names tests that exist. So the script beside it, which compiles for hours, removes the mechanisms that it means.
func TestMechanismsOfPromises(t *testing.T) {
	tests, tried := allTests(t), 0
	for line := range strings.Lines(read(t, "internal/rig/promises/mechanisms")) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		tried++
		for _, fault := range mechanismFaults(line, tests) {
			t.Errorf("%s: %s", line, fault)
		}
	}
	if tried < 35 {
		t.Errorf("%d mechanisms", tried)
	}
}

// mechanismFaults returns the errors of a line.
func mechanismFaults(line string, tests []testFunction) (faults []string) {
	fields := strings.SplitN(line, " ", 3)
	if len(fields) != 3 {
		return []string{"it has no three fields"}
	}
	dir, names, _ := strings.Cut(fields[1], ":")
	for name := range strings.SplitSeq(names, "|") {
		if !slices.Contains(tests, testFunction{name, dir}) {
			faults = append(faults, name+" does not exist in "+dir)
		}
	}
	s := substitution.FindStringSubmatch(fields[2])
	if s == nil {
		return append(faults, "its third field is no s/PATTERN/TEXT/")
	}
	pattern, err := regexp.Compile(strings.ReplaceAll(s[1], `\/`, "/"))
	if err != nil {
		return append(faults, err.Error())
	}
	text, err := os.ReadFile(filepath.Join(root, fields[0]))
	if err != nil {
		return append(faults, err.Error())
	}
	at := pattern.FindIndex(text)
	if at == nil {
		return append(faults, "its pattern is not in the file")
	}
	with := regexp.MustCompile(`\\(.)`).ReplaceAllStringFunc(s[2], func(escaped string) string {
		return cmp.Or(map[string]string{`\n`: "\n", `\t`: "\t"}[escaped], escaped[1:])
	})
	broken := string(text[:at[0]]) + with + string(text[at[1]:])
	if _, err := parser.ParseFile(token.NewFileSet(), "", broken, parser.SkipObjectResolution); err != nil || broken == string(text) {
		faults = append(faults, "the broken file is the same, or is not Go")
	}
	return faults
}

// TestMechanismRule: a pattern that has moved, a test that does not exist and a file that does not parse are found.
func TestMechanismRule(t *testing.T) {
	const file, names = "runtime/hostfs/regular.go", " runtime/hostfs:TestRead "
	tests := []testFunction{{"TestRead", "runtime/hostfs"}}
	for line, want := range map[string]int{
		file + names + `s/info\.Size\(\) > limit/false/`:       0,
		file + names + `s/info\.Size\(\) > limits/false/`:      1,
		file + names + `s/info\.Size\(\) > limit/(/`:           1,
		file + ` internal:TestRead s/info\.Size\(\) > limit//`: 2,
		"none.go" + names + `s/a/b/`:                           1,
		file + names + `y/a/b/`:                                1,
		file:                                                   1,
	} {
		if faults := mechanismFaults(line, tests); len(faults) != want {
			t.Errorf("%s: %q, want %d faults", line, faults, want)
		}
	}
}
