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

// options are what the agent is started with.
type options struct {
	identity
	config, kubeconfig, bootstrap, root, certDir, name string
	// memoryKey is a file with a key, and after a comma one with the key before.
	memoryKey string
	ips       []netip.Addr
	// forget has nothing remembered for a start without the API server, and forgetAfter is the
	// age above which nothing remembered is used, 0 for any.
	forget      bool
	forgetAfter time.Duration
	// adopt is whether what a kubelet runs on the node is taken over.
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
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` that says where the API server is, and who the node is")
	flags.StringVar(&o.bootstrap, "bootstrap-kubeconfig", "", "`file` with which a first client certificate is asked for, and --kubeconfig written, if that is not there or its certificate has expired")
	flags.StringVar(&o.certDir, "cert-dir", "", "`folder` for certificates that were asked for (default pki in --root-dir)")
	flags.StringVar(&o.root, "root-dir", "/var/lib/podsync", "`folder` for what the agent keeps, such as the volumes of pods")
	flags.StringVar(&o.memoryKey, "memory-key-file", "", "`file` of 32 bytes, which no other user may read, that encrypts what is remembered for a start without the API server; after a comma the file of the key before, which is replaced (default none: then no Secrets and no tokens are remembered)")
	flags.BoolVar(&o.forget, "forget-pods", false, "remember no pods: an agent that starts without the API server runs static pods alone")
	flags.DurationVar(&o.forgetAfter, "forget-pods-after", forgetAfter, "`age` above which remembered pods are not run, counted from the last time that the API server answered; 0 for any age")
	flags.BoolVar(&o.adopt, "adopt-kubelet-pods", false, "take over the pods that a kubelet runs; it must have ended, with the same --root-dir")
	flags.StringVar(&o.name, "hostname-override", "", "`name` of the node (default that of the host)")
	flags.StringVar(&ips, "node-ip", "", "`address` of the node, or two with a comma, one of each family (default that of the way to the API server)")
	o.identity.define(flags)
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stderr, "Runs the pods of a node of a Kubernetes cluster, in the place of a kubelet.\n"+
			"Told to end it leaves the pods running; the next start takes them over.\n\nFlags:\n")
		flags.SetOutput(stderr)
		flags.PrintDefaults()
		return o, err
	}
	if err != nil {
		return o, err
	}
	return o, o.complete(flags.Args(), ips)
}

// complete checks what was given, and fills in defaults.
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
