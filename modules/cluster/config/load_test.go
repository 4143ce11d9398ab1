package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podsync/podsync/modules/cluster/config"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/logs"
	"github.com/podsync/podsync/syncpod/eviction"
)

const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

const whole = head + `containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
tlsCertFile: /etc/node.crt
tlsPrivateKeyFile: /etc/node.key
`

func load(t *testing.T, text string) (int32, []string, error) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	c, warnings, err := config.Load(config.Sources{File: path})
	if err != nil {
		return 0, nil, err
	}
	return c.MaxPods, warnings, nil
}

func TestFileIsRead(t *testing.T) {
	most, warnings, err := load(t, whole+"registerNode: true\n")
	if err != nil || most != 110 || len(warnings) > 0 {
		t.Errorf("maxPods %d, warnings %q, %v", most, warnings, err)
	}
	most, warnings, err = load(t, whole+"maxPods: 7\nvolumePluginDir: /plugins\nhairpinMode: none\n")
	want := []string{
		"hairpinMode is set and changes nothing: the CNI plugins of the runtime decide it; a kubelet does not read it either",
		"volumePluginDir is set and changes nothing: there are no FlexVolumes",
	}
	if err != nil || most != 7 || !slices.Equal(warnings, want) {
		t.Errorf("maxPods %d, warnings %q, want %q, %v", most, warnings, want, err)
	}
}

func TestLogs(t *testing.T) {
	for _, tt := range []struct {
		size  string
		files *int32
		want  logs.RotationPolicy
		never bool
		err   string
	}{
		{"", nil, logs.RotationPolicy{}, false, ""},
		{"5Mi", new(int32(2)), logs.RotationPolicy{MaxSize: 5 << 20, MaxFiles: 2}, false, ""},
		{"-1", nil, logs.RotationPolicy{}, true, ""},
		{"much", nil, logs.RotationPolicy{}, false, "containerLogMaxSize"},
		{"1e-266666600", nil, logs.RotationPolicy{}, false, "containerLogMaxSize is \"1e-266666600\", want an amount: the exponent"},
		{"", new(int32(1)), logs.RotationPolicy{}, false, "containerLogMaxFiles"},
	} {
		got, never, err := config.Logs(&kubelet.KubeletConfiguration{ContainerLogMaxSize: tt.size, ContainerLogMaxFiles: tt.files})
		if err == nil && (got != tt.want || never != tt.never) || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%q: %+v, %v, %v, want %+v, %v, %q", tt.size, got, never, err, tt.want, tt.never, tt.err)
		}
	}
}

// Some defaults depend on other fields.
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
		must.Do(t, os.WriteFile(path, []byte(whole+text), 0o600))
		c, _, err := config.Load(config.Sources{File: path})
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
		`key "maxPods" already`:    whole + "maxPods: 1\nmaxPods: 2\n",
		"aliases (*) replaced":     whole + "a: &a [" + strings.Repeat("x,", 500) + "]\nb: [" + strings.Repeat("*a,", 500) + "]\n",
		"more than 262144 bytes":   whole + "#" + strings.Repeat(" ", 256<<10),
		"authorization.mode":       whole + "authorization: {mode: AlwaysAllow}\n",
	} {
		if _, _, err := load(t, text); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "config.yaml") {
			t.Errorf("want an error with %q and the file, got %v", want, err)
		}
	}
}

func TestAmounts(t *testing.T) {
	list, err := config.Amounts("kubeReserved", map[string]string{"memory": "1Gi"})
	if err != nil || list.Memory().Value() != 1<<30 {
		t.Errorf("%v, %v, want %v and no error", list, err, 1<<30)
	}
	for _, value := range []string{"-1", "much", "1e-266666600"} {
		if _, err := config.Amounts("kubeReserved", map[string]string{"memory": value}); err == nil || !strings.Contains(err.Error(), "kubeReserved") {
			t.Errorf("%q: %v, want an error and %q in it", value, err, "kubeReserved")
		}
	}
}

