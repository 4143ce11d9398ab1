package main

import (
	"embed"
	"io/fs"
	"os"
	"path/filepath"
)

//go:embed samples/*.yaml
var samples embed.FS

// writeSamples writes sample manifests to a folder.
func writeSamples(dir string) error {
	files, err := fs.Glob(samples, "samples/*.yaml")
	if err != nil {
		return err
	}
	for _, name := range files {
		manifest, err := samples.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), manifest, 0o644); err != nil {
			return err
		}
	}
	return nil
}
