package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/hostfs"
	"github.com/podsync/podsync/syncpod/container/env"
)

// maxEnvFile is the maximum env file size in bytes (KEP-3721).
const maxEnvFile = 64 << 10

// FileKey returns a key's value in an env file (KEP-3721). The file is in a pod's emptyDir with the directory
// dir. If the file or the key does not exist, or the value is empty, the error wraps env.ErrNotFound. Links in
// the volume do not lead outside. No error contains a value.
func FileKey(pod *v1.Pod, dir string, ref *v1.FileKeySelector) (string, error) {
	if pod == nil || ref == nil {
		return "", errors.New("file key: the pod or the reference is nil")
	}
	for i := range pod.Spec.Volumes {
		vol := &pod.Spec.Volumes[i]
		if vol.Name != ref.VolumeName {
			continue
		}
		if vol.EmptyDir == nil {
			return "", fmt.Errorf("volume %q is of kind %s, and has to be an emptyDir", vol.Name, kind(vol))
		}
		path, err := pathOf(vol, dir)
		if err != nil {
			return "", err
		}
		return keyOf(path, ref)
	}
	return "", fmt.Errorf("the pod has no volume %q", ref.VolumeName)
}

func keyOf(volume string, ref *v1.FileKeySelector) (string, error) {
	text, err := readEnvFile(volume, ref.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("file %q: %w", ref.Path, env.ErrNotFound)
	}
	if err != nil {
		return "", err
	}
	value, err := parseKey(text, ref.Key)
	switch {
	case err != nil:
		return "", fmt.Errorf("file %q: %w", ref.Path, err)
	case value == "":
		return "", fmt.Errorf("file %q: key %q: %w", ref.Path, ref.Key, env.ErrNotFound)
	}
	return value, nil
}

// readEnvFile reads a regular file; links in the volume may lead to it. If a container has replaced the file by
// something else, that is not opened: opening could act on a device, or wait for a pipe's other end.
func readEnvFile(volume, name string) (string, error) {
	root, err := os.OpenRoot(volume + onlyDir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if name, err = hostfs.Resolve(root, name); err != nil {
		return "", err
	}
	text, err := hostfs.Read(root, name, maxEnvFile)
	return string(text), err
}

// parseKey returns a key's first value. A line is KEY='value', where value may span lines and is
// literal; or it is blank, or a comment. A blank after KEY= means an empty value, as in a shell.
func parseKey(text, key string) (string, error) {
	for n := 1; text != ""; {
		line, rest, _ := strings.Cut(text, "\n")
		line = strings.TrimLeft(strings.TrimSuffix(line, "\r"), " \t")
		if line == "" || line[0] == '#' {
			text, n = rest, n+1
			continue
		}
		name, after, assigned := strings.Cut(line, "=")
		if !assigned || name == "" || strings.ContainsAny(name, " \t") {
			return "", fmt.Errorf("line %d is no KEY='value'", n)
		}
		var value string
		if !strings.HasPrefix(after, " ") && !strings.HasPrefix(after, "\t") {
			quoted := text[strings.Index(text, "=")+1:]
			var err error
			if value, rest, err = unquote(quoted); err != nil {
				return "", fmt.Errorf("line %d: %w", n, err)
			}
		}
		if name == key {
			return value, nil
		}
		n += strings.Count(text[:len(text)-len(rest)], "\n")
		text = rest
	}
	return "", nil
}

// unquote splits a text that begins with a value in single quotes into the value and the
// lines after it.
func unquote(text string) (value, rest string, err error) {
	if !strings.HasPrefix(text, "'") {
		return "", "", errors.New("a value has to be in single quotes")
	}
	value, rest, closed := strings.Cut(text[1:], "'")
	if !closed {
		return "", "", errors.New("a single quote is not closed")
	}
	end, rest, _ := strings.Cut(rest, "\n")
	if end = strings.TrimSpace(end); end != "" && end[0] != '#' {
		return "", "", errors.New("there is more after the value")
	}
	return strings.ReplaceAll(value, "\r\n", "\n"), rest, nil
}
