// Command platforms type-checks all packages of a module and their tests for other platforms:
//
//	go run ./internal/rig/platforms linux/arm64 darwin/arm64 windows/amd64
//
// It reads the source of the dependencies, but not their function bodies, and generates no code. So a platform takes a few
// seconds, where a build of all packages takes minutes. Unlike a build it does not link: .ci/run builds programs besides.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	for _, platform := range os.Args[1:] {
		if err := check(ctx, platform, "./..."); err != nil {
			fmt.Fprintf(os.Stderr, "platforms: %s: %v\n", platform, err)
			os.Exit(1)
		}
		fmt.Println(platform)
	}
}

// listed is a package as go list prints it. A package with its tests has an ImportPath like "p [p.test]".
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
	Standard        bool
	Module          *struct {
		Main      bool
		GoVersion string
	}
	Error *struct{ Err string }
}

// check type-checks packages, and their dependencies as far as they need them.
func check(ctx context.Context, platform string, patterns ...string) error {
	system, processor, _ := strings.Cut(platform, "/")
	sizes := types.SizesFor("gc", processor)
	if sizes == nil {
		return errors.New("a platform is GOOS/GOARCH")
	}
	list := exec.CommandContext(ctx, "go", append([]string{"list", "-deps", "-test", "-json=ImportPath,Dir,GoFiles,ImportMap,Standard,Module,Error"}, patterns...)...)
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+processor)
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("go list: %w: %s", err, stderr.Bytes())
	}
	c := checker{sizes: sizes, fset: token.NewFileSet(), done: map[string]*types.Package{"unsafe": types.Unsafe}}
	for d := json.NewDecoder(bytes.NewReader(out)); ; { // dependencies come first
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") {
			continue // a .test has a generated main function
		}
		if p.Error != nil {
			return errors.New(p.Error.Err)
		}
		if err := c.check(p); err != nil {
			return err
		}
	}
	return nil
}

type checker struct {
	sizes types.Sizes
	fset  *token.FileSet
	done  map[string]*types.Package // by ImportPath
}

func (c *checker) check(p listed) error {
	ours := p.Module != nil && p.Module.Main
	files := make([]*ast.File, 0, len(p.GoFiles))
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(c.fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	var errs []error
	conf := types.Config{
		Importer:         importer{c, p.ImportMap},
		Sizes:            c.sizes,
		IgnoreFuncBodies: !ours,
		Error: func(err error) {
			if ours { // a dependency has unused imports without its bodies
				errs = append(errs, err)
			}
		},
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		conf.GoVersion = "go" + p.Module.GoVersion
	}
	path, _, _ := strings.Cut(p.ImportPath, " ")
	c.done[p.ImportPath], _ = conf.Check(path, c.fset, files, nil) // errs has its error
	if ours {
		errs = append(errs, c.withoutBody(files)...)
	}
	return errors.Join(errs...)
}

// withoutBody finds functions without a body, which would be in assembly: there is none in this module, and no linker looks
// for it here.
func (c *checker) withoutBody(files []*ast.File) []error {
	var errs []error
	for _, f := range files {
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Body == nil {
				errs = append(errs, fmt.Errorf("%v: %s has no body", c.fset.Position(d.Pos()), d.Name.Name))
			}
		}
	}
	return errs
}

// importer finds what one package imports.
type importer struct {
	*checker
	renamed map[string]string
}

func (i importer) Import(path string) (*types.Package, error) {
	p := i.done[cmp.Or(i.renamed[path], path)]
	if p == nil {
		return nil, fmt.Errorf("go list has not listed %s before", path)
	}
	return p, nil
}
