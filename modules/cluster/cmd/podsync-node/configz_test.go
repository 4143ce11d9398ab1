//go:build linux

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	kubelet "k8s.io/kubelet/config/v1beta1"
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
	resp, err := http.Get("http://" + n.healthz + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK || string(text) != "ok" {
		t.Errorf("/healthz: %d %q %v", resp.StatusCode, text, err)
	}
}
