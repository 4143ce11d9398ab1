// Command parts is a node agent with its own loop, made of podsync's parts: it uses neither syncpod.Syncer nor the
// packages loop and agent. It keeps one pod running, prints its statuses, and leaves it running when it is stopped.
//
//	go run ./examples/parts                                                  # on a runtime in memory
//	go run ./examples/parts -runtime unix:///run/containerd/containerd.sock  # as root
//
// agent.go connects the parts, and sync.go carries out a plan. The test judges the agent by the promises that every node agent
// should keep. It has no volumes, no
// ConfigMaps and no resizes: see package agent for an agent that has all of a kubelet.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/podspec"
)

func main() {
	endpoint := flag.String("runtime", "", "`endpoint` of containerd or CRI-O (default a runtime in memory)")
	root := flag.String("root", "/var/lib/podsync-parts", "`folder` that the agent may write below")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *endpoint, *root); err != nil {
		log.Fatal(err)
	}
}

// serve runs the agent, by default on a runtime in this process.
func serve(ctx context.Context, endpoint, root string) error {
	if endpoint == "" {
		dir, err := os.MkdirTemp("", "podsync-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		memory, err := critest.New(critest.Config{Dir: dir})
		if err != nil {
			return err
		}
		defer memory.Close()
		root = dir
		if endpoint, err = memory.Listen(filepath.Join(dir, "memory.sock")); err != nil {
			return err
		}
	}
	client, err := cri.Dial(ctx, cri.Config{Endpoint: endpoint})
	if err != nil {
		return err
	}
	defer client.Close()
	a, err := newAgent(config{
		client: client, runtimeName: client.RuntimeName(), root: root, logs: filepath.Join(root, "logs"),
		node: container.Node{MemoryBytes: 8 << 30}, report: show,
	})
	if err != nil {
		return err
	}
	a.desired.Set([]*v1.Pod{podspec.Default(hello())})
	return a.run(ctx)
}

// hello returns a pod. The UID identifies it.
func hello() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hello", UID: "hello-1"},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "app", Image: "docker.io/library/busybox:1.37",
			Command: []string{"sh", "-c", "echo hello; trap 'exit 0' TERM; sleep infinity & wait"},
		}}},
	}
}

func show(uid types.UID, status v1.PodStatus) {
	fmt.Printf("pod %s is %s, its address is %q\n", uid, status.Phase, status.PodIP)
}
