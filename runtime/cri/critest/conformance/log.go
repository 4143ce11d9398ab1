package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var logRules = []rule{
	{"log-format", "Output goes to log directory and log path, a line each of time, stream, F or P for a part of a line, and text.", checkLogFormat},
	{"log-path-told", "ContainerStatus returns the path of the log.", checkLogPathTold},
	{"log-reopen", "After a log was renamed and ReopenContainerLog has returned, there is a new file of the old name, and output goes to it.", checkLogReopen},
	{"log-kept", "Removing a container leaves its log.", checkLogKept},
	{"log-none", "Without a log path nothing is written but a log that is named after the container's ID.", checkLogNone},
}

const logName = "0.log"

func logged(c *runtimeapi.ContainerConfig) { c.LogPath = logName }

func (b *bench) logPath() string { return filepath.Join(b.dir, "logs", logName) }

// logLines reads the log until it has n lines.
func (b *bench) logLines(n int) []string {
	b.Helper()
	var lines []string
	b.waitFor("log of as many lines as were written", func() bool {
		content, err := os.ReadFile(b.logPath())
		lines = strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
		return err == nil && len(content) > 0 && len(lines) >= n
	})
	return lines
}

func checkLogFormat(b *bench) {
	id := b.runSandbox(0).run(script("echo one; sleep 0.1; echo two >&2; sleep 0.1; echo -n three"), logged)
	b.waitExited(id)
	want := []string{"stdout F one", "stderr F two", "stdout P three"}
	for i, line := range b.logLines(len(want)) {
		at, rest, _ := strings.Cut(line, " ")
		if _, err := time.Parse(time.RFC3339Nano, at); err != nil || i >= len(want) || rest != want[i] {
			b.broken("line %d is %q", i, line)
		}
	}
}

func checkLogPathTold(b *bench) {
	st := b.statusOf(b.runSandbox(0).create(script("exit 0"), logged))
	if st.GetLogPath() != b.logPath() {
		b.broken("it tells %q, not %q", st.GetLogPath(), b.logPath())
	}
}

func checkLogReopen(b *bench) {
	p := b.runSandbox(0)
	id := p.run(script("echo old; until [ -e /tmp/on ]; do sleep 0.1; done; echo new; sleep 1000"), logged)
	b.logLines(1)
	if err := os.Rename(b.logPath(), b.logPath()+".1"); err != nil {
		b.Fatal(err)
	}
	_, err := b.rt.ReopenContainerLog(b.Context(), &runtimeapi.ReopenContainerLogRequest{ContainerId: id})
	b.must(err)
	if _, err := os.Stat(b.logPath()); err != nil {
		b.broken("%v", err)
	}
	_, err = b.rt.ExecSync(b.Context(), &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: []string{"touch", "/tmp/on"}, Timeout: 10})
	b.must(err)
	if got := b.logLines(1); len(got) != 1 || !strings.HasSuffix(got[0], " new") {
		b.broken("the new file has %q", got)
	}
}

func checkLogKept(b *bench) {
	id := b.runSandbox(0).run(script("echo one"), logged)
	b.waitExited(id)
	b.logLines(1)
	b.must(b.removeIt(id))
	if _, err := os.Stat(b.logPath()); err != nil {
		b.broken("%v", err)
	}
}

func checkLogNone(b *bench) {
	id := b.runSandbox(0).run(script("echo one"))
	b.waitExited(id)
	entries, err := os.ReadDir(filepath.Join(b.dir, "logs"))
	b.must(err)
	for _, e := range entries {
		if e.Name() != id+".log" {
			b.broken("the log directory has %v", entries)
		}
	}
}
