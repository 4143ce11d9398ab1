//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// flip has the name sub stand for a directory of the volume, for a link to it, for a link out of
// the volume and for nothing, in turns, as fast as it can. In the directory there is no inner,
// but where the link leads out there is.
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

// spy ends with 7 if it sees a file that is no business of the pod.
func spy(dir string) {
	for _, name := range []string{"secret", "inner/secret"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
			fmt.Printf("BREACH: %s\n", text)
			os.Exit(7)
		}
	}
	_ = os.WriteFile(filepath.Join(dir, "written"), nil, 0o644)
	os.Exit(1) // to be started again, with a new look at the path
}
