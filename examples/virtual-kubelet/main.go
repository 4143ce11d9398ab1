// Command virtual-kubelet is a node of a Kubernetes cluster: virtual-kubelet's library connects to the API server, and
// podsync runs the pods, on containerd or CRI-O.
//
//	cd examples/virtual-kubelet
//	go test .                                                            # against a fake API server, in virtual time
//	go run . -kubeconfig ~/.kube/config -node edge-7                     # pods on a runtime in memory
//	go run . -kubeconfig ~/.kube/config -node edge-7 -runtime unix:///run/containerd/containerd.sock  # as root
//
// The node has a taint, so a pod must select it explicitly:
//
//	nodeName: edge-7
//	tolerations: [{key: virtual-kubelet.io/provider, operator: Exists}]
//
// The provider in provider.go implements virtual-kubelet's interface with a source.Push. ConfigMaps, Secrets, Services
// and tokens come from the API server, see cluster.go. The node's own HTTP API is not included: kubectl logs and exec
// need virtual-kubelet's package node/api, and an implementation of it.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "`file` that says where the API server is (default: this is a pod of the cluster)")
	name := flag.String("node", "podsync", "`name` of the node")
	endpoint := flag.String("runtime", "", "`endpoint` of containerd or CRI-O (default a runtime in memory)")
	root := flag.String("root", "/var/lib/podsync-node", "`folder` that the node may write below")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *endpoint == "" {
		err = runInMemory(ctx, *kubeconfig, *name)
	} else {
		err = connect(ctx, *kubeconfig, *name, *endpoint, *root, "")
	}
	if err != nil {
		log.Fatal(err)
	}
}

// connect runs the node until ctx ends, and leaves its pods running.
func connect(ctx context.Context, kubeconfig, name, endpoint, root, logs string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	client, err := cri.Dial(ctx, cri.Config{Endpoint: endpoint})
	if err != nil {
		return err
	}
	defer client.Close()
	return Run(ctx, kube, name, agent.Config{Client: client, Root: root, Sync: syncpod.Config{Node: syncpod.Node{LogsRoot: logs}}})
}

// runInMemory runs the node with a runtime in this process, to try it out.
func runInMemory(ctx context.Context, kubeconfig, name string) error {
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
	return connect(ctx, kubeconfig, name, endpoint, root, filepath.Join(root, "logs"))
}
