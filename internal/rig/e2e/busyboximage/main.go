// Command busyboximage writes an image to standard output in the format of "ctr images import". The image contains only a
// static busybox, and optionally other programs, which may replace applets of busybox:
//
//	busyboximage [-file NAME=PROGRAM]... [-command WORD] BUSYBOX NAME [ENTRYPOINT...] > image.tar
//
// It needs no registry and no other tool.
package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "busyboximage:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, args []string) error {
	flags := flag.NewFlagSet("busyboximage", flag.ContinueOnError)
	files := map[string]string{}
	flags.Func("file", "`NAME=PROGRAM`, which is added to the image's root; can be repeated", func(text string) error {
		name, path, ok := strings.Cut(text, "=")
		if !ok {
			return errors.New("NAME=PROGRAM is expected")
		}
		files[name] = path
		return nil
	})
	command := flags.String("command", "", "the image's `command`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if args = flags.Args(); len(args) < 2 {
		return errors.New("usage: busyboximage [-file NAME=PROGRAM]... [-command WORD] BUSYBOX NAME [ENTRYPOINT...]")
	}
	layer, err := busyboxLayer(args[0], files)
	if err != nil {
		return err
	}
	return writeImage(out, args[1], args[2:], strings.Fields(*command), layer)
}

// busyboxLayer returns a root file system with files, by name, and with a link for each of busybox's other applets.
func busyboxLayer(busybox string, files map[string]string) ([]byte, error) {
	program, err := os.ReadFile(busybox)
	if err != nil {
		return nil, err
	}
	applets, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("list the applets of %s: %w", busybox, err)
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	var errs []error
	for _, dir := range []string{"bin", "dev", "etc", "proc", "sys"} {
		errs = append(errs, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}))
	}
	errs = append(errs,
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}),
		writeFile(w, "bin/busybox", 0o755, program),
		writeFile(w, "etc/passwd", 0o644, []byte("root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")),
		writeFile(w, "etc/group", 0o644, []byte("root:x:0:\nnobody:x:65534:\n")))
	for applet := range strings.FieldsSeq(string(applets)) {
		if _, replaced := files["bin/"+applet]; applet != "busybox" && !replaced {
			errs = append(errs, w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + applet, Linkname: "busybox", Mode: 0o777}))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content, err := os.ReadFile(files[name])
		errs = append(errs, err, writeFile(w, name, 0o755, content))
	}
	return buf.Bytes(), errors.Join(append(errs, w.Close())...)
}

type imageConfig struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
	Config       struct {
		Env        []string
		Entrypoint []string `json:",omitempty"`
		Cmd        []string `json:",omitempty"`
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

type manifestEntry struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func writeImage(out io.Writer, name string, entrypoint, command []string, layer []byte) error {
	c := imageConfig{Architecture: runtime.GOARCH, OS: "linux"}
	c.Config.Env = []string{"PATH=/bin"}
	c.Config.Entrypoint, c.Config.Cmd = entrypoint, command
	c.RootFS.Type = "layers"
	c.RootFS.DiffIDs = []string{"sha256:" + sum(layer)}
	config, err := json.Marshal(c)
	if err != nil {
		return err
	}
	configFile := sum(config) + ".json"
	manifest, err := json.Marshal([]manifestEntry{{Config: configFile, RepoTags: []string{name}, Layers: []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	w := tar.NewWriter(out)
	return errors.Join(
		writeFile(w, configFile, 0o644, config),
		writeFile(w, "layer.tar", 0o644, layer),
		writeFile(w, "manifest.json", 0o644, manifest),
		w.Close())
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

func writeFile(w *tar.Writer, name string, mode int64, content []byte) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}
