// Command measure measures the time from a pod's manifest to its running container, the time from a manifest's removal
// to the end of its pod, and the resource usage of an idle agent, on a real runtime without other users:
//
//	go build -o nodeagent ./examples/nodeagent
//	sudo measure -agent ./nodeagent -runtime unix:///run/containerd/containerd.sock -image localhost/busybox:e2e
//
// For each number of pods and init containers the agent is compared with the floor: the same pods are created, and ended,
// with bare CRI calls in the only possible order, all pods concurrently, which no agent can beat. As with a kubelet, their
// sandboxes have the runtime's seccomp profile, and their containers PID namespaces of their own. Floor and agent alternate,
// and a ratio compares two adjacent runs, so that a change of the machine's speed affects both. The medians of the rounds
// are printed, for the pod in the middle and for the last one. Polite pods end on SIGTERM; deaf ones are killed after a
// grace period of two seconds. With -burst 250 an agent gets that many pods at the same time.
//
// With -everything the agent is this program itself, with every optional feature enabled that costs something while
// nothing happens.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/podsync/podsync/runtime/cri"
)

// settings are the subject and the parameters of the measurement.
type settings struct {
	agent, endpoint, image string
	rounds, idle, burst    int
	probe                  int
	minutes                float64
	everything             bool
	shapes                 []shape
}

// A shape is a number of pods that are started at once and stopped at once, each with so
// many init containers.
type shape struct {
	pods, inits int
	deaf        bool // to SIGTERM
}

// command returns the command of a pod's main container. As the first process of a container, sleep has no handler of
// SIGTERM, and so does not end on it.
func (sh shape) command() []string {
	if sh.deaf {
		return []string{"/bin/sleep", "3600"}
	}
	return []string{"/bin/sh", "-c", "trap 'exit 0' TERM; sleep 3600 & wait"}
}

func (sh shape) String() string {
	if sh.deaf {
		return fmt.Sprintf("%d+%d deaf", sh.pods, sh.inits)
	}
	return fmt.Sprintf("%d+%d", sh.pods, sh.inits)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) > 1 && os.Args[1] == asAgent {
		if err := beAgent(ctx, os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "measure:", err)
			os.Exit(1)
		}
		return
	}
	s, err := parse(os.Args[1:])
	if err == nil {
		err = run(ctx, s, os.Stdout)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

func parse(args []string) (settings, error) {
	s := settings{}
	flags := flag.NewFlagSet("measure", flag.ContinueOnError)
	flags.StringVar(&s.agent, "agent", "", "the nodeagent `program`; required")
	flags.StringVar(&s.endpoint, "runtime", "unix:///run/containerd/containerd.sock", "`endpoint` of the runtime")
	flags.StringVar(&s.image, "image", "localhost/busybox:e2e", "`image` with /bin/sleep and /bin/true that the runtime has")
	flags.IntVar(&s.rounds, "rounds", 5, "turns for each shape")
	flags.IntVar(&s.idle, "idle", 30, "pods of the idle agent, 0 for none")
	flags.IntVar(&s.burst, "burst", 0, "pods that the agent gets at once, without a floor, 0 for none")
	flags.Float64Var(&s.minutes, "minutes", 2, "how long the idle agent is watched")
	flags.BoolVar(&s.everything, "everything", false, "in place of nodeagent take an agent that has all on which the library can: cgroups, decisions on resizes, stats, collection of images, probes")
	flags.IntVar(&s.probe, "probe", 10, "with -everything, seconds between two exec probes of a container, 0 for none")
	shapes := flags.String("shapes", "1+0,1+3,10+0,10+3,40+0,1+0deaf,10+0deaf,40+0deaf", "`list` of pods+init containers, of pods deaf to SIGTERM as 10+3deaf; empty for none")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if s.agent == "" && !s.everything || s.rounds < 1 {
		return s, errors.New("-agent is missing, or -rounds is less than 1")
	}
	var err error
	s.shapes, err = parseShapes(*shapes)
	return s, err
}

func parseShapes(list string) (shapes []shape, err error) {
	for text := range strings.SplitSeq(list, ",") {
		if text == "" {
			continue
		}
		var sh shape
		numbers, deaf := strings.CutSuffix(text, "deaf")
		pods, inits, _ := strings.Cut(numbers, "+")
		if sh.pods, err = strconv.Atoi(pods); err == nil && inits != "" {
			sh.inits, err = strconv.Atoi(inits)
		}
		if err != nil || sh.pods < 1 || sh.inits < 0 {
			return nil, fmt.Errorf("-shapes: %q is not pods+inits, such as 10+3 or 10+3deaf", text)
		}
		sh.deaf = deaf
		shapes = append(shapes, sh)
	}
	return shapes, nil
}

func run(ctx context.Context, s settings, out io.Writer) error {
	client, err := cri.Dial(ctx, cri.Config{Endpoint: s.endpoint})
	if err != nil {
		return err
	}
	defer client.Close()
	fmt.Fprintf(out, "%s %s, medians of %d rounds, seconds\n\n", client.RuntimeName(), client.RuntimeVersion(), s.rounds)
	fmt.Fprintln(out, "| pods+inits | start p50: floor | agent | ratio | start max: floor | agent | ratio | stop p50: floor | agent | ratio | stop max: floor | agent | ratio |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, sh := range s.shapes {
		if err := compare(ctx, s, client, sh, out); err != nil {
			return fmt.Errorf("%d pods with %d init containers: %w", sh.pods, sh.inits, err)
		}
	}
	if s.burst > 0 {
		if err := burst(ctx, s, client, out); err != nil {
			return fmt.Errorf("%d pods at once: %w", s.burst, err)
		}
	}
	if s.idle == 0 {
		return nil
	}
	return idle(ctx, s, client, out)
}

// compare prints a row of the table.
func compare(ctx context.Context, s settings, client *cri.Client, sh shape, out io.Writer) error {
	a, err := startAgent(s, client)
	if err != nil {
		return err
	}
	defer a.end()
	var c comparison
	for round := range s.rounds {
		starts, stops, err := floor(ctx, client, a.events, s.image, sh)
		if err != nil {
			return fmt.Errorf("floor: %w", err)
		}
		name := fmt.Sprintf("r%d-", round)
		started, err := a.run(ctx, name, sh)
		if err != nil {
			return err
		}
		stopped, err := a.stop(ctx, name, sh)
		if err != nil {
			return err
		}
		c.add(starts, started, stops, stopped)
	}
	fmt.Fprintf(out, "| %v |%v\n", sh, c)
	return nil
}

// A comparison has the durations of all rounds: of the start and the stop, each for the median pod and for the last
// pod.
type comparison [4]struct{ floor, agent, ratio []float64 }

// add adds a round, in seconds by pod.
func (c *comparison) add(starts, started, stops, stopped []float64) {
	for i, times := range [][2]float64{
		{median(starts), median(started)}, {slices.Max(starts), slices.Max(started)},
		{median(stops), median(stopped)}, {slices.Max(stops), slices.Max(stopped)},
	} {
		c[i].floor, c[i].agent = append(c[i].floor, times[0]), append(c[i].agent, times[1])
		c[i].ratio = append(c[i].ratio, times[1]/times[0])
	}
}

func (c comparison) String() string {
	var text strings.Builder
	for _, of := range c {
		fmt.Fprintf(&text, " %.2f | %.2f | %.2f |", median(of.floor), median(of.agent), median(of.ratio))
	}
	return text.String()
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// pause waits, and returns the error of ctx if that ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
