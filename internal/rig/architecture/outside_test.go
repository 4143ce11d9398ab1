package architecture

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// TestExamplesBuildOutside builds the examples of the root module in another module, outside the repository, as a reader who has
// copied them does. The other examples are modules of their own already.
func TestExamplesBuildOutside(t *testing.T) {
	dir := t.TempDir()
	files := repositoryFiles(t)
	own := map[string]bool{}
	for _, file := range files {
		if path.Base(file) == "go.mod" {
			own[path.Dir(file)] = true
		}
	}
	copied := map[string]bool{}
	for _, file := range files {
		if !strings.HasPrefix(file, "examples/") || isIn(own, path.Dir(file)) {
			continue
		}
		to := filepath.Join(dir, strings.TrimPrefix(file, "examples/"))
		must.Do(t, os.MkdirAll(filepath.Dir(to), 0o755))
		must.Do(t, os.WriteFile(to, []byte(read(t, file)), 0o600))
		copied[strings.Split(file, "/")[1]] = true
	}
	if len(copied) < 8 {
		t.Fatalf("only %v are copied", copied)
	}
	repository := must.Get(filepath.Abs(root))(t)
	mod := strings.Replace(read(t, "go.mod"), "module "+module, "module example.com/outside", 1) +
		"\nrequire " + module + " v0.0.0\n\nreplace " + module + " => " + repository + "\n"
	for name, text := range map[string]string{"go.mod": mod, "go.sum": read(t, "go.sum")} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	build := exec.Command("go", "build", "./...") // with several programs it discards them, and links none
	build.Dir = dir
	build.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod", "GOPROXY=off", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// isIn reports whether a directory is one of dirs, or below one.
func isIn(dirs map[string]bool, dir string) bool {
	for ; dir != "."; dir = path.Dir(dir) {
		if dirs[dir] {
			return true
		}
	}
	return false
}
