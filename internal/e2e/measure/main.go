// Command measure takes the time from a pod's manifest to its running container, and
// what an idle agent costs, on a real runtime that nobody else uses:
//
//	go build -o nodeagent ./examples/nodeagent
//	sudo measure -agent ./nodeagent -runtime unix:///run/containerd/containerd.sock -image localhost/busybox:e2e
//
// For each number of pods and init containers the agent is compared with the floor:
// the same pods made with bare CRI calls in the only possible order, all pods at once,
// which no agent can beat. Floor and agent take turns, and the ratio is that of one
// turn, so that a machine which slows down meanwhile slows down both. The median
// of the rounds is printed, of the pods' median times.
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

// settings are what is measured, and with what.
type settings struct {
	agent, endpoint, image string
	rounds, idle           int
	minutes                float64
	shapes                 []shape
}

// A shape is a number of pods that are started at once, each with so many init
// containers.
type shape struct{ pods, inits int }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
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
	flags.Float64Var(&s.minutes, "minutes", 2, "how long the idle agent is watched")
	shapes := flags.String("shapes", "1+0,1+3,10+0,10+3,40+0", "`list` of pods+init containers, empty for none")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if s.agent == "" || s.rounds < 1 {
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
		pods, inits, _ := strings.Cut(text, "+")
		var sh shape
		if sh.pods, err = strconv.Atoi(pods); err == nil && inits != "" {
			sh.inits, err = strconv.Atoi(inits)
		}
		if err != nil || sh.pods < 1 || sh.inits < 0 {
			return nil, fmt.Errorf("-shapes: %q is not pods+inits, such as 10+3", text)
		}
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
	fmt.Fprintln(out, "| pods | init containers | floor | agent | ratio | ratios of the rounds | all stopped |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|")
	for _, sh := range s.shapes {
		if err := compare(ctx, s, client, sh, out); err != nil {
			return fmt.Errorf("%d pods with %d init containers: %w", sh.pods, sh.inits, err)
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
	var floors, agents, ratios, stops []float64
	for round := range s.rounds {
		floor, err := floor(ctx, client, s.image, sh)
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
		floors, agents, stops = append(floors, floor), append(agents, started), append(stops, stopped)
		ratios = append(ratios, started/floor)
	}
	fmt.Fprintf(out, "| %d | %d | %.2f | %.2f | %.2f | %.2f | %.1f |\n",
		sh.pods, sh.inits, median(floors), median(agents), median(ratios), ratios, median(stops))
	return nil
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
