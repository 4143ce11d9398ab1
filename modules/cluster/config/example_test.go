package config_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/podsync/podsync/modules/cluster/config"
)

const exampleFile = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
maxPods: 40
evictionHard:
  memory.available: 200Mi
`

// Load reads a kubelet's configuration file and sets a kubelet's defaults.
func ExampleLoad() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, []byte(exampleFile), 0o600); err != nil {
		log.Fatal(err)
	}

	c, warnings, err := config.Load(config.Sources{File: file})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(c.MaxPods, c.EvictionHard["memory.available"], c.NodeStatusUpdateFrequency.Duration, len(warnings))
	// Output: 40 200Mi 10s 0
}
