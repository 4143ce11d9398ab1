package agent_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

const manifest = `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - {name: app, image: registry.test/app:1}
`

// The agent keeps the pods of a folder of manifests running until ctx ends, with a kubelet's defaults. It evicts no
// pods, because this machine's disk may be full.
func Example() {
	dir, endpoint, done := exampleNode()
	defer done()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	client, err := cri.Dial(ctx, cri.Config{Endpoint: endpoint})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	folder, err := source.NewFolder(source.FolderConfig{Path: filepath.Join(dir, "manifests"), NodeName: "node1"})
	if err != nil {
		log.Fatal(err)
	}
	agent, err := agent.New(agent.Config{
		Client:     client,
		Root:       filepath.Join(dir, "agent"),
		Sources:    []source.Source{folder},
		NoEviction: true,
		Sync: syncpod.Config{
			Node: syncpod.Node{LogsRoot: filepath.Join(dir, "logs")},
			Sink: syncpod.StatusSinkFunc(func(_ context.Context, pod *v1.Pod, status v1.PodStatus) error {
				if status.Phase == v1.PodRunning {
					fmt.Println(pod.Name, "is", status.Phase)
					cancel() // a real agent would keep running
				}
				return nil
			}),
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := agent.Run(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("detached")
	// Output:
	// web-node1 is Running
	// detached
}

// exampleNode makes a folder with a manifest, and a runtime in memory.
func exampleNode() (dir, endpoint string, done func()) {
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		log.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "manifests"), 0o700); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "manifests", "web.yaml"), []byte(manifest), 0o600); err != nil {
		log.Fatal(err)
	}
	node, err := critest.New(critest.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if endpoint, err = node.Listen(filepath.Join(dir, "cri.sock")); err != nil {
		log.Fatal(err)
	}
	return dir, endpoint, func() { node.Close(); os.RemoveAll(dir) }
}
