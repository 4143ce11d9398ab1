// Command minimal is the smallest node agent: it keeps one pod running, prints its state, and
// leaves it running when it is stopped.
//
//	go run ./examples/minimal                                                  # on a runtime in memory
//	go run ./examples/minimal -runtime unix:///run/containerd/containerd.sock  # as root
//
// For one that reads pods from a folder, and is meant to be used, see nodeagent.
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

// run is all that an embedder writes. Below root is what the agent remembers of its
// pods, and what it makes for them.
func run(ctx context.Context, endpoint, root string, inMemory bool) error {
	client, err := cri.Dial(ctx, cri.Config{Endpoint: endpoint})
	if err != nil {
		return err
	}
	defer client.Close()

	// A Push is a source of pods for a program to tell what should run, then and as
	// often as that changes: what Set is not given any more is stopped.
	pods := source.NewPush()
	if err := pods.Set(hello()); err != nil {
		return err
	}
	agent, err := agent.New(agent.Config{
		Client:  client,
		Root:    root,
		Sources: []source.Source{pods},
		// A runtime in memory uses no room, however full the disk of the node is.
		NoEviction: inMemory,
		Sync: syncpod.Config{
			Sink: syncpod.StatusSinkFunc(show), // statuses go here: to an API server, say
			Node: syncpod.Node{LogsRoot: filepath.Join(root, "logs")},
		},
	})
	if err != nil {
		return err
	}
	// Run ends with ctx and leaves the pods running. The next agent takes them over.
	return agent.Run(ctx)
}

// hello is a pod. Its UID is what it is known by; the defaults of the API are filled in.
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

// runInMemory is for trying it out: the runtime is a part of this process.
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
