package poddir_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/poddir"
)

func ended(attempt uint32, exitCode int32) *runtime.ContainerStatus {
	return &runtime.ContainerStatus{Name: "app", State: runtime.ContainerExited, Attempt: attempt, ExitCode: exitCode}
}

func messageOf(t *testing.T, d *poddir.Dirs, pod *v1.Pod, c *runtime.ContainerStatus) string {
	t.Helper()
	message := must.Get(d.TerminationMessage(pod, c))(t)
	return message
}

// say creates the message file of an instance, and writes the text to it.
func say(t *testing.T, d *poddir.Dirs, pod *v1.Pod, attempt uint32, message string) {
	t.Helper()
	path := mountsOf(t, d, request(pod, attempt))[pod.Spec.Containers[0].TerminationMessagePath].HostPath
	must.Do(t, os.WriteFile(path, []byte(message), 0))
}

func TestMessageIsOfItsInstance(t *testing.T) {
	d := newDirs(t, poddir.Config{})
	pod := webPod()
	say(t, d, pod, 0, "first words")
	say(t, d, pod, 1, "")
	if got := messageOf(t, d, pod, ended(0, 1)); got != "first words" {
		t.Errorf("first instance: %q", got)
	}
	if got := messageOf(t, d, pod, ended(1, 1)); got != "" {
		t.Errorf("second instance: %q, want nothing", got)
	}
	c := ended(0, 1)
	c.Message = "out of memory"
	if got := messageOf(t, d, pod, c); got != "out of memory: first words" {
		t.Errorf("with a message of the runtime: %q", got)
	}
	c.State = runtime.ContainerRunning
	if got := messageOf(t, d, pod, c); got != "out of memory" {
		t.Errorf("one that runs: %q", got)
	}
	if got := messageOf(t, d, pod, ended(7, 1)); got != "" {
		t.Errorf("one without a file: %q", got)
	}
	c = &runtime.ContainerStatus{Name: "../../x", State: runtime.ContainerExited, Message: "m"}
	if got := messageOf(t, d, pod, c); got != "m" {
		t.Errorf("one that the spec does not have: %q", got)
	}
}

func TestMessageIsItsEnd(t *testing.T) {
	d := newDirs(t, poddir.Config{})
	pod := webPod()
	for attempt, tt := range []struct{ says, want string }{
		{strings.Repeat("a", 4096), strings.Repeat("a", 4096)},
		{"x" + strings.Repeat("a", 4096), strings.Repeat("a", 4096)},
		{strings.Repeat("é", 4096) + "b", "?" + strings.Repeat("é", 2047) + "b"},
	} {
		say(t, d, pod, uint32(attempt), tt.says)
		if got := messageOf(t, d, pod, ended(uint32(attempt), 1)); got != tt.want {
			t.Errorf("%d bytes give %d, want %d", len(tt.says), len(got), len(tt.want))
		}
	}
}

// An instance made again after an unanswered creation has the same file, empty.
func TestMessageFileIsNew(t *testing.T) {
	d := newDirs(t, poddir.Config{})
	pod := webPod()
	path := mountsOf(t, d, request(pod, 4))["/dev/termination-log"].HostPath
	before, _ := os.Stat(path)
	say(t, d, pod, 4, "of another life")
	mountsOf(t, d, request(pod, 4))
	after, err := os.Stat(path)
	if err != nil || after.Size() != 0 || !os.SameFile(before, after) {
		t.Errorf("%v, %d bytes, the same file: %t", err, after.Size(), os.SameFile(before, after))
	}
}

func TestMessageFilesDoNotPileUp(t *testing.T) {
	root := t.TempDir()
	d := newDirs(t, poddir.Config{Root: root})
	pod := webPod()
	for attempt := range uint32(40) {
		mountsOf(t, d, request(pod, attempt))
	}
	files, err := os.ReadDir(filepath.Join(root, "pods/u-1/containers/app"))
	if err != nil || len(files) != 5 || files[4].Name() != "00000027" {
		t.Errorf("%v, %v, want those of the last five instances", files, err)
	}
}

func TestNoMessageFile(t *testing.T) {
	for name, edit := range map[string]func(*v1.Container){
		"none asked for": func(c *v1.Container) { c.TerminationMessagePath = "" },
		"a volume mounted there": func(c *v1.Container) {
			c.VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/dev/termination-log/"}}
		},
	} {
		d := newDirs(t, poddir.Config{Volumes: &volumes{}})
		pod := webPod()
		edit(&pod.Spec.Containers[0])
		if m := mountsOf(t, d, request(pod, 0))["/dev/termination-log"]; m != nil {
			t.Errorf("%s: %v", name, m)
		}
		if got := messageOf(t, d, pod, ended(0, 1)); got != "" {
			t.Errorf("%s: %q, want %q", name, got, "")
		}
	}
}

