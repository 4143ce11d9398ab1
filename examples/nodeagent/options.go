package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/sandbox"
)

const seeHelp = "See nodeagent -h."

const (
	defaultRoot    = "/var/lib/podsync"
	defaultPodLogs = sandbox.DefaultLogsRoot
	defaultServe   = "/run/podsync.sock"
	// serveVariable names the endpoint of the agent for all commands, in the environment.
	serveVariable = "PODSYNC_SERVE"
)

// options are what the agent is started with.
type options struct {
	manifests, runtime, root, podLogs, node, owner, cgroups, output string
	drain                                                           bool
	// serve is a socket or an address, empty if the agent serves nothing.
	serve        string
	certificates certificates
	logs         rotation
	// scratch is a folder that goes when the agent ends, empty if there is none.
	scratch string
}

// parse reads the command line. It makes the folders that are missing.
func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("nodeagent", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // main prints errors
	flags.StringVar(&o.manifests, "manifests", "", "`folder` of pod manifests, YAML or JSON (default samples, with the runtime in memory)")
	flags.StringVar(&o.runtime, "runtime", memory, "`endpoint` of the runtime, such as unix:///run/containerd/containerd.sock, "+
		"or memory for one that needs nothing: it acts containers out, but a hostPath is one of this machine, and is made there if its type says so")
	flags.StringVar(&o.root, "root", "", "`folder` for what the agent keeps (default "+defaultRoot+", or one for the time being with the runtime in memory)")
	flags.StringVar(&o.podLogs, "pod-logs", "", "`folder` for the logs of containers (default "+defaultPodLogs+", or below -root with the runtime in memory)")
	flags.StringVar(&o.node, "node", "", "`name` of the node, which ends the names of pods, as those of all static pods: web is web-NODE (default that of the host)")
	flags.StringVar(&o.owner, "owner", cri.DefaultOwner, "`name` of the agent, which marks what it makes; "+
		"agents on one runtime need different ones, and different -root, or they stop each other's pods")
	flags.StringVar(&o.cgroups, "cgroups", "", "`cgroup`, such as kubepods, below which each pod has one of its own, with the limits of the pod; beside a kubelet take another than its (default none: that is left to the runtime)")
	flags.StringVar(&o.output, "o", "", "json for one JSON object a line (default a live table on a terminal, plain lines elsewhere)")
	flags.BoolVar(&o.drain, "drain", false, "stop the pods when told to end, and not only leave them; a second Ctrl-C leaves those that still stop")
	flags.StringVar(&o.serve, "serve", "", "`endpoint` at which the commands inspect the agent, "+
		"such as unix://"+defaultServe+", where root and the agent's own user may, or https://:10250 with -tls-cert, -tls-key and -tls-ca")
	o.certificates.flags(flags)
	o.logs.flags(flags)
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		printUsage(stderr)
		flags.SetOutput(stderr)
		flags.PrintDefaults()
		return o, err
	}
	if err == nil {
		err = o.check(flags.Args())
	}
	if err != nil {
		return o, &failure{exitUsage, seeHelp, err}
	}
	if err = o.complete(); err != nil {
		o.discard()
	}
	return o, err
}

// printUsage prints how to run and to inspect an agent, before the flags.
func printUsage(to io.Writer) {
	fmt.Fprint(to, "Usage: nodeagent [FLAGS]\n\n"+
		"Runs the pods whose manifests are in a folder. Ctrl-C leaves them running; the next start takes them over.\n\n"+
		"       nodeagent COMMAND [-serve ENDPOINT] ...\n\n"+
		"Inspects an agent that runs with the same -serve. "+serveVariable+" replaces the flag.\n\n")
	printCommands(to)
	fmt.Fprint(to, "\nnodeagent COMMAND -h prints the flags of a command. The flags of the agent:\n")
}

// discard removes what the agent has made for the time being.
func (o options) discard() {
	if o.scratch != "" {
		_ = os.RemoveAll(o.scratch)
	}
}

func (o options) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q: a command precedes all flags", rest[0])
	case o.output != "" && o.output != "json":
		return fmt.Errorf("-o %s: only json is known", o.output)
	case o.runtime != memory && !strings.HasPrefix(o.runtime, "/") && !strings.Contains(o.runtime, "://"):
		return fmt.Errorf("-runtime %s: want %s, or an endpoint such as unix:///run/containerd/containerd.sock", o.runtime, memory)
	case o.serve != "" && !strings.HasPrefix(o.serve, "unix:///") && !strings.HasPrefix(o.serve, "https://"):
		return fmt.Errorf("-serve %s: want an endpoint such as unix://%s or https://:10250", o.serve, defaultServe)
	case o.runtime != memory && o.manifests == "":
		return errors.New("-manifests is missing: which pods are to run?")
	}
	if err := o.certificates.check(o.serve); err != nil {
		return err
	}
	if _, err := o.logs.policy(); err != nil {
		return err
	}
	if err := (cri.Owner{Name: o.owner}).Validate(); err != nil {
		return fmt.Errorf("-owner: %w", err)
	}
	return nil
}

// complete fills in defaults, and makes the folders.
func (o *options) complete() (err error) {
	if o.node == "" {
		if o.node, err = os.Hostname(); err != nil {
			return err
		}
		o.node = strings.ToLower(o.node)
	}
	sampled := o.manifests == ""
	if o.runtime == memory {
		err = o.completeInMemory()
	} else {
		o.root, o.podLogs = orElse(o.root, defaultRoot), orElse(o.podLogs, defaultPodLogs)
	}
	for _, folder := range []struct {
		flag string
		path *string
	}{{"-root", &o.root}, {"-pod-logs", &o.podLogs}, {"-manifests", &o.manifests}} {
		if err == nil {
			*folder.path, err = makeFolder(folder.flag, *folder.path)
		}
	}
	if err == nil && sampled {
		err = writeSamples(o.manifests)
	}
	return err
}

func (o *options) completeInMemory() (err error) {
	if o.root == "" {
		if o.scratch, err = os.MkdirTemp("", "podsync-"); err != nil {
			return err
		}
		o.root = o.scratch
	}
	o.podLogs = orElse(o.podLogs, filepath.Join(o.root, "logs"))
	o.manifests = orElse(o.manifests, filepath.Join(o.root, "manifests"))
	return nil
}

// makeFolder makes the folder that a flag stands for, and returns its absolute path.
func makeFolder(flag, path string) (string, error) {
	path, err := filepath.Abs(path)
	if err == nil {
		err = os.MkdirAll(path, 0o755)
	}
	if err == nil && flag != "-manifests" { // those are only read
		err = tryWriting(path)
	}
	if err == nil {
		return path, nil
	}
	err = fmt.Errorf("%s: %w", flag, err)
	if errors.Is(err, fs.ErrPermission) {
		return "", &failure{exitNoPermission, "Run the agent as root, or give folders of yours with -root, -pod-logs and -manifests.", err}
	}
	return "", err
}

// tryWriting finds out whether files can be made in a folder.
func tryWriting(folder string) error {
	file, err := os.CreateTemp(folder, ".writable-")
	if err != nil {
		return err
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

func orElse(s, def string) string {
	if s == "" {
		return def
	}
	return s
}
