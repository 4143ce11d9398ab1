// Command steady runs the tests of packages many times beside busy processes, and counts the failures:
//
//	go run ./internal/rig/steady -runs 50 -busy 8 ./syncpod/loop ./runtime/...
//
// It builds the test binary of each package once. The runs shuffle the tests and take turns with GOMAXPROCS 1, 2 and 8.
// With -race each second run uses a binary with the race detector. One line for each package reports the result:
//
//	./syncpod/loop: 50 runs, 2 failures: TestF14_AgentRestartedAtAnyCall 2
//
// The output of the first failed run of each package is printed before its line. With -for the program stops after that
// time, and with -draw it takes the packages in an order that the given text decides, such as the date. The exit code is 1 if
// a run has failed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// settings are the parameters of a check.
type settings struct {
	runs, busy int
	race       bool
	pattern    string
	budget     time.Duration
	draw       string
	timeout    time.Duration
	patterns   []string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) == 2 && os.Args[1] == busyArgument {
		spin(os.Stdin)
		return
	}
	s, err := parse(os.Args[1:], os.Stderr)
	if err == nil {
		err = check(ctx, s, os.Stdout)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "steady:", err)
		os.Exit(1)
	}
}

func parse(args []string, usage io.Writer) (settings, error) {
	s := settings{}
	flags := flag.NewFlagSet("steady", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.IntVar(&s.runs, "runs", 50, "how often each package is run")
	flags.IntVar(&s.busy, "busy", 8, "how many processes keep the processors busy meanwhile")
	flags.BoolVar(&s.race, "race", false, "use the race detector in each second run")
	flags.StringVar(&s.pattern, "run", "", "run only tests that match this, as go test -run does")
	flags.DurationVar(&s.budget, "for", 0, "begin no run after this time; 0 means no limit")
	flags.StringVar(&s.draw, "draw", "", "take the packages in an order drawn from this text; empty means in the given order")
	flags.DurationVar(&s.timeout, "timeout", 20*time.Minute, "how long one run may take")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	s.patterns = flags.Args()
	switch {
	case len(s.patterns) == 0:
		return s, errors.New("no packages: steady [flags] packages")
	case s.runs < 1:
		return s, fmt.Errorf("-runs is %d, but must be 1 or more", s.runs)
	case s.busy < 0:
		return s, fmt.Errorf("-busy is %d, but must be 0 or more", s.busy)
	case s.timeout <= 0:
		return s, fmt.Errorf("-timeout is %v, but must be more than 0", s.timeout)
	}
	return s, nil
}