// A link that a process has put in place of its file is not followed.
func TestMessageFollowsNoLink(t *testing.T) {
	root := t.TempDir()
	secret := filepath.Join(root, "secret")
	must.Do(t, os.WriteFile(secret, []byte("of the node"), 0o600))
	d := newDirs(t, poddir.Config{Root: root})
	pod := webPod()
	path := mountsOf(t, d, request(pod, 0))["/dev/termination-log"].HostPath
	must.Do(t, errors.Join(os.Remove(path), os.Symlink(secret, path)))
	if got, err := d.TerminationMessage(pod, ended(0, 1)); got != "" || err == nil {
		t.Errorf("%q, %v, want an error", got, err)
	}
	if _, err := d.Mounts(t.Context(), request(pod, 0)); err == nil {
		t.Error("the file was emptied through a link")
	}
	if err := errors.Join(os.Remove(path), os.Symlink("00000001", path), os.WriteFile(filepath.Join(filepath.Dir(path), "00000001"), []byte("of another"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if got, err := d.TerminationMessage(pod, ended(0, 1)); got != "" || err == nil {
		t.Errorf("%q, %v, want an error for a link within the directory, too", got, err)
	}
	if content, _ := os.ReadFile(secret); string(content) != "of the node" {
		t.Errorf("the node's file has %q", content)
	}
}

func TestMessageFromTheLog(t *testing.T) {
	logs := t.TempDir()
	d := newDirs(t, poddir.Config{LogsRoot: logs})
	pod := webPod()
	write := func(attempt int, lines ...string) {
		t.Helper()
		dir := filepath.Join(logs, "shop_web-0_u-1", "app")
		text := strings.Join(lines, "\n") + "\n"
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.log", attempt)), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	const at = "2026-11-21T06:00:00.000000001Z "
	write(0, at+"stdout F hello", at+"stderr P pa", at+"stderr F nic")
	var many []string
	for i := range 100 {
		many = append(many, at+fmt.Sprintf("stdout F line %d", i))
	}
	write(1, many...)
	write(2, at+"stdout P "+strings.Repeat("a", 16<<10), at+"stdout F "+strings.Repeat("b", 100))
	write(3, at+"stdout F "+strings.Repeat("c", 100<<10))
	for _, tt := range []struct {
		name   string
		c      *runtime.ContainerStatus
		policy v1.TerminationMessagePolicy
		want   string
	}{
		{"policy File", ended(0, 1), v1.TerminationMessageReadFile, ""},
		{"success", ended(0, 0), v1.TerminationMessageFallbackToLogsOnError, ""},
		{"failure", ended(0, 1), v1.TerminationMessageFallbackToLogsOnError, "hello\npanic\n"},
		{"eighty lines", ended(1, 1), v1.TerminationMessageFallbackToLogsOnError, lines(20, 100)},
		{"2048 bytes of parts", ended(2, 1), v1.TerminationMessageFallbackToLogsOnError, strings.Repeat("a", 1947) + strings.Repeat("b", 100) + "\n"},
		{"2048 bytes of one line", ended(3, 1), v1.TerminationMessageFallbackToLogsOnError, strings.Repeat("c", 2047) + "\n"},
		{"no log", ended(9, 1), v1.TerminationMessageFallbackToLogsOnError, ""},
		{"not its own log", func() *runtime.ContainerStatus { c := ended(0, 1); c.Reason = "ContainerCannotRun"; return c }(), v1.TerminationMessageFallbackToLogsOnError, ""},
	} {
		pod.Spec.Containers[0].TerminationMessagePolicy = tt.policy
		if got := messageOf(t, d, pod, tt.c); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	say(t, d, pod, 0, "my own words")
	if got := messageOf(t, d, pod, ended(0, 1)); got != "my own words" {
		t.Errorf("with a message and a log: %q", got)
	}
}

func lines(from, to int) string {
	var text strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	return text.String()
}

func TestMessageOfABadName(t *testing.T) {
	d := newDirs(t, poddir.Config{})
	pod := webPod()
	pod.Spec.Containers[0].Name = "../app"
	c := ended(0, 1)
	c.Name = "../app"
	if got, err := d.TerminationMessage(pod, c); got != "" || err == nil || !strings.Contains(err.Error(), "container name") {
		t.Errorf("%q, %v, want an error that names the field", got, err)
	}
}

func TestMessageThatCannotBeRead(t *testing.T) {
	d := newDirs(t, poddir.Config{})
	pod := webPod()
	path := mountsOf(t, d, request(pod, 0))["/dev/termination-log"].HostPath
	must.Do(t, errors.Join(os.Remove(path), os.Mkdir(path, 0o700)))
	c := ended(0, 1)
	c.Message = "of the runtime"
	got, err := d.TerminationMessage(pod, c)
	if got != "of the runtime" || err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), `container "app" of pod shop/web-0`) {
		t.Errorf("%q, %v, want %q, and an error that is not ErrNotExist, with %q in it", got, err, "of the runtime", `container "app" of pod shop/web-0`)
	}
}
