// Command minimal is the smallest node agent: it keeps one pod running, prints its state, and leaves it running when it
// is stopped.
//
//	go run ./examples/minimal                                                  # on a runtime in memory
//	go run ./examples/minimal -runtime unix:///run/containerd/containerd.sock  # as root
//
// See nodeagent for a complete agent that reads pods from a folder.
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

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// run is an agent's complete code. The agent stores its state and the files of pods below root.
func run(ctx context.Context, endpoint, root string, inMemory bool) error {
	client, err := cri.Dial(ctx, cri.Config{Endpoint: endpoint})
	if err != nil {
		return err
	}
	defer client.Close()

	// A Push is a source of pods for programs. Call Set whenever the desired pods change: the agent stops pods that are
	// no longer in the list.
	pods := source.NewPush()
	if err := pods.Set(hello()); err != nil {
		return err
	}
	agent, err := agent.New(agent.Config{
		Client:  client,
		Root:    root,
		Sources: []source.Source{pods},
		// A runtime in memory uses no disk, so nothing needs to be evicted.
		NoEviction: inMemory,
		Sync: syncpod.Config{
			Sink: syncpod.StatusSinkFunc(show), // a real sink sends statuses to a server
			Node: syncpod.Node{LogsRoot: filepath.Join(root, "logs")},
		},
	})
	if err != nil {
		return err
	}
	// Run returns when ctx ends, and leaves the pods running. The next agent adopts them.
	return agent.Run(ctx)
}

// hello returns a pod. The UID identifies it; the source sets the API's defaults.
func hello() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hello", UID: "hello-1"},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name:    "app",
			Image:   "docker.io/library/busybox:1.37",
			Command: []string{"sh", "-c", "echo hello; trap 'exit 0' TERM; sleep infinity & wait"},
		}}},
	}
}

func show(_ context.Context, pod *v1.Pod, status v1.PodStatus) error {
	fmt.Printf("pod %s is %s, its address is %q\n", pod.Name, status.Phase, status.PodIP)
	for _, c := range status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			fmt.Printf("    container %s waits: %s %s\n", c.Name, w.Reason, w.Message)
		}
	}
	return nil
}

func main() {
	endpoint := flag.String("runtime", "", "`endpoint` of containerd or CRI-O (default a runtime in memory)")
	root := flag.String("root", "/var/lib/podsync-minimal", "`folder` that the agent may write below")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *endpoint == "" {
		err = runInMemory(ctx)
	} else {
		err = run(ctx, *endpoint, *root, false)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// runInMemory runs the agent with a runtime in this process.
func runInMemory(ctx context.Context) error {
	root, err := os.MkdirTemp("", "podsync-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	rt, err := critest.New(critest.Config{Dir: root})
	if err != nil {
		return err
	}
	defer rt.Close()
	endpoint, err := rt.Listen(filepath.Join(root, "memory.sock"))
	if err != nil {
		return err
	}
	return run(ctx, endpoint, root, true)
}
