package config_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podsync/podsync/modules/cluster/config"
)

// The configuration that a node shows has the defaults that apply, and no secrets.
func TestEffective(t *testing.T) {
	c := &kubelet.KubeletConfiguration{
		MergeDefaultEvictionSettings: new(true), EvictionHard: map[string]string{"memory.available": "1Gi"}, ContainerLogMaxFiles: new(int32(3)),
		StaticPodURLHeader: map[string][]string{"Authorization": {"Bearer secret"}},
	}
	got := config.Effective(c)
	if got.EvictionHard["memory.available"] != "1Gi" || got.EvictionHard["nodefs.available"] != "10%" || got.ContainerLogMaxSize != "10Mi" || *got.ContainerLogMaxFiles != 3 ||
		got.EvictionPressureTransitionPeriod != (metav1.Duration{Duration: 5 * time.Minute}) {
		t.Errorf("%+v", got)
	}
	if values := got.StaticPodURLHeader["Authorization"]; !slices.Equal(values, []string{"<masked>"}) {
		t.Errorf("the header is %q", values)
	}
	if c.EvictionHard["nodefs.available"] != "" || c.StaticPodURLHeader["Authorization"][0] != "Bearer secret" {
		t.Error("the configuration itself was written to")
	}
}

func TestHealthzFields(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "healthzPort: 0\n": "", "healthzBindAddress: \"::1\"\n": "",
		"healthzPort: 70000\n": "healthzPort", "healthzPort: -1\n": "healthzPort", "healthzBindAddress: localhost\n": "healthzBindAddress",
	} {
		_, warnings, err := load(t, whole+text)
		if len(warnings) > 0 || (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v, want %q", text, warnings, err, want)
		}
	}
}
