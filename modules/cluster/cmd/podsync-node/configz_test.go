//go:build linux

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// The node serves its configuration to users who may get nodes/configz, and its health to peers on the same machine.
func TestConfigzAndHealthz(t *testing.T) {
	n := newTarget(t)
	code, text, err := n.ask("127.0.0.1", "good-ann", "/configz")
	if err != nil || code != http.StatusOK {
		t.Fatalf("%d %q %v", code, text, err)
	}
	var shown struct {
		Kubelet kubelet.KubeletConfiguration `json:"kubeletconfig"`
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&shown); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	if k := shown.Kubelet; k.Kind != "KubeletConfiguration" || k.MaxPods != 110 || k.NodeLeaseDurationSeconds != int32(leaseTime.Seconds()) || k.ContainerLogMaxSize != "10Mi" {
		t.Errorf("the configuration is %q", text)
	}
	for token, want := range map[string]int{"good-bob": http.StatusForbidden, "bad": http.StatusUnauthorized} {
		if code, text, err := n.ask("127.0.0.1", token, "/configz"); err != nil || code != want {
			t.Errorf("%s: %d %q %v, want %d", token, code, text, err, want)
		}
	}
	resp := must.Get(http.Get("http://" + n.healthz + "/healthz"))(t)
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK || string(text) != "ok" {
		t.Errorf("/healthz: %d %q %v", resp.StatusCode, text, err)
	}
}

// The node serves the machine's logs, unless enableSystemLogHandler is false. A request for a checkpoint reaches the
// runtime in memory, which does not implement it.
func TestMachineLogsAndCheckpoints(t *testing.T) {
	for _, test := range []struct {
		line string
		want int
	}{
		{"enableSystemLogHandler: true", http.StatusOK},
		{"enableSystemLogHandler: false", http.StatusMethodNotAllowed},
	} {
		n := newTarget(t, test.line)
		if code, text, err := n.ask("127.0.0.1", "good-ann", "/logs/"); err != nil || code != test.want {
			t.Errorf("%s: /logs/ returns %d %q, %v, want %d", test.line, code, text, err, test.want)
		}
		if code, text, err := n.ask("127.0.0.1", "good-bob", "/logs/"); err != nil || code != http.StatusForbidden {
			t.Errorf("%s: a user without the right gets %d %q, %v", test.line, code, text, err)
		}
		path := "/checkpoint/default/web-n1/app"
		if code, text, err := n.send(http.MethodPost, "127.0.0.1", "good-ann", path); err != nil || code != http.StatusNotImplemented {
			t.Errorf("%s returns %d %q, %v, want the runtime's 501", path, code, text, err)
		}
	}
}
