package local_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/volume/local"
)

func TestFileKey(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "volumes", "kubernetes.io~empty-dir", "data")
	pod := &v1.Pod{Spec: v1.PodSpec{Volumes: []v1.Volume{
		{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
		{Name: "host", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/"}}},
		{Name: "late", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
	}}}
	must.Do(t, os.MkdirAll(filepath.Join(data, "folder"), 0o755))
	for name, text := range map[string]string{
		"good":     "# KEY='no'\n\n  FIRST='one'  # why\nMORE='two\n# lines'\nSHELL= 'x'\nEMPTY=''\nKEY='$HOME \"as it is\"'\nKEY='again'",
		"crlf":     "A='b'\r\nKEY='v'\r\n",
		"bare":     "KEY=value",
		"open":     "A='b'\nKEY='value\n",
		"words":    "KEY='secret' more",
		"blank":    "KEY ='v'",
		"no equal": "A='1'\nB='2\n3'\nKEY",
		"large":    "KEY='" + strings.Repeat("x", 64<<10) + "'",
	} {
		must.Do(t, os.WriteFile(filepath.Join(data, name), []byte(text), 0o644))
	}
	out := filepath.Join(dir, "out")
	if err := errors.Join(os.WriteFile(out, []byte("KEY='of the node'"), 0o644), os.Symlink(out, filepath.Join(data, "link"))); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	missing := env.ErrNotFound.Error()
	for _, test := range []struct{ volume, file, key, want, wrong string }{
		{"data", "good", "KEY", `$HOME "as it is"`, ""},
		{"data", "good", "FIRST", "one", ""},
		{"data", "good", "MORE", "two\n# lines", ""},
		{"data", "crlf", "KEY", "v", ""},
		{"data", "good", "SHELL", "", missing},
		{"data", "good", "EMPTY", "", missing},
		{"data", "good", "OTHER", "", missing},
		{"data", "none", "KEY", "", missing},
		{"late", "good", "KEY", "", missing},
		{"data", "bare", "KEY", "", "line 1: a value has to be in single quotes"},
		{"data", "open", "KEY", "", "line 2: a single quote is not closed"},
		{"data", "words", "KEY", "", "line 1: there is more after the value"},
		{"data", "blank", "KEY", "", "line 1 is no KEY='value'"},
		{"data", "no equal", "KEY", "", "line 4 is no KEY='value'"},
		{"data", "large", "KEY", "", "more than 65536 bytes"},
		{"data", "folder", "KEY", "", "not a regular file"},
		{"data", "link", "KEY", "", "escapes"},
		{"data", "../../../out", "KEY", "", "escapes"},
		{"host", "good", "KEY", "", "is of kind hostPath"},
		{"other", "good", "KEY", "", `no volume "other"`},
	} {
		got, err := local.FileKey(pod, dir, &v1.FileKeySelector{VolumeName: test.volume, Path: test.file, Key: test.key})
		if test.wrong == "" && (err != nil || got != test.want) {
			t.Errorf("%s of %s: %q, %v, want %q", test.key, test.file, got, err, test.want)
		}
		if test.wrong != "" && (err == nil || !strings.Contains(err.Error(), test.wrong) || errors.Is(err, env.ErrNotFound) != (test.wrong == missing)) {
			t.Errorf("%s of %s: %v, want an error with %q", test.key, test.file, err, test.wrong)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s of %s: the error holds the value: %v", test.key, test.file, err)
		}
	}
}
