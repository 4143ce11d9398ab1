package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	kubelet "k8s.io/kubelet/config/v1beta1"
)

const (
	// dropInSuffix is the suffix of drop-ins. Other files in the directory are not read.
	dropInSuffix = ".conf"
	// maxDropIns is the maximum number of drop-ins, and maxEntries the maximum number of all files and directories below the
	// directory.
	maxDropIns, maxEntries = 256, 4096
)

// Sources are a configuration's sources. Later ones take precedence.
type Sources struct {
	// File has a KubeletConfiguration. Required.
	File string
	// DropIns is a directory, like --config-dir of a kubelet. The fields in each file *.conf in it and in its subdirectories
	// replace those of File. The files are merged ordered by their paths: objects field by field, and lists as a whole.
	// Default: none.
	DropIns string
	// Flags sets the fields that are given on the command line. Default: none.
	Flags func(*kubelet.KubeletConfiguration)
}

// merged returns the file and its drop-ins as one JSON text.
func (s Sources) merged() ([]byte, error) {
	text, err := read(s.File)
	if err != nil {
		return nil, err
	}
	if text, err = toJSON(text); err != nil {
		return nil, fmt.Errorf("%s: %w", s.File, err)
	}
	paths, err := s.paths()
	if err != nil || len(paths) == 0 {
		return text, err
	}
	whole, err := object(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.File, err)
	}
	for _, path := range paths {
		if text, err = read(path); err != nil {
			return nil, err
		}
		if text, err = toJSON(text); err == nil {
			err = known(text)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		part, err := object(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		merge(whole, part)
	}
	return json.Marshal(whole)
}

// known returns an error if a text has an unknown field or another kind.
func known(text []byte) error {
	_, err := decode(text)
	return err
}

// paths returns the drop-ins in their order.
func (s Sources) paths() (paths []string, err error) {
	if s.DropIns == "" {
		return nil, nil
	}
	entries := 0
	err = filepath.WalkDir(s.DropIns, func(path string, entry fs.DirEntry, err error) error {
		if entries++; err == nil && entries > maxEntries {
			err = fmt.Errorf("%s has more than %d files", s.DropIns, maxEntries)
		}
		if err != nil || entry.IsDir() || !strings.HasSuffix(entry.Name(), dropInSuffix) {
			return err
		}
		if paths = append(paths, path); len(paths) > maxDropIns {
			return fmt.Errorf("%s has more than %d files %s", s.DropIns, maxDropIns, dropInSuffix)
		}
		return nil
	})
	return paths, err
}

// object decodes a JSON object. Numbers keep all their digits.
func object(text []byte) (o map[string]any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&o); err != nil {
		return nil, err
	}
	if o == nil {
		return nil, errors.New("want an object with fields")
	}
	return o, nil
}

// merge writes the fields of part to whole, as a JSON merge patch (RFC 7386) does: null removes a field.
func merge(whole, part map[string]any) {
	for name, value := range part {
		inner, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(whole, name)
		case !isObject:
			whole[name] = value
		default:
			there, ok := whole[name].(map[string]any)
			if !ok {
				there = map[string]any{}
				whole[name] = there
			}
			merge(there, inner)
		}
	}
}
