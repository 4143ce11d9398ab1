package simulation

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	goruntime "runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Lives are lived in processes of their own, one for each processor of the machine. There the
// Go scheduler has one processor, and nothing is collected in the middle of a life:
// both would let goroutines run in another order each time. A life that takes its
// process with it is known by its seed.

const (
	workerVariable = "PODSYNC_SIMULATION_WORKER"
	resultPrefix   = "life "
	// longest is how much time of the machine a life may take. It is endless then.
	longest = 10 * time.Minute
	// collectAt is the heap at which a worker collects garbage, between lives.
	collectAt = 256 << 20
)

// TestWorker lives the lives whose seeds it reads, if it was started by liveAll.
func TestWorker(t *testing.T) {
	if os.Getenv(workerVariable) == "" {
		t.Skip("only as a process of TestLives")
	}
	debug.SetGCPercent(-1)
	seeds := bufio.NewScanner(os.Stdin)
	for seeds.Scan() {
		var seed uint64
		var tell bool
		if _, err := fmt.Sscan(seeds.Text(), &seed, &tell); err != nil {
			t.Fatal(err)
		}
		var r result
		t.Run(seeds.Text(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { r = live(t, seed).result(seed, tell) })
		})
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("\n%s%s\n", resultPrefix, text)
		collect()
	}
}

func collect() {
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	if m.HeapAlloc > collectAt {
		goruntime.GC()
	}
}

// liveAll lives the lives of seeds, begun in order, and ended in any.
func liveAll(t *testing.T, seeds []uint64, tell bool) iter.Seq[result] {
	return func(yield func(result) bool) {
		todo, done, enough := make(chan uint64), make(chan result), make(chan struct{})
		go func() {
			defer close(todo)
			for _, seed := range seeds {
				select {
				case todo <- seed:
				case <-enough:
					return
				}
			}
		}()
		var workers sync.WaitGroup
		for range min(goruntime.NumCPU(), len(seeds)) {
			workers.Go(func() {
				for work(t, todo, tell, done) {
				}
			})
		}
		go func() {
			workers.Wait()
			close(done)
		}()
		more := true
		for r := range done {
			if more && !yield(r) {
				more = false
				close(enough)
			}
		}
	}
}

// work has one process live until there is no more to do. It returns true if the
// process ended before, and another one is to go on.
func work(t *testing.T, todo <-chan uint64, tell bool, done chan<- result) (again bool) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWorker$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), workerVariable+"=1", "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Error(err)
		return false
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Error(err)
		return false
	}
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return false
	}
	answers := bufio.NewReader(out)
	for seed := range todo {
		fmt.Fprintln(in, seed, tell)
		endless := time.AfterFunc(longest, func() { _ = cmd.Process.Kill() })
		r, said := answer(answers)
		endless.Stop()
		if r == nil || r.Digest == "" {
			_ = in.Close()
			_ = cmd.Wait() // the life says why
			done <- result{Seed: seed, Broken: []string{"it did not come to its end: " + tail(said+stderr.String())}}
			return true
		}
		done <- *r
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("a process of lives: %v\n%s", err, tail(stderr.String()))
	}
	return false
}

// answer reads the result of a life, nil if there is none, and what else was printed.
func answer(from *bufio.Reader) (r *result, said string) {
	for {
		line, err := from.ReadString('\n')
		if text, ok := strings.CutPrefix(line, resultPrefix); ok && err == nil {
			r = new(result)
			if json.Unmarshal([]byte(text), r) == nil {
				return r, said
			}
		}
		if err != nil {
			rest, _ := io.ReadAll(from)
			return nil, said + line + string(rest)
		}
		said += line
	}
}

// tail is the end of what a process printed.
func tail(s string) string {
	const most = 4000
	return strings.TrimSpace(s[max(0, len(s)-most):])
}
