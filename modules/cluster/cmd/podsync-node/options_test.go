package main

import (
	"bytes"
	"errors"
	"flag"
	"strings"
	"testing"
)

func TestFlags(t *testing.T) {
	o, err := parse([]string{"--config=c", "--kubeconfig=k", "--root-dir=/r", "--hostname-override=N1", "--node-ip=10.0.0.1,fd00::1"}, new(bytes.Buffer))
	if err != nil || o.config != "c" || o.kubeconfig != "k" || o.root != "/r" || o.name != "n1" || len(o.ips) != 2 {
		t.Errorf("%+v, %v, want config %q, kubeconfig %q, root %q, name %q and two addresses", o, err, "c", "k", "/r", "n1")
	}
	for want, args := range map[string][]string{
		"--config":     {"--kubeconfig=k"},
		"--kubeconfig": {"--config=c"},
		"--node-ip":    {"--config=c", "--kubeconfig=k", "--node-ip=here"},
		`"more"`:       {"--config=c", "--kubeconfig=k", "more"},
		"-port":        {"--port=1"},

		"--forget-pods-after is negative: -1h": {"--kubeconfig=k", "--config=c", "--forget-pods-after=-1h"},
	} {
		if _, err := parse(args, new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
	var help bytes.Buffer
	if _, err := parse([]string{"--help"}, &help); !errors.Is(err, flag.ErrHelp) || !strings.Contains(help.String(), "-node-ip") {
		t.Errorf("%v: %s, want error %v and %q in it", err, help.String(), flag.ErrHelp, "-node-ip")
	}
}
