package main

import (
	"cmp"
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
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/foreign"
)

// A console is the input and output from a command.
type console struct {
	in        *os.File
	out, errs io.Writer
}

// An invocation is one run of a command.
type invocation struct {
	console
	serve, container, output                 string
	certificates                             certificates
	follow, previous, timestamps, stdin, tty bool
	tail                                     int64
	since, timeout                           time.Duration
	root, node, manifests                    string   // of plan, for an agent that does not run
	names                                    []string // the arguments that are not flags
	argv                                     []string // the arguments after --
}

// runCommand runs the command that the first argument names.
func runCommand(ctx context.Context, args []string, c console) error {
	cmd, err := commandOf(args[0])
	if err != nil {
		return err
	}
	l := &invocation{console: c}
	flags := cmd.flagSet(l)
	err = l.parse(cmd, flags, args[1:])
	if errors.Is(err, flag.ErrHelp) {
		cmd.help(c.errs, flags)
		return err
	}
	if err == nil {
		err = cmd.do(ctx, l)
	}
	if wrong := (wrongUsage{}); errors.As(err, &wrong) {
		return &failure{cmp.Or(cmd.usageCode, exitUsage), cmd.usage(), wrong.error}
	}
	return l.didYouMean(ctx, err)
}

// wrongUsage is an error in a command line.
type wrongUsage struct{ error }

// parse reads a command line. Flags may be anywhere before --.
func (l *invocation) parse(cmd command, flags *flag.FlagSet, args []string) error {
	if i := slices.Index(args, "--"); i >= 0 {
		args, l.argv = args[:i], args[i+1:]
	}
	for len(args) > 0 {
		if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
			return err
		} else if err != nil {
			return wrongUsage{withNearestFlag(err, flags)}
		}
		if args = flags.Args(); len(args) > 0 {
			l.names, args = append(l.names, args[0]), args[1:]
		}
	}
	switch {
	case len(l.names) == 0 && !cmd.podOptional:
		return wrongUsage{errors.New("POD is missing")}
	case len(l.names) > 1 && !cmd.ports:
		return wrongUsage{fmt.Errorf("unexpected argument %q after the pod", l.names[1])}
	}
	return nil
}

// dial connects to the agent.
func (l *invocation) dial(ctx context.Context) (net.Conn, error) {
	conn, err := l.dialEndpoint(ctx)
	if wrong := (wrongUsage{}); err == nil || errors.As(err, &wrong) {
		return conn, err
	}
	return nil, &failure{exitOther, "Does the agent run, with -serve " + l.serve + ", and may you use it? -serve or " + serveVariable + " names another endpoint.", err}
}

func (l *invocation) dialEndpoint(ctx context.Context) (net.Conn, error) {
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

// get sends a GET request to the agent.
func (l *invocation) get(ctx context.Context, path string) (*http.Response, error) {
	return l.send(ctx, http.MethodGet, path, nil)
}

func (l *invocation) send(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx) },
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://node"+path, body)
	if err != nil {
		return nil, err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil || resp.StatusCode == http.StatusOK {
		return resp, err
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16)) // a partial message is good enough
	resp.Body.Close()
	return nil, refusal(string(text))
}

// path returns the path of a request about the pod's container.
func (l *invocation) path(ctx context.Context, what string) (string, error) {
	namespace, name := l.pod()
	path := "/" + what + "/" + namespace + "/" + name
	if what == "portForward" {
		return path, nil
	}
	if l.container != "" {
		return path + "/" + l.container, nil
	}
	pods, err := l.pods(ctx)
	if err != nil {
		return "", err
	}
	for i := range pods {
		if pods[i].Namespace == namespace && pods[i].Name == name {
			return path + "/" + l.defaultContainer(&pods[i]), nil
		}
	}
	return "", fmt.Errorf("pod %q does not exist", namespace+"/"+name)
}

// warnIfSilent prints a warning if the runtime does not answer the agent: the output is then older than it seems.
func (l *invocation) warnIfSilent(ctx context.Context) {
	resp, err := l.get(ctx, "/healthz/syncloop")
	if err == nil {
		resp.Body.Close()
		return
	}
	if text, ok := strings.CutPrefix(err.Error(), "runtime: "); ok {
		fmt.Fprintf(l.errs, "Warning: the runtime does not answer, %s. This is the last known state.\n", foreign.Line(text))
	}
}

// pods returns the agent's pods.
func (l *invocation) pods(ctx context.Context) ([]v1.Pod, error) {
	resp, err := l.get(ctx, "/pods")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var pods v1.PodList
	err = json.NewDecoder(resp.Body).Decode(&pods)
	return pods.Items, err
}

// defaultContainer returns the container that a command without -c uses, as kubectl does: the one that
// an annotation names, or else the first. It prints which one, unless the pod has no other.
func (l *invocation) defaultContainer(pod *v1.Pod) string {
	var names []string
	for _, c := range pod.Spec.Containers {
		names = append(names, c.Name)
	}
	if name := pod.Annotations["kubectl.kubernetes.io/default-container"]; slices.Contains(names, name) {
		return name
	}
	chosen := names[0]
	for _, c := range pod.Spec.EphemeralContainers {
		names = append(names, c.Name+" (ephem)")
	}
	for _, c := range pod.Spec.InitContainers {
		names = append(names, c.Name+" (init)")
	}
	if len(names) > 1 {
		fmt.Fprintf(l.errs, "Defaulted container %q out of: %s\n", chosen, foreign.Line(strings.Join(names, ", ")))
	}
	return chosen
}

// pod returns the namespace and the name of the pod that the command names.
func (l *invocation) pod() (namespace, name string) {
	namespace, name, ok := strings.Cut(l.names[0], "/")
	if !ok {
		return v1.NamespaceDefault, l.names[0]
	}
	return namespace, name
}
