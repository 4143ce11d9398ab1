//go:build linux

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

const (
	// lanes is the number of concurrent pests.
	lanes = 6
	// evictedWithin is how long a pod may exceed a limit. Pods are measured every one to two minutes,
	// for 2 s at first and then for 4, 8 and 16 s: as long as a million files take on a busy machine.
	evictedWithin = 10 * time.Minute
)

// TestHostileContainers makes containers attack their node, with everything that Pod Security's levels restricted and
// baseline allow. Each attack is made once, at a level that is drawn at random. PODSYNC_HOSTILE=1h instead draws attacks at
// random for that long, and PODSYNC_HOSTILE_SEED repeats the draw of another run. All the time
//
//   - the agent has less than 64 MB of memory resident,
//   - pods that do nothing start at most a second later than without attacks, at the runtime's speed,
//   - pods that exceed a limit are evicted, and events name the pods that do wrong,
//   - no text of a registry, an image, a command or a container is long, forges a line or has a character that a terminal
//     obeys, and the value of a Secret is found nowhere,
//   - and in the end nothing outside the directories of the pods has changed, and no mount is left or missing.
func TestHostileContainers(t *testing.T) {
	for _, endpoint := range endpoints(t) {
		t.Run(strings.ReplaceAll(strings.TrimPrefix(endpoint, "unix://"), "/", "-"), func(t *testing.T) {
			newSiege(t, endpoint).run()
		})
	}
}

// A siege is a node with an agent that is attacked.
type siege struct {
	*target
	node   *node
	random *rand.Rand
	began  time.Time
	// lasts is how long the test runs, 0 if each attack is made once.
	lasts time.Duration
	// files and levels are the numbers of files and directories that some attacks create.
	files, levels int
	// programs is the directory of the program that containers run. canary and shared are directories
	// of the node: nothing in canary may change, and only links in shared may.
	programs, canary, shared string
	// hosts is the directory with which the runtime finds the test's registry, empty if it finds none.
	hosts string
	// port is a port of the node to which no attack may connect.
	port string
	made atomic.Int64

	// highest is the maximum resident memory of the agent, in kB, and during are the attacks of that
	// time.
	highest int
	during  string

	mu     sync.Mutex
	active []string // attacks at work
	starts starts
}

func newSiege(t *testing.T, endpoint string) *siege {
	dir := t.TempDir()
	s := &siege{
		node: newNode(t, endpoint), began: time.Now(), files: 20_000, levels: 2_000,
		canary: filepath.Join(dir, "canary"), shared: filepath.Join(dir, "shared"),
	}
	if text := os.Getenv("PODSYNC_HOSTILE"); text != "" {
		var err error
		if s.lasts, err = time.ParseDuration(text); err != nil {
			t.Fatalf("PODSYNC_HOSTILE: %v", err)
		}
		s.files, s.levels = 1_000_000, 5_000
	}
	seed := number("PODSYNC_HOSTILE_SEED", int(time.Now().UnixNano()%1e9))
	t.Logf("PODSYNC_HOSTILE_SEED=%d", seed)
	s.random = rand.New(rand.NewPCG(uint64(seed), 0))
	program := must.Get(hostileProgram())(t)
	s.programs = filepath.Dir(program)
	s.makeCanary()
	s.listen(t)
	for _, sub := range []string{"shared", "sockets"} {
		must.Do(s.node, os.Mkdir(filepath.Join(dir, sub), 0o777))
	}
	must.Do(s.node, os.MkdirAll(filepath.Join(dir, "root", "evictions"), 0o700)) // the agent makes it with the first one
	must.Do(s.node, os.Chmod(s.shared, 0o777))                                   // whatever the umask
	owner := fmt.Sprintf("hostile-%d", os.Getpid())
	t.Cleanup(func() { s.clear(owner) })
	s.target = startTarget(t, endpoint, dir, owner)
	s.serveRegistry(endpoint)
	return s
}

// makeCanary creates a directory that links point to. Only the node may use its contents.
func (s *siege) makeCanary() {
	for name, mode := range map[string]os.FileMode{"": 0o711, "inner": 0o700} {
		dir := filepath.Join(s.canary, name)
		must.Do(s.node, os.MkdirAll(dir, 0o700))
		must.Do(s.node, os.WriteFile(filepath.Join(dir, "secret"), []byte("of the node\n"), 0o600))
		must.Do(s.node, os.Chown(filepath.Join(dir, "secret"), 12345, 12345))
		must.Do(s.node, os.Chmod(dir, mode))
	}
}

