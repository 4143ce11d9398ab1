package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A module is right for Linux. On Windows a file uses a name that syscall has only on Linux, a test does not compile on
// macOS, and one function has no body on arm64.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":           "module example.com/m\n\ngo 1.26\n",
		"a.go":             "package m\n\nfunc use() {}\n",
		"a_windows.go":     "package m\n\nimport \"syscall\"\n\nvar _ = syscall.Unshare\n",
		"a_linux.go":       "package m\n\nimport \"syscall\"\n\nvar _ = syscall.Unshare\n",
		"a_linux_arm64.go": "package m\n\nfunc assembly()\n",
		"a_darwin_test.go": "package m_test\n\nvar _ int = \"x\"\n",
		"a_test.go":        "package m\n\nimport \"testing\"\n\nfunc Test(*testing.T) { use() }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for platform, want := range map[string]string{
		"linux/amd64":   "",
		"linux/arm64":   "assembly has no body",
		"windows/amd64": "undefined: syscall.Unshare",
		"darwin/arm64":  "a_darwin_test.go:3:13",
		"plan9":         "GOOS/GOARCH",
		"linux/6502":    "GOOS/GOARCH",
	} {
		err := check(t.Context(), platform, "./...")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", platform, err, want)
		}
	}
}
