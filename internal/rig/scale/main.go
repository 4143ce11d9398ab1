// Command scale measures what many pods cost an agent:
//
//	go run ./internal/rig/scale -pods 1000 -pods 10000
//
// For each -pods it starts two processes: a runtime in memory, and an agent that gets that
// number of pods, each with one container, from a Push. When all pods run, it measures the idle agent. Then the agent
// ends, and a new agent process adopts the pods and finally stops them. Each run ends with these
// lines:
//
//	pods 10000: start 3.1 ms/pod cpu 2.6 ms/pod, idle 0.05 s cpu/min heap 9.8 kB/pod rss 210 MB goroutines 16, adopt 2.1 s cpu 1.4 s, stop 2.9 ms/pod
//	  a start            10.9 reads     34.2 writes      7.1 wake-ups      1500 allocations
//	  an idle minute     ...
//	  an adoption        ...
//	  a stop             ...
//
// Reads and writes are system calls for files and sockets, wake-ups are threads that slept and ran again, allocations
// are objects of the heap; starts, adoptions and stops are those of one pod.
//
// CPU is the user and system time of the agent process. Start is the time from the delivery of the pods to the Push
// until the sink has got the status Running of all pods. The heap is its growth since before the start, after a
// garbage collection. Adopt is the time from before the connection to the runtime until the sink
// has got the status Running of all pods. Stop is the time from the removal of the pods from the Push until all pods are
// forgotten and the runtime has no objects left. The progress, and the CPU of the stop, are printed to
// standard error. The lists of more than about 19,000 pods do not fit into a CRI message, see
// cri.Config.MaxMessageBytes: an agent can start these pods, but the next one cannot adopt them,
// so the run ends with an error.
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
	"strings"
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
		fmt.Fprintf(out, "%v%s\n", m, m.counts())
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
	Pods           int           `json:"-"` // the value of -pods
	Start          time.Duration `json:",omitzero"`
	Started        work          `json:",omitzero"`
	Idle           time.Duration `json:",omitzero"`
	Idled          work          `json:",omitzero"`
	Heap, Resident int64         `json:",omitzero"` // bytes
	Goroutines     int           `json:",omitzero"`
	Adopt          time.Duration `json:",omitzero"`
	Adopted        work          `json:",omitzero"`
	Stop           time.Duration `json:",omitzero"`
	Stopped        work          `json:",omitzero"`
}

// counts are the lines of a run that no load of the machine changes much.
func (m measures) counts() string {
	var text strings.Builder
	minute := m.Idle.Minutes()
	for _, part := range []struct {
		name string
		work
		by float64
	}{
		{"a start", m.Started, float64(m.Pods)}, {"an idle minute", m.Idled, minute},
		{"an adoption", m.Adopted, float64(m.Pods)}, {"a stop", m.Stopped, float64(m.Pods)},
	} {
		fmt.Fprintf(&text, "\n  %-14s %8.1f reads %8.1f writes %8.1f wake-ups %9.0f allocations", part.name,
			float64(part.Reads)/part.by, float64(part.Writes)/part.by, float64(part.WakeUps)/part.by, float64(part.Allocations)/part.by)
	}
	return text.String()
}

// String is the line of a run.
func (m measures) String() string {
	return fmt.Sprintf("pods %d: start %.1f ms/pod cpu %.1f ms/pod, idle %.2f s cpu/min heap %.1f kB/pod rss %.0f MB goroutines %d, adopt %.1f s cpu %.1f s, stop %.1f ms/pod",
		m.Pods, m.perPod(m.Start), m.perPod(m.Started.CPU), 60*m.Idled.CPU.Seconds()/m.Idle.Seconds(),
		float64(m.Heap)/1000/float64(m.Pods), float64(m.Resident)/1e6, m.Goroutines,
		m.Adopt.Seconds(), m.Adopted.CPU.Seconds(), m.perPod(m.Stop))
}

// perPod is in milliseconds.
func (m measures) perPod(d time.Duration) float64 {
	return d.Seconds() * 1000 / float64(m.Pods)
}

// socket is where the runtime in memory listens.
func (t task) socket() string { return filepath.Join(t.Dir, "cri.sock") }
