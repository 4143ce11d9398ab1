package config_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podsync/podsync/modules/cluster/config"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// The configuration that a node shows has the defaults, and no secrets.
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

// A client that reads /configz into types without pointers and writes it back, as Kubernetes' node suite does, turns each
// empty field into false or zero. So no field with a default is empty, and the agent accepts the configuration that it
// shows.
func TestEffectiveHasAllDefaults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	load := func(text string) (*kubelet.KubeletConfiguration, error) {
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		c, _, err := config.Load(config.Sources{File: path})
		return c, err
	}
	c, err := load(whole)
	if err != nil {
		t.Fatal(err)
	}
	shown := config.Effective(c)
	without := map[string]bool{"EnableSystemLogQuery": true, "MaxParallelImagePulls": true, "MemoryThrottlingFactor": true, "SingleProcessOOMKill": true, "UserNamespaces": true, "Tracing": true}
	fields := reflect.ValueOf(shown).Elem()
	for i := range fields.NumField() {
		if name := fields.Type().Field(i).Name; fields.Field(i).Kind() == reflect.Pointer && fields.Field(i).IsNil() && !without[name] {
			t.Errorf("%s is empty", name)
		}
	}
	text := must.Get(json.Marshal(shown))(t)
	again, err := load(string(text))
	if err != nil {
		t.Fatalf("its own configuration is refused: %v", err)
	}
	if twice, err := json.Marshal(config.Effective(again)); err != nil || string(twice) != string(text) {
		t.Errorf("%v: loaded again, the configuration is\n%s\nand was\n%s", err, twice, text)
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
