package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A command inspects a running agent.
type command struct {
	name, args, summary string
	do                  func(context.Context, *invocation) error
	// flags defines the flags beyond -serve and the certificates. It is nil if there are none.
	flags func(*invocation, *flag.FlagSet)
	// podOptional means that the command covers all pods if no pod is named.
	podOptional bool
	// ports means that further arguments follow the pod.
	ports bool
	// usageCode is the exit code for a wrong command line, exitUsage by default.
	usageCode int
}

// commands returns the commands, in the order of the help.
func commands() []command {
	return []command{
		{name: "get", args: "[-A] [-o json|yaml] [[NAMESPACE/]POD]", summary: "print the pods and their statuses",
			do: printPods, flags: getFlags, podOptional: true},
		{name: "explain", args: "[NAMESPACE/]POD", summary: "print the next step of each container, and its reason", do: printExplanation},
		{name: "logs", args: "[-f] [-p] [-tail N] [-since 5m] [-timestamps] [NAMESPACE/]POD [-c CONTAINER]",
			summary: "print the log of a container", do: printLogs, flags: logFlags},
		{name: "exec", args: "[-it] [NAMESPACE/]POD [-c CONTAINER] -- COMMAND [ARG...]", summary: "run a command in a container", do: execute, flags: streamFlags},
		{name: "attach", args: "[-it] [NAMESPACE/]POD [-c CONTAINER]", summary: "attach to the process of a container", do: attach, flags: streamFlags},
		{name: "port-forward", args: "[NAMESPACE/]POD [LOCAL:]PORT...", summary: "forward local ports to a pod", do: forwardPorts, ports: true},
		{name: "plan", args: "[-o json] [-root FOLDER [-node NAME] [-manifests FOLDER]] FOLDER|FILE|-", summary: "print what these manifests would change, and why; nothing is changed",
			do: printPlan, flags: planFlags, podOptional: true, usageCode: exitOther},
		{name: "replay", args: "FOLDER [[NAMESPACE/]POD]", summary: "decide again what an agent has decided with -record FOLDER, and print what differs, or explain the decisions on a pod",
			do: replay, podOptional: true, ports: true},
		{name: "drain", args: "[-timeout 5m]", summary: "stop all pods, each within its grace period, and then the agent",
			do: printDrain, flags: drainFlags, podOptional: true},
		{name: "top", args: "[[NAMESPACE/]POD]", summary: "print the CPU and the memory in use", do: printTop, podOptional: true},
		{name: "timeline", args: "[-o html|trace] [[NAMESPACE/]POD]", summary: "print what happened to the pods, as a page or a trace",
			do: printTimeline, flags: timelineFlags, podOptional: true},
	}
}

// commandOf returns the command of this name. If there is none, the error proposes a similar one.
func commandOf(name string) (command, error) {
	var names []string
	for _, c := range commands() {
		if c.name == name {
			return c, nil
		}
		names = append(names, c.name)
	}
	advice := "The commands are " + strings.Join(names, ", ") + ". " + seeHelp
	if near := nearest(name, names); near != "" {
		advice = "Did you mean " + near + "? " + seeHelp
	}
	return command{}, &failure{exitUsage, advice, fmt.Errorf("unknown command %q", name)}
}

// flagSet returns the flags of the command, which set the fields of l.
func (c command) flagSet(l *invocation) *flag.FlagSet {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // main prints the errors
	flags.StringVar(&l.serve, "serve", cmp.Or(os.Getenv(serveVariable), "unix://"+defaultServe),
		"`endpoint` of the agent, which its own flag -serve names; "+serveVariable+" sets the default")
	l.certificates.flags(flags)
	if c.flags != nil {
		c.flags(l, flags)
	}
	return flags
}

func (c command) usage() string { return "Usage: nodeagent " + c.name + " [-serve ENDPOINT] " + c.args }

// help prints the usage and the flags.
func (c command) help(to io.Writer, flags *flag.FlagSet) {
	fmt.Fprintf(to, "%s\n\n%s.\n\n", c.usage(), strings.ToUpper(c.summary[:1])+c.summary[1:])
	flags.SetOutput(to)
	flags.PrintDefaults()
}

