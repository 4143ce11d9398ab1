package config

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// FuzzConfiguration: any KubeletConfiguration is rejected with an error, or all values derived from it are valid, and the
// configuration that the node shows loads as the same configuration.
func FuzzConfiguration(f *testing.F) {
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncontainerRuntimeEndpoint: unix:///a\n"
	for _, text := range []string{
		"", head, head + "evictionHard: {memory.available: 5%}\ntlsMinVersion: VersionTLS13\n", head + "systemReserved: {cpu: -1}\n", head + "healthzPort: 70000\n",
		head + "containerLogMaxSize: 9e99\nreservedSystemCPUs: 0-9\n", head + "streamingConnectionIdleTimeout: 5m\nenableDebuggingHandlers: false\n", head + "maxPods: &a 1\npodsPerCore: *a\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		text, err := toJSON(text)
		if err != nil {
			return
		}
		c, _, err := parse(text, nil)
		if err != nil {
			return
		}
		_, _, logs := Logs(c)
		for what, err := range map[string]error{"Eviction": second(Eviction(c)), "Logs": logs, "TLS": second(TLS(c))} {
			if err != nil {
				t.Errorf("%s of a configuration that was accepted: %v", what, err)
			}
		}
		once := must.Get(json.Marshal(Effective(c)))(t)
		again, _, err := parse(once, nil)
		if err != nil {
			t.Fatalf("%s is shown as %s: %v", text, once, err)
		}
		if twice, err := json.Marshal(Effective(again)); err != nil || !reflect.DeepEqual(once, twice) {
			t.Errorf("%s is shown as %s, and then as %s, %v", text, once, twice, err)
		}
	})
}

func second[T any](_ T, err error) error { return err }
