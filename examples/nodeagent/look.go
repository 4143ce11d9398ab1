package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// A console is where a command reads from and prints to.
type console struct {
	in        *os.File
	out, errs io.Writer
}

// looks are the commands that look into an agent.
var looks = map[string]struct {
	usage string
	do    func(context.Context, *looking) error
}{
	"logs":         {"logs [-f] [-p] [-tail N] [-since 5m] [-timestamps] POD [-c CONTAINER]", printLogs},
	"exec":         {"exec [-it] POD [-c CONTAINER] -- COMMAND", execute},
	"attach":       {"attach [-it] POD [-c CONTAINER]", attach},
	"port-forward": {"port-forward POD [LOCAL:]PORT...", forwardPorts},
	"top":          {"top [POD]", printTop},
	"explain":      {"explain POD", printExplanation},
	"timeline":     {"timeline [-o html|trace] [POD]", printTimeline},
}

// A looking is one such command.
type looking struct {
	console
	serve, container, output                 string
	certificates                             certificates
	follow, previous, timestamps, stdin, tty bool
	tail                                     int64
	since                                    time.Duration
	names                                    []string // what is no flag
	command                                  []string // what is after --
}

// look runs a command.
func look(ctx context.Context, args []string, c console) error {
	l := &looking{console: c}
	err := l.parse(args)
	if err == nil {
		err = looks[args[0]].do(ctx, l)
	}
	usage := "Usage: nodeagent " + looks[args[0]].usage
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(c.errs, usage)
	}
	if wrong := (wrongUsage{}); errors.As(err, &wrong) {
		return &failure{exitUsage, usage, wrong.error}
	}
	return err
}

// wrongUsage is an error of whoever has typed a command.
type wrongUsage struct{ error }

// parse reads a command line. Flags may be anywhere before --.
func (l *looking) parse(args []string) error {
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard) // of errors main tells
	both := false
	flags.StringVar(&l.serve, "serve", "unix://"+defaultServe, "where the agent is")
	l.certificates.flags(flags)
	flags.StringVar(&l.container, "c", "", "container")
	flags.StringVar(&l.output, "o", "html", "what is printed")
	flags.BoolVar(&l.follow, "f", false, "follow")
	flags.BoolVar(&l.previous, "p", false, "previous")
	flags.BoolVar(&l.timestamps, "timestamps", false, "timestamps")
	flags.Int64Var(&l.tail, "tail", -1, "lines")
	flags.DurationVar(&l.since, "since", 0, "how long ago")
	flags.BoolVar(&l.stdin, "i", false, "standard input")
	flags.BoolVar(&l.tty, "t", false, "terminal")
	flags.BoolVar(&both, "it", false, "both")
	command, args := args[0], args[1:]
	for i, arg := range args {
		if arg == "--" {
			args, l.command = args[:i], args[i+1:]
			break
		}
	}
	for len(args) > 0 {
		if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
			return err
		} else if err != nil {
			return wrongUsage{err}
		}
		if args = flags.Args(); len(args) > 0 {
			l.names, args = append(l.names, args[0]), args[1:]
		}
	}
	l.stdin, l.tty = l.stdin || both, l.tty || both
	if len(l.names) == 0 && !strings.HasSuffix(looks[command].usage, "[POD]") {
		return wrongUsage{errors.New("POD is missing")}
	}
	return nil
}

// dial connects to the agent.
func (l *looking) dial(ctx context.Context) (net.Conn, error) {
	conn, err := l.dialEndpoint(ctx)
	if wrong := (wrongUsage{}); err == nil || errors.As(err, &wrong) {
		return conn, err
	}
	return nil, &failure{exitOther, "Does the agent run, with -serve " + l.serve + ", and may you use it?", err}
}

func (l *looking) dialEndpoint(ctx context.Context) (net.Conn, error) {
	if path, ok := strings.CutPrefix(l.serve, "unix://"); ok {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	address, ok := addressOf(l.serve)
	if !ok {
		return nil, wrongUsage{fmt.Errorf("-serve %s: want an endpoint such as unix://%s", l.serve, defaultServe)}
	}
	if err := l.certificates.check(l.serve); err != nil {
		return nil, wrongUsage{err}
	}
	config, err := l.certificates.client()
	if err != nil {
		return nil, err
	}
	return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address)
}

// get asks the agent for something.
func (l *looking) get(ctx context.Context, path string) (*http.Response, error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx) },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://node"+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil || resp.StatusCode == http.StatusOK {
		return resp, err
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16)) // as much as there is
	resp.Body.Close()
	return nil, errors.New(strings.TrimSpace(string(text)))
}

// path returns the path of what a command does in its container, which by default is
// the pod's first.
func (l *looking) path(ctx context.Context, what string) (string, error) {
	namespace, name := l.pod()
	path := "/" + what + "/" + namespace + "/" + name
	if what == "portForward" {
		return path, nil
	}
	if l.container != "" {
		return path + "/" + l.container, nil
	}
	resp, err := l.get(ctx, "/pods")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var pods v1.PodList
	if err := json.NewDecoder(resp.Body).Decode(&pods); err != nil {
		return "", err
	}
	for _, pod := range pods.Items {
		if pod.Namespace == namespace && pod.Name == name {
			return path + "/" + pod.Spec.Containers[0].Name, nil
		}
	}
	return "", fmt.Errorf("pod %q does not exist", namespace+"/"+name)
}

// pod is the namespace and the name of the pod that is meant.
func (l *looking) pod() (namespace, name string) {
	namespace, name, ok := strings.Cut(l.names[0], "/")
	if !ok {
		return v1.NamespaceDefault, l.names[0]
	}
	return namespace, name
}
