package documents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// fields are package names of the standard library and of Kubernetes in documents.
var fields = map[string]string{
	"atomic":     "sync/atomic",
	"codes":      "google.golang.org/grpc/codes",
	"context":    "context",
	"errors":     "errors",
	"fmt":        "fmt",
	"grpc":       "google.golang.org/grpc",
	"http":       "net/http",
	"net":        "net",
	"k8sruntime": "k8s.io/apimachinery/pkg/runtime",
	"kubernetes": "k8s.io/client-go/kubernetes",
	"metav1":     "k8s.io/apimachinery/pkg/apis/meta/v1",
	"slog":       "log/slog",
	"synctest":   "testing/synctest",
	"testing":    "testing",
	"time":       "time",
	"types":      "k8s.io/apimachinery/pkg/types",
	"v1":         "k8s.io/api/core/v1",
}

// modules are the packages of other modules in documents, by their paths in the repository.
var modules = map[string]string{
	"clustertest": "modules/cluster/clustertest",
	"csi":         "modules/csi",
	"csitest":     "modules/csi/csitest",
	"prometheus":  "modules/prometheus",
}

const module = "github.com/podsync/podsync"

// Packages returns the import paths of the packages that documents may name, by their names.
func Packages(root string) (map[string]string, error) {
	cmd := exec.Command("go", "list", "-f", "{{.Name}} {{.ImportPath}}", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	packages := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		name, path, _ := strings.Cut(line, " ")
		if name != "main" && !strings.Contains(path, "/internal/") && !strings.Contains(path, "/examples/") {
			packages[name] = path
		}
	}
	for name, path := range fields {
		packages[name] = path
	}
	for name, path := range modules {
		packages[name] = module + "/" + path
	}
	return packages, nil
}

// moduleOf returns the directory of the module in which a file compiles.
func moduleOf(source []byte) string {
	for _, path := range modules {
		if bytes.Contains(source, []byte(`"`+module+"/"+path+`"`)) {
			parts := strings.SplitN(path, "/", 3)
			return filepath.Join(parts[0], parts[1])
		}
	}
	return "."
}

// A Package has the Go files of a package.
type Package [][]byte

// Compile compiles packages in the module below root whose directory is dir. They exist in an overlay only, with its files
// in scratch. The error has the messages of the compiler.
func Compile(root, dir string, packages []Package, scratch string) error {
	const place = "internal/compiled"
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for i, files := range packages {
		for j, source := range files {
			file := filepath.Join(scratch, fmt.Sprintf("%d-%d.go", i, j))
			if err := os.WriteFile(file, source, 0o600); err != nil {
				return err
			}
			overlay.Replace[filepath.Join(root, dir, place, fmt.Sprintf("p%d", i), fmt.Sprintf("f%d.go", j))] = file
		}
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return err
	}
	file := filepath.Join(scratch, "overlay.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-overlay", file, "./"+place+"/...")
	cmd.Dir = filepath.Join(root, dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}
