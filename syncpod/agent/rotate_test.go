package agent_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/logs"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// chatty is a script that prints a line of some 130 bytes every second, for so many seconds.
func chatty(seconds int) string {
	var script strings.Builder
	script.WriteString("X=" + strings.Repeat("x", 90))
	for i := range seconds {
		fmt.Fprintf(&script, "; echo %d $X; sleep 1", i)
	}
	return script.String()
}

// wantWholeLog fails unless the log of a pod's container has every line from some line on, once.
func wantWholeLog(t *testing.T, root, uid string, from int) (last int) {
	t.Helper()
	var out bytes.Buffer
	log := logs.Log{Path: filepath.Join(root, "default_web_"+uid, "app", "0.log")}
	must.Do(t, new(logs.Reader).Read(t.Context(), log, nil, &out, &out))
	next := -1
	for line := range strings.Lines(out.String()) {
		var number int
		if _, err := fmt.Sscan(line, &number); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if next < 0 && from < 0 {
			next = number
		}
		if want := max(next, from, 0); number != want {
			t.Fatalf("line %d comes where %d is due", number, want)
		}
		next, from = number+1, -1
	}
	return next
}

// A container prints for an hour. Its log is rotated, regardless of the answers of the runtime and of kills of the
// agent: no line is lost or duplicated, and the number of files stays within the limit.
func TestLogsAreRotated(t *testing.T) {
	dir := t.TempDir()
	inBubble(t, critest.Config{Dir: dir}, func(t *testing.T, n *node) {
		root := filepath.Join(dir, "logs")
		files := 1000
		run := func() *running {
			src := source.NewStaticPush("file")
			a := n.start([]source.Source{src}, func(c *agent.Config) {
				c.Sync.Node.LogsRoot = root
				c.NoLogRotation, c.LogPolicy = false, logs.RotationPolicy{MaxSize: 4 << 10, MaxFiles: files}
			})
			set(t, src, pod("file", "web", "u", chatty(4000)))
			return a
		}
		a := run()
		for i, fault := range []faults.Fault{
			{Err: status.Error(codes.Unknown, "failed to reopen")},
			{Err: status.Error(codes.Unknown, "failed to answer"), When: faults.After},
			{Err: status.Error(codes.DeadlineExceeded, "no answer")},
			{Err: status.Error(codes.Unavailable, "EOF"), When: faults.After},
		} {
			time.Sleep(5 * time.Minute)
			synctest.Wait() // a rotation begins at the same time
			wantWholeLog(t, root, "u", 0)
			fault.Match = faults.Match{Method: critest.ReopenContainerLog}
			must.Get(n.Inject(fault))(t)
			time.Sleep(5 * time.Minute)
			a.kill()
			wantWholeLog(t, root, "u", 0)
			if i == 3 {
				files = 3
			}
			a = run()
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if last := wantWholeLog(t, root, "u", -1); last < 45*60 {
			t.Errorf("the last line is %d", last)
		}
		if got := countFiles(t, filepath.Join(root, "*", "app", "0.log*")); got != 3 {
			t.Errorf("there are %d files, want 3", got)
		}
		if got := n.Journal().Count(critest.ReopenContainerLog); got < 60 {
			t.Errorf("the log was rotated %d times", got)
		}
		if starts := n.Journal().Count(critest.StartContainer); starts != 1 {
			t.Errorf("%d starts, want 1", starts)
		}
	})
}

// With NoLogRotation no log is touched.
func TestNoLogRotation(t *testing.T) {
	dir := t.TempDir()
	inBubble(t, critest.Config{Dir: dir}, func(t *testing.T, n *node) {
		src := source.NewStaticPush("file")
		n.start([]source.Source{src}, func(c *agent.Config) { c.Sync.Node.LogsRoot = filepath.Join(dir, "logs") })
		set(t, src, pod("file", "web", "u", "X="+strings.Repeat("x", 1<<16)+strings.Repeat("; echo $X", 180)+"; sleep infinity"))
		time.Sleep(time.Hour)
		if info, err := os.Stat(filepath.Join(dir, "logs", "default_web_u", "app", "0.log")); err != nil || info.Size() < 11<<20 {
			t.Errorf("the log is %v, %v", info, err)
		}
		if got := n.Journal().Count(critest.ReopenContainerLog); got > 0 {
			t.Errorf("the runtime was asked %d times", got)
		}
	})
}

func TestLogPolicyIsChecked(t *testing.T) {
	for want, change := range map[string]func(*agent.Config){
		"agent: Config.LogPolicy: MaxFiles is 1":     func(c *agent.Config) { c.LogPolicy.MaxFiles = 1 },
		"agent: Config.LogInterval is negative: -1s": func(c *agent.Config) { c.LogInterval = -time.Second },
	} {
		_, conn := critest.Start(t, critest.Config{})
		c := agent.Config{Client: cri.NewClient(conn), Sources: []source.Source{source.NewPush()}}
		c.Sync.RuntimeName, c.Sync.Node.LogsRoot = "critest", "/var/log/pods"
		change(&c)
		if _, err := agent.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
}
