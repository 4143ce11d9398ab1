//go:build linux

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The labels of the pods of these tests. Sandboxes have them, too.
const (
	labelRun        = "kill9-run"        // the run of a test
	labelGeneration = "kill9-generation" // the version of a manifest, new with each edit
)

// kind describes the pods of one kind.
type kind struct {
	name string
	// runs are the containers that run until the pod ends.
	runs []string
	// once are the containers that end by themselves and must not run again after that: by name, how
	// often each is started.
	once map[string]int
	// phase is the pod's final phase, and exit its container's exit code.
	phase string
	exit  int
	yaml  string
}

// Scripts of containers. $0 marks the process, $T is the file to which the pod's containers append a line at each
// start.
const (
	forever  = `echo $0 >> $T; trap 'exit 0' TERM; sleep 2147483647 & wait`
	briefly  = `echo $0 >> $T; sleep 0.%d`
	handler  = `read t _ < /proc/uptime; echo $t begin >> $T-hook; sleep 0.4; read t _ < /proc/uptime; echo $t end >> $T-hook`
	twoTries = `echo $0 >> $T; sleep 0.3; test -e $T-tried || { touch $T-tried; exit 1; }`
)

var kinds = []kind{
	{name: "plain", runs: []string{"main"}, phase: "Running", yaml: spec("Always", true, container("main", forever, ""))},
	{
		name: "inits", runs: []string{"main"}, once: map[string]int{"one": 1, "two": 1, "three": 1}, phase: "Running",
		yaml: spec("Always", false, container("main", forever, ""),
			container("one", fmt.Sprintf(briefly, 1), ""), container("two", fmt.Sprintf(briefly, 3), ""), container("three", fmt.Sprintf(briefly, 1), "")),
	},
	{
		name: "sidecar", runs: []string{"side", "main"}, phase: "Running",
		yaml: spec("Always", false, container("main", forever, ""), container("side", forever, "restartPolicy: Always")),
	},
	{
		name: "hooked", runs: []string{"main"}, phase: "Running",
		yaml: spec("Always", false, container("main", forever, fmt.Sprintf("lifecycle: {preStop: {exec: {command: [sh, -c, %q]}}}", handler))),
	},
	{name: "done", once: map[string]int{"main": 1}, phase: "Succeeded", yaml: spec("Never", true, container("main", fmt.Sprintf(briefly, 8), ""))},
	{name: "failed", once: map[string]int{"main": 1}, phase: "Failed", exit: 3, yaml: spec("Never", true, container("main", fmt.Sprintf(briefly, 5)+"; exit 3", ""))},
	{name: "retried", once: map[string]int{"main": 2}, phase: "Succeeded", yaml: spec("OnFailure", true, container("main", twoTries, ""))},
}

func spec(restart string, hostNetwork bool, main string, inits ...string) string {
	text := fmt.Sprintf("spec:\n  restartPolicy: %s\n  hostNetwork: %v\n  terminationGracePeriodSeconds: 5\n", restart, hostNetwork)
	text += "  volumes: [{name: truth, hostPath: {path: $DIR}}]\n"
	if len(inits) > 0 {
		text += "  initContainers:\n" + strings.Join(inits, "")
	}
	return text + "  containers:\n" + main
}

func container(name, script, more string) string {
	return fmt.Sprintf(`  - name: %s
    image: localhost/busybox:e2e
    command: [sh, -c, %q, $MARK/%s]
    env: [{name: T, value: $DIR/$GEN}]
    volumeMounts: [{name: truth, mountPath: $DIR}]
    %s
`, name, script, name, more)
}

// subject is one version of a pod.
type subject struct {
	kind
	generation, file string
	wanted           bool
	// unwanted is when its file was about to be removed, by the clock of the handlers.
	unwanted time.Duration
}

// manifests is a folder of pods that changes at random.
type manifests struct {
	dir, truth, run string
	random          *rand.Rand
	made            int
	// change is called with the state that is about to become true.
	change func(func(all map[string]*subject))
	now    []*subject
}

// disturb adds, removes or edits a pod. There are about twenty pods.
func (m *manifests) disturb() error {
	switch dice := m.random.IntN(20); {
	case len(m.now) == 0 || dice >= len(m.now)/2+2:
		return m.add(fmt.Sprintf("p%d.yaml", m.made))
	case dice < 2:
		file := m.pick()
		m.forget(file)
		return m.add(file)
	default:
		file := m.pick()
		m.forget(file)
		return os.Remove(filepath.Join(m.dir, file))
	}
}

func (m *manifests) pick() string { return m.now[m.random.IntN(len(m.now))].file }

// forget records that a file is about to be removed.
func (m *manifests) forget(file string) {
	m.change(func(map[string]*subject) {
		for i, s := range m.now {
			if s.file == file {
				s.wanted, s.unwanted = false, uptime()
				m.now = append(m.now[:i], m.now[i+1:]...)
				return
			}
		}
	})
}

// add writes a file, and replaces an existing one.
func (m *manifests) add(file string) error {
	s := &subject{kind: kinds[m.random.IntN(len(kinds))], generation: fmt.Sprint(m.made), file: file, wanted: true}
	m.made++
	m.change(func(all map[string]*subject) {
		all[s.generation] = s
		m.now = append(m.now, s)
	})
	name := strings.TrimSuffix(file, ".yaml")
	text := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\n  labels: {%s: %q, %s: %q}\n%s",
		name, labelRun, m.run, labelGeneration, s.generation, s.yaml)
	text = strings.NewReplacer("$DIR", m.truth, "$GEN", s.generation, "$MARK", m.mark(s.generation)).Replace(text)
	beside := filepath.Join(m.dir, "."+file)
	if err := os.WriteFile(beside, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(beside, filepath.Join(m.dir, file))
}

// clear removes all files.
func (m *manifests) clear() error {
	for len(m.now) > 0 {
		file := m.now[0].file
		m.forget(file)
		if err := os.Remove(filepath.Join(m.dir, file)); err != nil {
			return err
		}
	}
	return nil
}

// mark begins the name that a pod's processes have in common.
func (m *manifests) mark(generation string) string { return "kill9/" + m.run + "/" + generation }
