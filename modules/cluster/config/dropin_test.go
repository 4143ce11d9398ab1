package config_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podsync/podsync/modules/cluster/config"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// dropIns writes a configuration and its drop-ins, and returns their sources.
func dropIns(t *testing.T, text string, files map[string]string) config.Sources {
	t.Helper()
	s := config.Sources{File: filepath.Join(t.TempDir(), "config.yaml"), DropIns: t.TempDir()}
	write := func(path, text string) {
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write(s.File, text)
	for name, text := range files {
		write(filepath.Join(s.DropIns, name), text)
	}
	return s
}

// Drop-ins are merged in the order of their paths: objects by field, lists as a whole. Flags come last.
func TestDropIns(t *testing.T) {
	s := dropIns(t, whole+"maxPods: 1\npodPidsLimit: 9007199254740993\nclusterDNS: [10.0.0.1, 10.0.0.2]\nevictionHard: {memory.available: 1Gi}\nproviderID: file\n", map[string]string{
		"20-b.conf":       head + "maxPods: 3\nclusterDNS: [10.0.0.3]\n",
		"10-a.conf":       head + "maxPods: 2\nevictionHard: {nodefs.available: 5%}\nproviderID: dropin\n",
		"30/c.conf":       head + "clusterDomain: below\n",
		"40-ignored.yaml": "this is no configuration",
	})
	s.Flags = func(c *kubelet.KubeletConfiguration) { c.ProviderID = "flag" }
	c, _, err := config.Load(s)
	if err != nil {
		t.Fatal(err)
	}
	if c.MaxPods != 3 || len(c.ClusterDNS) != 1 || c.ClusterDNS[0] != "10.0.0.3" || c.EvictionHard["memory.available"] != "1Gi" || c.EvictionHard["nodefs.available"] != "5%" ||
		c.ClusterDomain != "below" || c.ProviderID != "flag" || *c.PodPidsLimit != 9007199254740993 {
		t.Errorf("%+v", c)
	}
}

// An invalid drop-in prevents the node's start: it may contain a field that protects the node.
func TestWrongDropIns(t *testing.T) {
	for want, text := range map[string]string{
		`unknown field "maxPodz"`:     head + "maxPodz: 1\n",
		"apiVersion":                  "maxPods: 1\n",
		"readOnlyPort is set":         head + "readOnlyPort: 10255\n",
		`key "maxPods" already`:       head + "maxPods: 1\nmaxPods: 2\n",
		"more than 262144 bytes":      head + "#" + strings.Repeat(" ", 256<<10),
		"authentication.anonymous":    head + "authentication: {anonymous: {enabled: true}}\n",
		"cannot unmarshal":            "[]",
		"containerRuntimeEndpoint is": head + "containerRuntimeEndpoint: null\n",
	} {
		if _, _, err := config.Load(dropIns(t, whole, map[string]string{"a.conf": text})); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.100q: %v, want an error with %q", text, err, want)
		}
	}
	if _, _, err := config.Load(config.Sources{File: dropIns(t, whole, nil).File, DropIns: "/nonexistent"}); err == nil || !strings.Contains(err.Error(), "/nonexistent") {
		t.Errorf("a folder that does not exist: %v", err)
	}
	many := map[string]string{}
	for i := range 257 {
		many[strings.Repeat("a", i/26+1)+string(rune('a'+i%26))+".conf"] = head
	}
	if _, _, err := config.Load(dropIns(t, whole, many)); err == nil || !strings.Contains(err.Error(), "more than 256") {
		t.Errorf("257 drop-ins: %v", err)
	}
	others := map[string]string{}
	for i := range 4096 {
		others[strconv.Itoa(i)+".txt"] = ""
	}
	if _, _, err := config.Load(dropIns(t, whole, others)); err == nil || !strings.Contains(err.Error(), "more than 4096") {
		t.Errorf("4096 other files: %v", err)
	}
}
