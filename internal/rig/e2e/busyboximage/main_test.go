package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// untar reads an archive into memory.
func untar(t *testing.T, content []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(content)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		must.Do(t, err)
		if _, twice := files[h.Name]; twice {
			t.Errorf("%s is in the archive twice", h.Name)
		}
		files[h.Name] = must.Get(io.ReadAll(r))(t)
	}
}

func TestImage(t *testing.T) {
	busybox := filepath.Join(t.TempDir(), "busybox")
	must.Do(t, os.WriteFile(busybox, []byte("#!/bin/sh\necho busybox\necho ls\necho sh\n"), 0o755))
	var out bytes.Buffer
	if err := run(&out, []string{"-file=program=" + busybox, "-file=bin/ls=" + busybox, "-command=pause", busybox, "localhost/x:1", "sleep", "5"}); err != nil {
		t.Skip("no shell to stand in for busybox:", err)
	}
	image := untar(t, out.Bytes())
	var manifest []manifestEntry
	if err := json.Unmarshal(image["manifest.json"], &manifest); err != nil || len(manifest) != 1 {
		t.Fatalf("%s: %v, want one image", image["manifest.json"], err)
	}
	var config imageConfig
	must.Do(t, json.Unmarshal(image[manifest[0].Config], &config))
	if !slices.Equal(manifest[0].RepoTags, []string{"localhost/x:1"}) || !slices.Equal(config.Config.Entrypoint, []string{"sleep", "5"}) ||
		!slices.Equal(config.Config.Cmd, []string{"pause"}) {
		t.Errorf("%v, %v, want %q, %q and %q", manifest, config, []string{"localhost/x:1"}, []string{"sleep", "5"}, []string{"pause"})
	}
	layer := image[manifest[0].Layers[0]]
	if !slices.Equal(config.RootFS.DiffIDs, []string{"sha256:" + sum(layer)}) {
		t.Errorf("the layer is not the one of the config: %v", config.RootFS)
	}
	root := untar(t, layer)
	for _, name := range []string{"bin/busybox", "bin/sh", "bin/ls", "tmp/", "etc/passwd", "etc/group", "program"} {
		if _, ok := root[name]; !ok {
			t.Errorf("no %s", name)
		}
	}
	if len(root["bin/ls"]) == 0 || len(root["bin/sh"]) > 0 {
		t.Error("bin/ls is not the file, or bin/sh not a link to busybox")
	}
}

func TestUsage(t *testing.T) {
	if run(io.Discard, []string{"busybox"}) == nil || run(io.Discard, []string{"/no/such/busybox", "x"}) == nil {
		t.Error("no error")
	}
}