func configOf(t *testing.T, text string) (*kubelet.KubeletConfiguration, []string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	must.Do(t, os.WriteFile(path, []byte(whole+text), 0o600))
	return config.Load(config.Sources{File: path})
}

func TestEviction(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "memory.available<100Mi allocatableMemory.available<100Mi nodefs.available<10% nodefs.inodesFree<5% imagefs.available<15% imagefs.inodesFree<5%",
		"evictionHard: {}\n": "",
		"evictionHard: {memory.available: 1Gi}\n":                                                   "memory.available<1Gi allocatableMemory.available<1Gi",
		"evictionHard: {memory.available: 1Gi, allocatableMemory.available: 10%}\n":                 "memory.available<1Gi allocatableMemory.available<10%",
		"evictionHard: {memory.available: 1Gi}\nenforceNodeAllocatable: []\n":                       "memory.available<1Gi",
		"evictionHard: {memory.available: 1Gi}\nenforceNodeAllocatable: []\ncgroupsPerQOS: false\n": "memory.available<1Gi",
		"evictionHard: {memory.available: 0%}\n":                                                    "",
		"evictionHard: {pid.available: 10%}\nmergeDefaultEvictionSettings: true\n": "memory.available<100Mi allocatableMemory.available<100Mi nodefs.available<10% nodefs.inodesFree<5% " +
			"imagefs.available<15% imagefs.inodesFree<5% pid.available<10%",
		"evictionHard: {}\nevictionSoft: {memory.available: 2Gi}\nevictionSoftGracePeriod: {memory.available: 1m30s}\n": "memory.available<2Gi for 1m30s",
		"evictionHard: {containerfs.available: 10%}\n":                                                                  "",
	} {
		c, warnings, err := configOf(t, text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		policy, err := config.Eviction(c)
		rules, rulesErr := eviction.ParsePolicy(policy)
		var got []string
		for _, threshold := range rules.Thresholds {
			got = append(got, threshold.String())
		}
		if err != nil || rulesErr != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %q, %v, %v, want %q", text, got, err, rulesErr, want)
		}
		if ignored := strings.Contains(text, "containerfs"); ignored != (len(warnings) > 0) {
			t.Errorf("%q: warnings %q", text, warnings)
		}
	}
}

func TestEvictionTimes(t *testing.T) {
	c, _, err := configOf(t, "evictionPressureTransitionPeriod: 30s\nevictionMaxPodGracePeriod: 20\nevictionMinimumReclaim: {memory.available: 5%}\nlocalStorageCapacityIsolation: false\n")
	if err != nil {
		t.Fatal(err)
	}
	policy, err := config.Eviction(c)
	if err != nil || policy.PressureTransitionPeriod != 30*time.Second || policy.MaxPodGracePeriod != 20*time.Second || policy.MinimumReclaim["memory.available"] != "5%" || policy.MinimumReclaim["allocatableMemory.available"] != "5%" || !policy.IgnoreStorageLimits {
		t.Errorf("%+v, %v", policy, err)
	}
}

func TestEvictionThatIsWrong(t *testing.T) {
	for _, value := range []string{"101%", "NaN%", "x%", "-1", "x"} {
		if _, _, err := configOf(t, "evictionHard: {memory.available: "+value+"}\n"); err == nil || !strings.Contains(err.Error(), "evictionHard") || !strings.Contains(err.Error(), value) {
			t.Errorf("%q: %v, want an error that names field and value", value, err)
		}
	}
	for text, want := range map[string]string{
		"evictionSoft: {memory.available: 1Gi}\n":             "SoftGracePeriod",
		"evictionSoftGracePeriod: {memory.available: soon}\n": `"soon"`,
		"evictionHard: {memory.avaliable: 1Gi}\n":             "memory.avaliable",
		"evictionPressureTransitionPeriod: -1s\n":             "PressureTransitionPeriod",
	} {
		if _, _, err := configOf(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
}
