package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest/agenttest"
)

const help = `Holds a node agent against what pods are promised.

    referee [flags] -- COMMAND [ARGUMENT...]

COMMAND starts the agent: a program that keeps the pods of a folder of manifests running,
on a runtime that it is told. In it, and in the file of -config, are replaced

    {endpoint}   by the runtime's endpoint, unix:///path
    {manifests}  by the folder of manifests
    {root}       by a folder for what the agent keeps
    {logs}       by a folder for the logs of containers
    {config}     by the file made of the one that -config names

It is started anew for each scenario, several side by side, and is killed where a
scenario says so. It has to be the agent itself, and no shell that starts it. No container
really runs, and nothing needs root unless the agent does.

Exit codes: 0 all promises kept that were judged, 1 some broken, 2 started wrongly,
3 a scenario could not be played.

Flags:
`

// The command's exit codes.
const (
	exitBroken    = 1
	exitUsage     = 2
	exitNotPlayed = 3
)

// options are the command's flags.
type options struct {
	command                  []string
	config, html, json, logs string
	scenarios                string
	random, parallel         int
	seed                     uint64
	notice, patience         time.Duration
	list, promises           bool
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("referee", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // main prints errors
	flags.StringVar(&o.config, "config", "", "`file` with the agent's configuration, in which words are replaced as in COMMAND")
	flags.StringVar(&o.scenarios, "scenarios", "", "`names` of the scenarios to play, with commas between them (default all; see -list)")
	flags.IntVar(&o.random, "random", 0, "`how many` scenarios to draw at random, and play besides")
	flags.Uint64Var(&o.seed, "seed", 1, "the first `seed` of those")
	flags.IntVar(&o.parallel, "parallel", 4, "`how many` scenarios to play side by side")
	flags.DurationVar(&o.notice, "notice", 5*time.Second, "`time` that the agent may take to see a change in the folder of manifests")
	flags.DurationVar(&o.patience, "patience", 6*time.Minute, "`time` that it may take, when nothing goes wrong any more, until all is as it should be")
	flags.StringVar(&o.html, "html", "", "`file` to write a page with the timelines of broken promises to")
	flags.StringVar(&o.json, "json", "", "`file` to write the report to as JSON")
	flags.StringVar(&o.logs, "output", "", "`file` to write to what the agents print")
	flags.BoolVar(&o.list, "list", false, "list the scenarios, with what is done in them, and play none")
	flags.BoolVar(&o.promises, "promises", false, "list the promises, with their sources, and play nothing")
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stderr, help)
		flags.SetOutput(stderr)
		flags.PrintDefaults()
		return o, err
	}
	o.command = flags.Args()
	if err == nil {
		err = o.check()
	}
	return o, err
}

func (o options) check() error {
	switch {
	case o.list || o.promises:
		return nil
	case len(o.command) == 0:
		return errors.New("the command that starts the agent is missing")
	case !strings.Contains(strings.Join(o.command, " ")+o.configText(), "{endpoint}"):
		return errors.New("{endpoint} is neither in the command nor in the file of -config: how does the agent find its runtime?")
	case o.random < 0 || o.parallel < 1 || o.notice <= 0 || o.patience <= 0:
		return errors.New("-random must not be negative, and -parallel, -notice and -patience must be positive")
	}
	return nil
}

// configText returns the contents of the file of -config, empty if it cannot be read; the error is
// reported when the file is used.
func (o options) configText() string {
	text, _ := os.ReadFile(o.config)
	return string(text)
}

// chosen returns the scenarios to run.
func (o options) chosen() ([]agenttest.Scenario, error) {
	all := agenttest.Scenarios()
	if o.scenarios != "" {
		var err error
		if all, err = agenttest.Select(all, strings.Split(o.scenarios, ",")...); err != nil {
			return nil, fmt.Errorf("-scenarios: %w", err)
		}
	}
	for n := range uint64(o.random) {
		all = append(all, agenttest.Random(o.seed+n))
	}
	return all, nil
}
