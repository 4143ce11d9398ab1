package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// prints is a program with a condition, two conditions in one, and statements that can be
// deleted and swapped; one of them is inside another.
const prints = `package main

import "fmt"

func main() {
	a, b, n := true, false, 1
	if a || b {
		n++
		n *= 5 // a comment
		n -= 2
	}
	fmt.Println(n)
}
`

// A process has the mutant that its environment names, and none without a name.
func TestWithMutants(t *testing.T) {
	s, dir := sourceOf(t, prints), t.TempDir()
	for name, text := range map[string]string{"p.go": s.withMutants(), "mutant.go": fmt.Sprintf(chosen, s.name, variable), "go.mod": "module p\n\ngo 1.26\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-o", "p.exe", ".")
	build.Dir = dir
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	printed := func(number int) string {
		cmd := exec.Command(filepath.Join(dir, "p.exe"))
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", variable, number))
		output, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		return strings.TrimSpace(string(output))
	}
	want := map[string]string{
		"true for a || b": "8", "false for a || b": "1", "true for a": "8", "false for a": "1", "true for b": "8", "false for b": "8",
		"deleted: n++": "3", "deleted: n *= 5": "0", "deleted: n -= 2": "10",
		"swapped: n++ and n *= 5": "4", "swapped: n *= 5 and n -= 2": "0",
		"deleted: if a || b { n++ n *= 5 // a comment n -= 2 }": "1", "deleted: fmt.Println(n)": "",
		"swapped: if a || b { n++ n *= 5 // a comment n -= 2 } and fmt.Println(n)": "1",
	}
	if got := printed(0); got != "8" {
		t.Errorf("without a mutant it prints %q, want 8", got)
	}
	for _, m := range s.places {
		if got, ok := want[m.says]; !ok || printed(m.number) != got {
			t.Errorf("%s: prints %q, want %q, found: %v", m.says, printed(m.number), got, ok)
		}
	}
	if len(s.places) != len(want) {
		t.Errorf("%d places, want %d", len(s.places), len(want))
	}
}
