package clients

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/remotecommand"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

const (
	execs, followers = 100, 200
	// loadPatience is the maximum duration of the test on a busy machine.
	loadPatience = 3 * time.Minute
	// perStream is the maximum memory for a stream, of the server and of the client, which are in one
	// process here.
	perStream = 512 << 10
)

// printer prints a line, and repeats another line after a signal file exists.
const printer = "echo begun; while true; do if test -e /tmp/go; then echo line; fi; sleep 0.2; done"

// TestLoad: 100 concurrent commands over either protocol, and 200 followers of a log, all get their data. The memory for
// each is bounded, and nothing of them is left, in this process or in the container.
func TestLoad(t *testing.T) {
	nodes := onRuntimes(t)
	if len(nodes) == 0 {
		t.Skip("PODSYNC_E2E names no runtime")
	}
	for name, node := range nodes {
		t.Run(name, func(t *testing.T) {
			n := node(t)
			n.run(t, "sh", "-c", printer)
			n.load(t, 2, 2) // connections are made that stay
			before := n.held(t)
			during := n.load(t, execs, followers)
			if most := before.bytes + (execs+followers)*perStream; during.bytes > most {
				t.Errorf("%d KiB are in use for all of them, want at most %d", during.bytes>>10, most>>10)
			}
			var after held
			defer func() { t.Logf("before %+v, during %+v, after %+v", before, during, after) }()
			n.wait(t, func() bool {
				after = n.held(t)
				return after.goroutines <= before.goroutines && after.files <= before.files && after.watches <= before.watches && after.processes <= before.processes
			})
		})
	}
}

// held is the resources that a stream may leave behind.
type held struct {
	bytes                      uint64
	goroutines, files, watches int
	processes                  int // in the container
}

func (n *node) held(t *testing.T) (h held) {
	t.Helper()
	h.processes = bytes.Count(n.post(t, "/run/default/web/app?cmd=ps"), []byte("\n"))
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	h.bytes, h.goroutines = m.HeapAlloc+m.StackInuse, runtime.NumGoroutine()
	files := must.Get(filepath.Glob("/proc/self/fdinfo/*"))(t)
	h.files = len(files)
	for _, f := range files {
		text, _ := os.ReadFile(f) // a descriptor that was closed in the meantime watches nothing
		h.watches += bytes.Count(text, []byte("inotify wd:"))
	}
	return h
}

// alone makes a connection for each request, so that none is left.
var alone = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}

// ask sends a request of an allowed user, over a connection of its own.
func (n *node) ask(ctx context.Context, t *testing.T, method, path string) *http.Response {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(ctx, method, n.config.Host+path, nil))(t)
	req.Header.Set("Authorization", "Bearer "+n.config.BearerToken)
	resp := must.Get(alone.RoundTrip(req))(t)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s is answered %s", path, resp.Status)
	}
	return resp
}

// post returns the response to a POST.
func (n *node) post(t *testing.T, path string) []byte {
	t.Helper()
	resp := n.ask(t.Context(), t, http.MethodPost, path)
	defer resp.Body.Close()
	return must.Get(io.ReadAll(resp.Body))(t)
}

// load opens and closes all streams, and returns the resources in use while all are open.
func (n *node) load(t *testing.T, execs, followers int) (during held) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), loadPatience)
	defer cancel()
	n.post(t, "/run/default/web/app?cmd=rm+-f+/tmp/go")
	failed := make(chan error, execs+followers)
	var running, there sync.WaitGroup
	there.Add(execs)
	leave := make(chan struct{})
	for i := range execs {
		running.Go(func() { failed <- n.repeat(ctx, i, &there, leave) })
	}
	lines := make([]*bufio.Reader, followers)
	for i := range lines {
		resp := n.ask(ctx, t, http.MethodGet, "/containerLogs/default/web/app?follow=true&tailLines=1")
		defer resp.Body.Close()
		lines[i] = bufio.NewReaderSize(resp.Body, 512)
	}
	there.Wait()
	during = n.held(t)
	n.post(t, "/run/default/web/app?cmd=touch+/tmp/go")
	for i, r := range lines {
		for line := ""; line != "line\n"; {
			var err error
			if line, err = r.ReadString('\n'); err != nil {
				t.Fatalf("follower %d: %q, %v", i, line, err)
			}
		}
	}
	close(leave)
	running.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			t.Error(err)
		}
	}
	return during
}

// repeat runs cat in the container, which repeats a line until leave is closed: then the input of cat ends, and so does
// cat.
func (n *node) repeat(ctx context.Context, i int, there *sync.WaitGroup, leave <-chan struct{}) error {
	once := sync.OnceFunc(there.Done)
	defer once()
	through := overSPDY
	if i%2 == 0 {
		through = overWebSocket
	}
	e, err := through(n.config, execPath(copies, "input=1&output=1"))
	if err != nil {
		return err
	}
	in, input := io.Pipe()
	output, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: out})
		ended <- errors.Join(err, out.Close(), in.Close())
	}()
	want := fmt.Sprintln("line of", i)
	if _, err := io.WriteString(input, want); err != nil {
		return errors.Join(err, <-ended)
	}
	got, err := bufio.NewReader(output).ReadString('\n')
	if err != nil || got != want {
		return errors.Join(fmt.Errorf("%q, want %q", got, want), err, output.Close(), <-ended)
	}
	once()
	<-leave
	return errors.Join(input.Close(), <-ended)
}