// run makes the attacks.
func (s *siege) run() {
	before := s.prepare()
	watch, stop := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { s.watchMemory(watch) })
	watching.Go(func() { s.watchStarts(watch) })
	rounds := 0
	for more := true; more && s.alive() && !s.Failed(); rounds++ {
		s.round()
		more = time.Since(s.began) < s.lasts
	}
	stop()
	watching.Wait() // the last pods that do nothing have been removed
	if s.alive() {
		s.findCanary()
		s.compare(before)
		s.leave()
	}
	s.Logf("%d rounds in %v, %d attacks, highest memory %d kB (while %s), %v", rounds, time.Since(s.began).Round(time.Second), s.made.Load(), s.highest, s.during, &s.starts)
}

// A turn is an attack at a level.
type turn struct {
	offence
	level level
}

// draw returns attacks in a random order: each at one level, or in a long run half of all attacks at all levels.
func (s *siege) draw(offences []offence) (turns []turn) {
	for _, o := range offences {
		for _, l := range []level{restricted, baseline} {
			if !o.root || l == baseline {
				turns = append(turns, turn{o, l})
			}
		}
	}
	s.random.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
	if s.lasts > 0 {
		return turns[:len(turns)/2]
	}
	drawn := map[string]bool{}
	return slices.DeleteFunc(turns, func(t turn) bool {
		again := drawn[t.name]
		drawn[t.name] = true
		return again
	})
}

// round runs gluttons and pests, a few at a time. After a glutton has begun, the others do not wait until it is
// evicted.
func (s *siege) round() {
	var attacks sync.WaitGroup
	slots := make(chan struct{}, lanes)
	for _, t := range slices.Concat(s.draw(s.gluttons()), s.draw(s.pests())) {
		slots <- struct{}{}
		attacks.Go(func() {
			settled := sync.OnceFunc(func() { <-slots })
			defer settled()
			s.attack(t, settled)
		})
	}
	attacks.Wait()
}

// attack makes an attack, as a test of its own.
func (s *siege) attack(of turn, settled func()) {
	name := of.name + "-" + string(of.level)
	s.Run(name, func(t *testing.T) {
		if !s.alive() {
			t.Skip("there is no agent any more")
		}
		s.mu.Lock()
		s.active = append(s.active, name)
		s.mu.Unlock()
		must.Do(t, s.commit(of.offence, of.level, settled))
		s.mu.Lock()
		defer s.mu.Unlock()
		i := slices.Index(s.active, name)
		s.active = slices.Delete(s.active, i, i+1)
	})
}

// attacking returns the attacks in progress, for messages about their effects.
func (s *siege) attacking() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.active, ", ")
}

// watchMemory checks the agent's memory until ctx ends.
func (s *siege) watchMemory(ctx context.Context) {
	var alarm time.Time
	for ctx.Err() == nil && s.alive() {
		peak := s.resident()
		if peak > s.highest {
			s.highest, s.during = peak, s.attacking()
		}
		if peak > maxResident && time.Since(alarm) > 5*time.Second {
			alarm = time.Now()
			s.Errorf("%d kB of the agent are resident, want at most %d, while %s", peak, maxResident, s.attacking())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// looks makes a request to the agent's server, and returns the size of the response within a time.
func (s *siege) looks(method, path string, within time.Duration) (int64, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(s.dir, "sockets", "looks"))
	}}}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, nil)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != http.StatusOK {
		return n, fmt.Errorf("%s %s: %s", method, path, resp.Status)
	}
	return n, err
}

// nodeAgent runs a command of nodeagent twice for some seconds: once its output is read, and once
// it is not. The former prints something.
func (s *siege) nodeAgent(p *v1.Pod, command string, args ...string) error {
	program, err := nodeAgent()
	if err != nil {
		return err
	}
	args = append([]string{command, "-serve", "unix://" + filepath.Join(s.dir, "sockets", "looks"), p.Namespace + "/" + p.Name, "-c", "app"}, args...)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	unread, end, err := os.Pipe()
	if err != nil {
		return err
	}
	defer unread.Close()
	defer end.Close()
	deaf := exec.CommandContext(ctx, program, args...)
	deaf.Stdout = end
	var errs bytes.Buffer
	reads, count := exec.CommandContext(ctx, program, args...), new(bytesRead)
	reads.Stdout, reads.Stderr = count, &errs
	if err := errors.Join(deaf.Start(), reads.Start()); err != nil {
		return err
	}
	err = s.until(patience, func() error {
		if count.Load() == 0 {
			return fmt.Errorf("nodeagent %s prints nothing", strings.Join(args, " "))
		}
		return nil
	})
	time.Sleep(3 * time.Second)
	cancel()
	_, _ = deaf.Wait(), reads.Wait() // they end by force
	if err != nil {
		return fmt.Errorf("%w: %s", err, &errs)
	}
	return nil
}

// bytesRead counts the bytes that are written to it.
type bytesRead struct{ atomic.Int64 }

func (c *bytesRead) Write(b []byte) (int, error) {
	c.Add(int64(len(b)))
	return len(b), nil
}
