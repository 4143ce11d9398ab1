// Command observed is a node agent with logs and metrics: it logs with log/slog, and exports metrics in the text format
// of Prometheus, without a library for it.
//
//	go run ./examples/observed                                                  # on a runtime in memory
//	go run ./examples/observed -runtime unix:///run/containerd/containerd.sock  # as root
//	curl localhost:8011/metrics
//
// It runs two pods; one crashes. The parts to copy:
//
//   - slog for the agent's log: Log in New. podsync logs each transition in one line at the level
//     Info, and failures at Error. Details have logr's V(1), which is slog's level -1.
//   - Observers for metrics: observers.go. There are five, one for each package: podworkers for the
//     work on pods, syncpod for sandboxes and containers, pleg for lists and inspections of the
//     runtime, image for pulls, and probe for checks. The agent waits for each call, so an observer only
//     counts and returns.
//   - The current state of the pods is computed on request: Agent.Metrics.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8011", "`address` of the metrics")
	endpoint := flag.String("runtime", "", "`endpoint` of containerd or CRI-O (default a runtime in memory)")
	root := flag.String("root", "/var/lib/podsync-observed", "`folder` that the agent may write below")
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

// run serves metrics until ctx ends, and leaves the pods running.
func run(ctx context.Context, listen, endpoint, root, logs string) error {
	client, err := cri.Dial(ctx, cri.Config{Endpoint: endpoint})
	if err != nil {
		return err
	}
	defer client.Close()
	pods := source.NewPush()
	if err := pods.Set(pod("web", "trap 'exit 0' TERM; sleep infinity & wait"), pod("crashing", "exit 3")); err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.Level(-1)}))
	agent, err := New(logger, agent.Config{
		Client: client, Root: root, Sources: []source.Source{pods},
		NoEviction: logs != "", // a runtime in memory uses no disk
		Sync:       syncpod.Config{Node: syncpod.Node{LogsRoot: logs}},
	})
	if err != nil {
		return err
	}
	server := &http.Server{Addr: listen, Handler: agent, ReadHeaderTimeout: 10 * time.Second}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		defer cancel()
		served <- server.ListenAndServe()
	}()
	logger.Info("metrics are served", "at", "http://"+listen+"/metrics")
	err = agent.Run(ctx)
	_ = server.Close()
	if serr := <-served; !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	return err
}

func pod(name, script string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name + "-1")},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "app", Image: "docker.io/library/busybox:1.37", Command: []string{"sh", "-c", script},
		}}},
	}
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
