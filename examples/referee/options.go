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

const help = `Checks whether a node agent keeps its promises to pods.

    referee [flags] -- COMMAND [ARGUMENT...]

COMMAND starts the agent: a program that keeps the pods of a folder of manifests running,
on a given runtime. The referee replaces these words in COMMAND and in the file of -config:

    {endpoint}   the endpoint of the runtime, unix:///path
    {manifests}  the folder of manifests
    {root}       a folder for the state of the agent
    {logs}       a folder for the logs of containers
    {config}     the path of the file of -config, with its words replaced

The referee starts the agent once for each scenario, several at a time, and kills it where
a scenario says so. COMMAND must be the agent itself, not a shell that starts it. The
containers are simulated, and nothing needs root unless the agent does.

Exit codes: 0 the agent kept all promises that were checked, 1 it broke some, 2 invalid
arguments, 3 a scenario could not run.

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
	flags.StringVar(&o.config, "config", "", "`file` with the agent's configuration, whose words in braces are replaced")
	flags.StringVar(&o.scenarios, "scenarios", "", "`names` of the scenarios to run, separated by commas (default all; see -list)")
	flags.IntVar(&o.random, "random", 0, "`number` of random scenarios to run in addition")
	flags.Uint64Var(&o.seed, "seed", 1, "first `seed` of the random scenarios")
	flags.IntVar(&o.parallel, "parallel", 4, "`number` of scenarios that run at a time")
	flags.DurationVar(&o.notice, "notice", 5*time.Second, "`time` that the agent may take to see a change in the folder of manifests")
	flags.DurationVar(&o.patience, "patience", 6*time.Minute, "`time` within which all pods must be as desired after the last fault")
	flags.StringVar(&o.html, "html", "", "`file` for a page with the timelines of broken promises")
	flags.StringVar(&o.json, "json", "", "`file` for the report as JSON")
	flags.StringVar(&o.logs, "output", "", "`file` for the output of the agents")
	flags.BoolVar(&o.list, "list", false, "list the scenarios with their steps, and run none")
	flags.BoolVar(&o.promises, "promises", false, "list the promises with their sources, and run nothing")
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
