package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/sandbox"
)

const seeHelp = "See nodeagent -h."

const (
	defaultRoot    = "/var/lib/podsync"
	defaultPodLogs = sandbox.DefaultLogsRoot
	defaultServe   = "/run/podsync.sock"
	// serveVariable is the environment variable with the endpoint of the agent, for all commands.
	serveVariable = "PODSYNC_SERVE"
	// longestSocket is the maximum length of a socket's path on Linux.
	longestSocket = 107
)

// options are the flags of the agent.
type options struct {
	record, manifests, runtime, root, podLogs, node, owner, cgroups, output, page string
	version, drain, stopUnknown, createManifests                                  bool
	// serve is a socket or an address, empty if the agent serves nothing.
	serve        string
	certificates certificates
	logs         rotation
	// scratch is a temporary folder that is removed when the agent ends, empty if there is none.
	scratch string
}

// parse parses the command line, and creates missing folders.
func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("nodeagent", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // main prints errors
	flags.StringVar(&o.manifests, "manifests", "", "`folder` of pod manifests, YAML or JSON (default samples, with the runtime in memory)")
	flags.BoolVar(&o.createManifests, "create-manifests", false, "create the folder of -manifests if it is missing")
	flags.BoolVar(&o.stopUnknown, "stop-unknown", false, "stop the pods of an earlier agent even if the folder has none of them: by default they stay, because -manifests or -node may be wrong")
	flags.StringVar(&o.runtime, "runtime", memory, "`endpoint` of the runtime, such as unix:///run/containerd/containerd.sock, "+
		"or memory for a simulated one, which runs no process; a hostPath is still a path of this machine, and is created if its type requires it")
	flags.StringVar(&o.root, "root", "", "`folder` for the state of the agent (default "+defaultRoot+", or a temporary one with the runtime in memory)")
	flags.StringVar(&o.podLogs, "pod-logs", "", "`folder` for the logs of containers (default "+defaultPodLogs+", or below -root with the runtime in memory)")
	flags.StringVar(&o.node, "node", "", "`name` of the node; names of static pods end with it: web becomes web-NODE (default the hostname)")
	flags.StringVar(&o.owner, "owner", cri.DefaultOwner, "`name` with which the agent labels its pods; "+
		"agents on one runtime need different names and different -root, or they stop each other's pods")
	flags.StringVar(&o.cgroups, "cgroups", "", "`cgroup`, such as kubepods, below which the agent creates a cgroup with the limits of each pod; next to a kubelet use another name than kubepods (default none: the runtime creates cgroups)")
	flags.StringVar(&o.output, "o", "", "json prints one JSON object per line (default a live table on a terminal, plain lines elsewhere)")
	flags.BoolVar(&o.drain, "drain", false, "stop the pods when the agent is interrupted, instead of leaving them running; a second Ctrl-C stops waiting for them")
	flags.StringVar(&o.serve, "serve", "", "`endpoint` at which the commands inspect the agent, "+
		"such as unix://"+defaultServe+", for root and the agent's user, or https://:10250 with -tls-cert, -tls-key and -tls-ca (default none, or agent.sock below -root with the runtime in memory)")
	flags.StringVar(&o.page, "page", "", "loopback `address`, such as 127.0.0.1:8080, of a live web page about the pods; it only reads, but all users of the machine can read it (default none)")
	flags.StringVar(&o.record, "record", "", "`folder` in which each decision is recorded, up to 32 MiB and without values of Secrets; nodeagent replay explains them (default none)")
	flags.BoolVar(&o.version, "version", false, "print the version and exit")
	o.certificates.flags(flags)
	o.logs.flags(flags)
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		printUsage(stderr)
		flags.SetOutput(stderr)
		flags.PrintDefaults()
		return o, err
	}
	if err == nil && o.version {
		return o, nil
	}
	if err == nil {
		err = o.check(flags.Args())
	}
	err = withNearestFlag(err, flags)
	if err != nil {
		return o, &failure{exitUsage, seeHelp, err}
	}
	if err = o.complete(); err != nil {
		o.discard()
	}
	return o, err
}

// printUsage prints how to run and how to inspect an agent, before the list of flags.
func printUsage(to io.Writer) {
	fmt.Fprint(to, "Usage: nodeagent [FLAGS]\n\n"+
		"Runs the pods whose manifests are in a folder. On a real runtime, Ctrl-C leaves them running, and the next start adopts them.\n\n"+
		"       nodeagent COMMAND [-serve ENDPOINT] ...\n\n"+
		"Inspects an agent that runs with the same -serve. "+serveVariable+" sets the default of the flag.\n\n")
	printCommands(to)
	fmt.Fprint(to, "\nnodeagent COMMAND -h prints the flags of a command. The flags of the agent:\n")
}

