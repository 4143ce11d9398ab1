package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// options are the program's flags.
type options struct {
	identity
	config, kubeconfig, bootstrap, root, certDir, name string
	// checkpointKey is the path of a file with a key, then optionally a comma and the path to the file with the previous
	// key.
	checkpointKey string
	ips           []netip.Addr
	// forget disables the pod checkpoint. forgetAfter is the age above which the checkpoint is
	// ignored, 0 for any age.
	forget      bool
	forgetAfter time.Duration
	// adopt means that the agent adopts a kubelet's pods.
	adopt bool
}

// forgetAfter is the default of --forget-pods-after.
const forgetAfter = 24 * time.Hour

// parse reads the command line.
func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var ips string
	flags := flag.NewFlagSet("podsync-node", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // main prints errors
	flags.StringVar(&o.config, "config", "", "`file` with a KubeletConfiguration (kubelet.config.k8s.io/v1beta1)")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` with the address of the API server and the credentials of the node")
	flags.StringVar(&o.bootstrap, "bootstrap-kubeconfig", "", "`file` with the credentials to request the first client certificate; --kubeconfig is written if it is missing or its certificate has expired")
	flags.StringVar(&o.certDir, "cert-dir", "", "`folder` for requested certificates (default pki in --root-dir)")
	flags.StringVar(&o.root, "root-dir", "/var/lib/podsync", "`folder` for the files of the agent, such as the volumes of pods")
	flags.StringVar(&o.checkpointKey, "checkpoint-key-file", "", "`file` of 32 bytes, readable by its owner only: the key that encrypts the checkpoint for a start without the API server; after a comma the file of the previous key, which is replaced (default none: the checkpoint has no Secrets and no tokens)")
	flags.BoolVar(&o.forget, "forget-pods", false, "write no checkpoint: an agent that starts without the API server runs only static pods")
	flags.DurationVar(&o.forgetAfter, "forget-pods-after", forgetAfter, "`age` above which pods of the checkpoint do not run, counted from the last response of the API server; 0 for any age")
	flags.BoolVar(&o.adopt, "adopt-kubelet-pods", false, "adopt the pods of a kubelet, which must have ended and must have used the same --root-dir")
	flags.StringVar(&o.name, "hostname-override", "", "`name` of the node (default that of the host)")
	flags.StringVar(&ips, "node-ip", "", "`address` of the node, or two with a comma, one of each family (default that of the way to the API server)")
	o.identity.define(flags)
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stderr, "Runs the pods of a node of a Kubernetes cluster, in the place of a kubelet.\n"+
			"On SIGTERM it leaves the pods running, and the next agent adopts them.\n\nFlags:\n")
		flags.SetOutput(stderr)
		flags.PrintDefaults()
		return o, err
	}
	if err != nil {
		return o, err
	}
	return o, o.complete(flags.Args(), ips)
}

// complete validates the options, and sets defaults.
func (o *options) complete(rest []string, ips string) (err error) {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("%q is no flag, and flags are all there is", rest[0])
	case o.config == "":
		return errors.New("--config is missing")
	case o.kubeconfig == "":
		return errors.New("--kubeconfig is missing")
	case o.forgetAfter < 0:
		return fmt.Errorf("--forget-pods-after is negative: %v", o.forgetAfter)
	}
	if o.root, err = filepath.Abs(o.root); err != nil {
		return fmt.Errorf("--root-dir: %w", err)
	}
	if o.certDir == "" {
		o.certDir = filepath.Join(o.root, "pki")
	}
	if o.certDir, err = filepath.Abs(o.certDir); err != nil {
		return fmt.Errorf("--cert-dir: %w", err)
	}
	if o.name == "" {
		if o.name, err = os.Hostname(); err != nil {
			return err
		}
	}
	o.name = strings.ToLower(strings.TrimSpace(o.name))
	for text := range strings.SplitSeq(ips, ",") {
		if text == "" {
			continue
		}
		ip, err := netip.ParseAddr(strings.TrimSpace(text))
		if err != nil || ip.IsUnspecified() {
			return fmt.Errorf("--node-ip: %q is no address of a node", text)
		}
		o.ips = append(o.ips, ip)
	}
	return nil
}
