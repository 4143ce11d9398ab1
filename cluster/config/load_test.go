package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podsync/podsync/cluster/config"
)

const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

const whole = head + `containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
tlsCertFile: /etc/node.crt
tlsPrivateKeyFile: /etc/node.key
`

func load(t *testing.T, text string) (int32, []string, error) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, warnings, err := config.Load(path)
	if err != nil {
		return 0, nil, err
	}
	return c.MaxPods, warnings, nil
}

func TestFileIsRead(t *testing.T) {
	most, warnings, err := load(t, whole+"failSwapOn: false\n")
	if err != nil || most != 110 || len(warnings) > 0 {
		t.Errorf("maxPods %d, warnings %q, %v", most, warnings, err)
	}
	most, warnings, err = load(t, whole+"maxPods: 7\nfailSwapOn: true\ntopologyManagerPolicy: restricted\n")
	want := []string{"failSwapOn is set, and not heeded", "topologyManagerPolicy is set, and not heeded"}
	if err != nil || most != 7 || !slices.Equal(warnings, want) {
		t.Errorf("maxPods %d, warnings %q, want %q, %v", most, warnings, want, err)
	}
}

// Some defaults follow from other fields.
func TestDefaultsThatFollow(t *testing.T) {
	for text, want := range map[string]struct {
		serial bool
		report time.Duration
	}{
		"":                                 {true, 5 * time.Minute},
		"maxParallelImagePulls: 1\n":       {true, 5 * time.Minute},
		"maxParallelImagePulls: 5\n":       {false, 5 * time.Minute},
		"nodeStatusUpdateFrequency: 20s\n": {true, 20 * time.Second},
		"nodeStatusReportFrequency: 1m\n":  {true, time.Minute},
	} {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(whole+text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, _, err := config.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if *c.SerializeImagePulls != want.serial || c.NodeStatusReportFrequency.Duration != want.report {
			t.Errorf("%q: pulls one at a time %v, reports every %v, want %+v", text, *c.SerializeImagePulls, c.NodeStatusReportFrequency.Duration, want)
		}
	}
}

func TestWrongFileIsRefused(t *testing.T) {
	for want, text := range map[string]string{
		"containerRuntimeEndpoint": head,
		"tlsPrivateKeyFile":        head + "containerRuntimeEndpoint: unix:///x\ntlsCertFile: /x.crt\n",
		"maxPods":                  whole + "maxPods: -1\n",
		"maxpodz":                  whole + "maxpodz: 1\n",
		"apiVersion":               strings.Replace(whole, "v1beta1", "v2", 1),
		"anonymous":                whole + "authentication: {anonymous: {enabled: true}}\n",
		"authorization.mode":       whole + "authorization: {mode: AlwaysAllow}\n",
	} {
		if _, _, err := load(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

func TestAmounts(t *testing.T) {
	list, err := config.Amounts("kubeReserved", map[string]string{"memory": "1Gi"})
	if err != nil || list.Memory().Value() != 1<<30 {
		t.Errorf("%v, %v, want %v and no error", list, err, 1<<30)
	}
	for _, value := range []string{"-1", "much"} {
		if _, err := config.Amounts("kubeReserved", map[string]string{"memory": value}); err == nil || !strings.Contains(err.Error(), "kubeReserved") {
			t.Errorf("%q: %v, want an error and %q in it", value, err, "kubeReserved")
		}
	}
}

func TestThreshold(t *testing.T) {
	for value, want := range map[string]int64{"100Mi": 100 << 20, "10%": 100, "": 0} {
		values := map[string]string{"memory.available": value}
		if value == "" {
			values = nil
		}
		if got, err := config.Threshold(values, "memory.available", 1000); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", value, got, err, want)
		}
	}
	for _, value := range []string{"101%", "NaN%", "x%", "-1", "x"} {
		if _, err := config.Threshold(map[string]string{"memory.available": value}, "memory.available", 1000); err == nil {
			t.Errorf("%q is taken", value)
		}
	}
}
