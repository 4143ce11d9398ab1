package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const (
	defaultRoot    = "/var/lib/podsync"
	defaultPodLogs = "/var/log/pods"
)

// options are what the agent is started with.
type options struct {
	manifests, runtime, root, podLogs, node, output string
	drain                                           bool
	// scratch is a folder that goes when the agent ends, empty if there is none.
	scratch string
}

// parse reads the command line. It makes the folders that are missing.
func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("nodeagent", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.manifests, "manifests", "", "`folder` of pod manifests, YAML or JSON (default samples, with the runtime in memory)")
	flags.StringVar(&o.runtime, "runtime", memory, "`endpoint` of the runtime, such as unix:///run/containerd/containerd.sock, or memory for one that needs nothing")
	flags.StringVar(&o.root, "root", "", "`folder` for what the agent keeps (default "+defaultRoot+", or one for the time being with the runtime in memory)")
	flags.StringVar(&o.podLogs, "pod-logs", "", "`folder` for the logs of containers (default "+defaultPodLogs+", or below -root with the runtime in memory)")
	flags.StringVar(&o.node, "node", "", "`name` of the node, which ends the names of pods (default that of the host)")
	flags.StringVar(&o.output, "o", "", "json for one JSON object a line (default a live table on a terminal, plain lines elsewhere)")
	flags.BoolVar(&o.drain, "drain", false, "stop the pods when told to end, and not only leave them; a second Ctrl-C leaves those that still stop")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return o, err
	} else if err != nil {
		return o, &failure{exitUsage, "See nodeagent -h.", err}
	}
	if err := o.check(flags.Args()); err != nil {
		return o, &failure{exitUsage, "See nodeagent -h.", err}
	}
	return o, o.complete()
}

func (o options) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("%q is no flag", rest[0])
	case o.output != "" && o.output != "json":
		return fmt.Errorf("-o %s: only json is known", o.output)
	case o.runtime != memory && o.manifests == "":
		return errors.New("-manifests is missing: which pods are to run?")
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
	if o.runtime == memory {
		err = o.completeInMemory()
	} else {
		o.root, o.podLogs = orElse(o.root, defaultRoot), orElse(o.podLogs, defaultPodLogs)
	}
	for _, dir := range []*string{&o.root, &o.podLogs, &o.manifests} {
		if err == nil {
			*dir, err = filepath.Abs(*dir)
		}
		if err == nil {
			err = os.MkdirAll(*dir, 0o755)
		}
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
	if o.manifests != "" {
		return nil
	}
	o.manifests = filepath.Join(o.root, "manifests")
	return writeSamples(o.manifests)
}

// atEnd says what becomes of the pods when the agent is told to end.
func (o options) atEnd() string {
	if o.drain {
		return "stops the pods, and then the agent"
	}
	return "ends the agent and leaves the pods"
}

// farewell says what has become of them.
func (o options) farewell(pods int) string {
	switch {
	case pods == 0:
		return "No pod is left."
	case o.runtime == memory:
		return fmt.Sprintf("Detached from %d pods. The runtime in memory ends with the agent.", pods)
	}
	return fmt.Sprintf("Detached. %d pods are left as they are; start the agent again and it takes them over.", pods)
}

func orElse(s, def string) string {
	if s == "" {
		return def
	}
	return s
}
