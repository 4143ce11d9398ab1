// Command scale measures what many pods cost an agent:
//
//	go run ./internal/rig/scale -pods 1000 -pods 10000
//
// For each -pods it starts a runtime in memory as a process of its own, and on it an
// agent, a process of its own, too, that gets so many pods of one container from a
// Push. When all run and nothing moves any more the agent rests. Then it ends, and
// the next one, a new process, adopts the pods and at last stops them. One line is printed
// for each, the last line of each run:
//
//	pods 10000: start 3.1 ms/pod cpu 2.6 ms/pod, idle 0.05 s cpu/min heap 9.8 kB/pod rss 210 MB goroutines 16, adopt 2.1 s cpu 1.4 s, stop 2.9 ms/pod
//
// All CPU is the agent's own, user and system, as the operating system counts it for
// the process. Start is from when the Push is given the pods until the sink has had
// all as running. The heap is what it has grown by since before that, after a
// collection. Adopt is from before the connection to the runtime is made until the sink
// has had all as running, and stop from when the Push is emptied until all pods are
// forgotten and the runtime has nothing left. What goes on, and the CPU of the stop, is on
// standard error. Of more than some 19,000 pods the lists do not fit into a message of CRI, as
// cri.Config.MaxMessageBytes says: an agent starts them, and the next one cannot adopt them,
// which ends the run with that error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// settings are the parameters of the measurement.
type settings struct {
	pods    []int
	idle    time.Duration
	profile string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := start(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

// start runs as a child or as the parent, according to the arguments.
func start(ctx context.Context, args []string, out io.Writer) error {
	if isChild(args) {
		return play(ctx, args, os.Stdin, out)
	}
	s, err := parse(args)
	if err != nil {
		return err
	}
	for _, pods := range s.pods {
		m, err := measure(ctx, s, pods)
		if err != nil {
			return fmt.Errorf("%d pods: %w", pods, err)
		}
		fmt.Fprintln(out, m)
	}
	return nil
}

func parse(args []string) (settings, error) {
	s := settings{}
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	flags.Func("pods", "how many pods; may be given several times, for one run after the other (default 1000)", func(text string) error {
		n, err := strconv.Atoi(text)
		if err == nil && n < 1 {
			err = errors.New("it must be 1 or more")
		}
		s.pods = append(s.pods, n)
		return err
	})
	flags.DurationVar(&s.idle, "idle", 30*time.Second, "how long the agent rests to have its idle CPU measured")
	flags.StringVar(&s.profile, "profile", "", "`directory` for the agent's CPU profiles, one for each part, and its heap; none if empty")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if s.idle <= 0 {
		return s, fmt.Errorf("-idle %v must be more than 0", s.idle)
	}
	if len(s.pods) == 0 {
		s.pods = []int{1000}
	}
	return s, nil
}

// measure runs so many pods once.
func measure(ctx context.Context, s settings, pods int) (m measures, err error) {
	dir, err := os.MkdirTemp("", "scale-")
	if err != nil {
		return m, err
	}
	defer os.RemoveAll(dir)
	task := task{Pods: pods, Idle: s.idle, Dir: dir, Profile: s.profile}
	runtime, err := begin(ctx, asRuntime, task)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, runtime.end()) }()
	if err := runtime.receive(new(struct{})); err != nil {
		return m, fmt.Errorf("the runtime in memory: %w", err)
	}
	m.Pods = pods
	if err := report(ctx, asFirst, task, &m); err != nil {
		return m, err
	}
	err = report(ctx, asSecond, task, &m)
	return m, err
}

// report runs an agent until it has reported its measurements.
func report(ctx context.Context, as string, task task, m *measures) error {
	agent, err := begin(ctx, as, task)
	if err != nil {
		return err
	}
	return errors.Join(agent.receive(m), agent.end())
}

// measures are the printed results. Each agent sets its part.
type measures struct {
	Pods            int           `json:"-"` // as it was asked for
	Start, StartCPU time.Duration `json:",omitzero"`
	Idle, IdleCPU   time.Duration `json:",omitzero"`
	Heap, Resident  int64         `json:",omitzero"` // bytes
	Goroutines      int           `json:",omitzero"`
	Adopt, AdoptCPU time.Duration `json:",omitzero"`
	Stop, StopCPU   time.Duration `json:",omitzero"`
}

// String is the line of a run.
func (m measures) String() string {
	return fmt.Sprintf("pods %d: start %.1f ms/pod cpu %.1f ms/pod, idle %.2f s cpu/min heap %.1f kB/pod rss %.0f MB goroutines %d, adopt %.1f s cpu %.1f s, stop %.1f ms/pod",
		m.Pods, m.perPod(m.Start), m.perPod(m.StartCPU), 60*m.IdleCPU.Seconds()/m.Idle.Seconds(),
		float64(m.Heap)/1000/float64(m.Pods), float64(m.Resident)/1e6, m.Goroutines,
		m.Adopt.Seconds(), m.AdoptCPU.Seconds(), m.perPod(m.Stop))
}

// perPod is in milliseconds.
func (m measures) perPod(d time.Duration) float64 {
	return d.Seconds() * 1000 / float64(m.Pods)
}

// socket is where the runtime in memory listens.
func (t task) socket() string { return filepath.Join(t.Dir, "cri.sock") }
