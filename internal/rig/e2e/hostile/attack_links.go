//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// flip changes the name sub, as fast as it can, between a directory of the volume, a link to it, a link out of the volume,
// and nothing. The directory has no file inner, but the target of the link that leads out has one.
func flip(volume, out string) {
	at := func(name string) string { return filepath.Join(volume, name) }
	for {
		_ = os.RemoveAll(at("sub"))
		_ = os.Mkdir(at("dir"), 0o777)
		for range 200 {
			_ = os.Symlink(out, at("out"))
			_ = os.Rename(at("out"), at("sub"))
			_ = os.Symlink("dir", at("in"))
			_ = os.Rename(at("in"), at("sub"))
			_ = os.Remove(at("dir/inner"))
		}
		_ = os.Remove(at("sub"))
		_ = os.Symlink(out, at("out"))
		for range 200 {
			_ = os.Rename(at("dir"), at("sub"))
			_ = os.Remove(at("sub/inner"))
			_ = os.Rename(at("sub"), at("dir"))
			_ = os.Rename(at("out"), at("sub"))
			_ = os.Rename(at("sub"), at("out"))
		}
	}
}

// spy exits with 7 if it sees a file that does not belong to the pod.
func spy(dir string) {
	for _, name := range []string{"secret", "inner/secret"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
			fmt.Printf("BREACH: %s\n", text)
			os.Exit(7)
		}
	}
	_ = os.WriteFile(filepath.Join(dir, "written"), nil, 0o644)
	os.Exit(1) // so that it starts again and resolves the path anew
}