// discard removes the temporary folder.
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
		return fmt.Errorf("-o %s: want json", o.output)
	case o.runtime != memory && !strings.HasPrefix(o.runtime, "/") && !strings.Contains(o.runtime, "://"):
		return fmt.Errorf("-runtime %s: want %s, or an endpoint such as unix:///run/containerd/containerd.sock", o.runtime, memory)
	case o.serve != "" && !strings.HasPrefix(o.serve, "unix:///") && !strings.HasPrefix(o.serve, "https://"):
		return fmt.Errorf("-serve %s: want an endpoint such as unix://%s or https://:10250", o.serve, defaultServe)
	case o.runtime != memory && o.manifests == "":
		return errors.New("-manifests is missing: it names the folder of the pods to run")
	}
	if err := checkPage(o.page); err != nil {
		return err
	}
	if err := o.certificates.check(o.serve); err != nil {
		return err
	}
	if _, err := o.logs.policy(); err != nil {
		return err
	}
	if err := (cri.Owner{Name: o.owner}).Validate(); err != nil {
		return fmt.Errorf("-owner %s: want up to 63 letters, digits, -, _ and ., the first and the last a letter or digit", o.owner)
	}
	return nil
}

// complete sets defaults, and creates the folders.
func (o *options) complete() (err error) {
	if o.node == "" {
		if o.node, err = hostname(); err != nil {
			return err
		}
	}
	if len(validation.IsDNS1123Subdomain(o.node)) > 0 {
		return &failure{exitUsage, seeHelp, fmt.Errorf("-node %s: want lower-case letters, digits, - and ., the first and the last a letter or digit", o.node)}
	}
	sampled := o.manifests == ""
	if !sampled && !o.createManifests {
		if _, err := manifestsFolder(o.manifests, false); err != nil {
			return err // before other folders are created
		}
	}
	if o.runtime == memory {
		err = o.completeInMemory()
	} else {
		o.root, o.podLogs = orElse(o.root, defaultRoot), orElse(o.podLogs, defaultPodLogs)
	}
	for _, folder := range []struct {
		flag string
		path *string
	}{{"-root", &o.root}, {"-pod-logs", &o.podLogs}} {
		if err == nil {
			*folder.path, err = makeFolder(folder.flag, *folder.path)
		}
	}
	if err == nil {
		o.manifests, err = manifestsFolder(o.manifests, o.createManifests || sampled)
	}
	if err == nil && sampled {
		err = writeSamples(o.manifests)
	}
	return err
}

// hostname returns the default name of the node.
func hostname() (string, error) {
	name, err := os.Hostname()
	return strings.ToLower(name), err
}

func (o *options) completeInMemory() (err error) {
	if o.root == "" {
		if o.scratch, err = os.MkdirTemp("", "podsync-"); err != nil {
			return err
		}
		o.root = o.scratch
	}
	if socket := filepath.Join(o.root, "agent.sock"); o.serve == "" && goruntime.GOOS == "linux" && len(socket) <= longestSocket {
		o.serve = "unix://" + socket // ServeUnix knows its peers only on Linux
	}
	o.podLogs = orElse(o.podLogs, filepath.Join(o.root, "logs"))
	o.manifests = orElse(o.manifests, filepath.Join(o.root, "manifests"))
	return nil
}

// manifestsFolder returns the absolute path of the folder of manifests. It creates a missing one only on request: a
// typo would be an empty folder, and pods that are not in the folder stop.
func manifestsFolder(path string, create bool) (string, error) {
	if create {
		return makeFolder("-manifests", path)
	}
	path, err := filepath.Abs(path)
	var info fs.FileInfo
	if err == nil {
		info, err = os.Stat(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", &failure{exitUsage, "Is the path right? -create-manifests creates the folder.", fmt.Errorf("-manifests: there is no folder %s", path)}
	case err != nil:
		return "", fmt.Errorf("-manifests: %w", err)
	case !info.IsDir():
		return "", &failure{exitUsage, "Name the folder that the file is in.", fmt.Errorf("-manifests: %s is not a folder", path)}
	}
	return path, nil
}

// makeFolder creates the folder of a flag, and returns its absolute path.
func makeFolder(flag, path string) (string, error) {
	path, err := filepath.Abs(path)
	if err == nil {
		err = os.MkdirAll(path, 0o755)
	}
	if err == nil && flag != "-manifests" { // manifests are only read
		err = tryWriting(path)
	}
	if err == nil {
		return path, nil
	}
	err = fmt.Errorf("%s: %w", flag, err)
	if errors.Is(err, fs.ErrPermission) {
		return "", &failure{exitNoPermission, "Run the agent as root, or set folders that you own with -root, -pod-logs, -record and -manifests.", err}
	}
	return "", err
}

// tryWriting returns an error if files cannot be created in a folder.
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
