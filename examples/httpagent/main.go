// Command httpagent is a node agent that receives the desired pods over HTTP.
//
//	go run ./examples/httpagent                                                  # on a runtime in memory
//	go run ./examples/httpagent -runtime unix:///run/containerd/containerd.sock  # as root
//
//	curl -X PUT localhost:8010/pods/default/web -d '{"spec": {"containers": [{"name": "app", "image": "nginx"}]}}'
//	curl localhost:8010/pods/default/web             # the pod, with its status
//	curl localhost:8010/pods                         # all of them
//	curl -X DELETE localhost:8010/pods/default/web   # 202: the pod stops within its grace period, and is then removed
//	curl -X DELETE 'localhost:8010/pods/default/web?gracePeriodSeconds=1'
//	curl localhost:8010/health                       # 200, or 503 and the problems
//
// To PUT the same manifest again changes nothing. To PUT another manifest stops the pod, and then starts the new one.
//
// Pods keep running when the agent ends. The next agent knows their state, but not which pods are desired: the client
// must PUT them again, and the agent adopts those that are running. A PUT of a v1.PodList to /pods replaces the complete
// set, so that all other pods from an earlier agent are stopped.
//
// Any peer that reaches the port may run anything on the node: listen on localhost only, or put an authenticating proxy
// in front of it. The agent rejects requests for any other host name, so that pages in a browser on the node cannot reach
// it.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8010", "`address` to listen to")
	endpoint := flag.String("runtime", "", "`endpoint` of containerd or CRI-O (default a runtime in memory)")
	root := flag.String("root", "/var/lib/podsync-http", "`folder` that the agent may write below")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *endpoint == "" {
		err = runInMemory(ctx, *listen)
	} else {
		err = run(ctx, *listen, *endpoint, *root, "")
	}
	if err != nil {
		log.Fatal(err)
	}
}

// inMemory reports whether the runtime is in memory: only then logs is set. A runtime in memory uses no disk, so
// nothing needs to be evicted.
func inMemory(logs string) bool { return logs != "" }

// run serves until ctx ends, and leaves the pods running. logs is the directory of container logs, empty for a
// kubelet's.
func run(ctx context.Context, listen, endpoint, root, logs string) error {
	client, err := cri.Dial(ctx, cri.Config{Endpoint: endpoint})
	if err != nil {
		return err
	}
	defer client.Close()
	agent, err := New(agent.Config{Client: client, Root: root, NoEviction: inMemory(logs), Sync: syncpod.Config{Node: syncpod.Node{LogsRoot: logs}}})
	if err != nil {
		return err
	}
	server := &http.Server{Addr: listen, Handler: ownHost(listen, agent.Handler()), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		defer cancel() // if the API fails, the agent ends, too
		served <- server.ListenAndServe()
	}()
	log.Printf("Pods on %s %s are at http://%s/pods", client.RuntimeName(), client.RuntimeVersion(), listen)
	err = agent.Run(ctx)
	_ = server.Close()
	if serr := <-served; !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	return err
}

// runInMemory runs the agent with a runtime in this process.
func runInMemory(ctx context.Context, listen string) error {
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
	return run(ctx, listen, endpoint, root, filepath.Join(root, "logs"))
}