// printCommands prints a line for each command.
func printCommands(to io.Writer) {
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, c := range commands() {
		fmt.Fprintf(t, "  %s\t%s\n", c.name, c.summary)
	}
	t.Flush()
}

func getFlags(l *invocation, flags *flag.FlagSet) {
	flags.StringVar(&l.output, "o", "", "json or yaml for the pods as an API server has them (default a table)")
	flags.BoolFunc("A", "pods of all namespaces, as without it if no pod is named", func(string) error { return nil })
}

func planFlags(l *invocation, flags *flag.FlagSet) {
	flags.StringVar(&l.output, "o", "", "json (default a line for each pod and container)")
	flags.StringVar(&l.root, "root", "", "`folder` with the state of an agent that does not run, to plan its next start (default: ask the running agent)")
	flags.StringVar(&l.node, "node", "", "with -root, the `name` of the node (default the hostname)")
	flags.StringVar(&l.manifests, "manifests", "", "with -root, the `folder` of the agent's manifests, if the manifests of the plan are in a copy")
}

func drainFlags(l *invocation, flags *flag.FlagSet) {
	flags.DurationVar(&l.timeout, "timeout", 5*time.Minute, "maximum `duration` to wait; the agent goes on stopping the pods after it, and does not end")
}

func timelineFlags(l *invocation, flags *flag.FlagSet) {
	flags.StringVar(&l.output, "o", "html", "`format`: html for a page, trace for Perfetto")
}

func containerFlag(l *invocation, flags *flag.FlagSet) {
	flags.StringVar(&l.container, "c", "", "`container` (default the one that kubectl takes: of the annotation kubectl.kubernetes.io/default-container, or the first)")
}

func logFlags(l *invocation, flags *flag.FlagSet) {
	containerFlag(l, flags)
	flags.BoolVar(&l.follow, "f", false, "follow the log until the container ends")
	flags.BoolVar(&l.previous, "p", false, "print the log of the previous instance of the container")
	flags.BoolVar(&l.previous, "previous", false, "the same as -p")
	flags.BoolVar(&l.timestamps, "timestamps", false, "print the time of each line")
	flags.Int64Var(&l.tail, "tail", -1, "`number` of last lines to print, all if it is negative")
	flags.DurationVar(&l.since, "since", 0, "print only lines newer than this `duration`, such as 5m")
}

func streamFlags(l *invocation, flags *flag.FlagSet) {
	containerFlag(l, flags)
	flags.BoolVar(&l.stdin, "i", false, "pass standard input on")
	flags.BoolVar(&l.tty, "t", false, "give the process a terminal")
	flags.BoolFunc("it", "short for -i -t", func(string) error {
		l.stdin, l.tty = true, true
		return nil
	})
}

// nearest returns the candidate that is most similar to a mistyped word, empty if none is similar. A candidate that
// continues the word after a hyphen counts as similar, because the name of a static pod ends with the name of its node.
func nearest(word string, candidates []string) string {
	best, least := "", max(1, len(word)/3)+1
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		d := distance(word, c)
		if word != "" && strings.HasPrefix(c, word+"-") {
			d = 0
		}
		if d < least {
			best, least = c, d
		}
	}
	return best
}

// withNearestFlag adds the most similar flag to the error about an unknown one.
func withNearestFlag(err error, flags *flag.FlagSet) error {
	if err == nil {
		return nil
	}
	_, unknown, found := strings.Cut(err.Error(), "flag provided but not defined: -")
	var names []string
	flags.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	if near := nearest(unknown, names); found && near != "" {
		return fmt.Errorf("%w; did you mean -%s?", err, near)
	}
	return err
}

// distance counts the characters to insert, delete, replace or swap with the next to get from a to b.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			switch {
			case i == 0 || j == 0:
				rows[i][j] = i + j
			case a[i-1] == b[j-1]:
				rows[i][j] = rows[i-1][j-1]
			default:
				rows[i][j] = 1 + min(rows[i-1][j-1], rows[i-1][j], rows[i][j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], 1+rows[i-2][j-2])
			}
		}
	}
	return rows[len(a)][len(b)]
}
