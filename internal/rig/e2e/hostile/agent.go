//go:build linux

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/cgroup/tree"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/eviction"
	"github.com/podsync/podsync/syncpod/server"
	"github.com/podsync/podsync/syncpod/source"
)

// podPIDs is the maximum number of processes and threads of a pod.
const podPIDs = 256

// A said is a line of the agent's output.
type said struct {
	Kind, Namespace, Name, UID string
	Type, Reason, Message      string `json:",omitempty"`
	Status                     *v1.PodStatus
	Time                       time.Time
}

// A speaker writes the agent's reports.
type speaker struct {
	mu  sync.Mutex
	out *json.Encoder
}

func (s *speaker) say(l said) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.Time = time.Now()
	_ = s.out.Encode(l) // the reader has exited, and the agent with it
}

func (s *speaker) status(_ context.Context, pod *v1.Pod, status v1.PodStatus) error {
	s.say(said{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Status: &status})
	return nil
}

func (s *speaker) event(about k8sruntime.Object, eventType, reason, format string, args ...any) {
	l := said{Kind: "Event", Type: eventType, Reason: reason, Message: fmt.Sprintf(format, args...)}
	if ref, ok := about.(*v1.ObjectReference); ok {
		l.Namespace, l.Name, l.UID = ref.Namespace, ref.Name, string(ref.UID)
	}
	s.say(l)
}

// beAgent runs the agent until ctx ends. Its files are in directories of -dir: root, logs and
// sockets.
func beAgent(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("agent", flag.ContinueOnError)
	endpoint, dir, name := flags.String("runtime", "", ""), flags.String("dir", "", ""), flags.String("owner", "", "")
	secret := flags.String("secret", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	client, err := cri.Dial(ctx, cri.Config{Endpoint: *endpoint})
	if err != nil {
		return err
	}
	defer client.Close()
	pods := source.NewPush()
	agent, err := newAgent(client, pods, *dir, *name, *secret)
	if err != nil {
		return err
	}
	looks, err := server.New(server.Config{Agent: agent, Client: client, Stats: agent.Stats(), NodeName: "node"})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 3)
	go func() { ended <- agent.Run(ctx) }()
	go func() { ended <- looks.ServeUnix(ctx, filepath.Join(*dir, "sockets", "looks")) }()
	go func() { ended <- control(ctx, filepath.Join(*dir, "sockets", "control"), pods, agent) }()
	first := <-ended
	cancel()
	return cmp.Or(first, <-ended, <-ended)
}

func newAgent(client *cri.Client, pods source.Source, dir, name, secret string) (*agent.Agent, error) {
	root, speaks := filepath.Join(dir, "root"), &speaker{out: json.NewEncoder(os.Stdout)}
	allocatable := v1.ResourceList{v1.ResourceCPU: resource.MustParse("64"), v1.ResourceMemory: resource.MustParse("64Gi")}
	driver, err := tree.DriverOf(context.Background(), client)
	if err != nil && !errors.Is(err, cri.ErrUnimplemented) {
		return nil, err
	}
	cgroups, err := tree.New(tree.Config{
		State: filepath.Join(root, "cgroups"), Root: name, Driver: driver, Allocatable: allocatable, PodPIDs: podPIDs,
	})
	if err != nil {
		return nil, err
	}
	// No node that tests run on is this short of anything: limits of pods alone evict.
	policy := eviction.Policy{Hard: map[eviction.Signal]string{eviction.MemoryAvailable: "1Mi"}, Interval: 2 * time.Second}
	return agent.New(agent.Config{
		Client: client, Root: root, NodeName: "node", Sources: []source.Source{pods},
		ImagePolicy: image.GCPolicy{HighPercent: 99, LowPercent: 98}, EvictionPolicy: policy,
		Sync: syncpod.Config{
			Owner: cri.Owner{Name: name}, Node: syncpod.Node{LogsRoot: filepath.Join(dir, "logs"), Allocatable: allocatable},
			Extensions: syncpod.Extensions{Cgroups: cgroups},
			Objects:    syncpod.Objects{Sources: env.Sources{Secrets: secrets(secret)}},
			Sink:       syncpod.StatusSinkFunc(speaks.status), Events: syncpod.EventRecorderFunc(speaks.event),
		},
		Log: funcr.New(func(prefix, args string) { fmt.Fprintln(os.Stderr, time.Now().Format(time.StampMilli), prefix, args) }, funcr.Options{}),
	})
}

// secrets is each Secret's value.
type secrets string

func (s secrets) Secret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	return &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"password": []byte(s)}}, nil
}

// control receives pods: PUT /pods with a pod as JSON, DELETE /pods/UID. GET /pods/UID returns 404 when the agent has
// forgotten the pod.
func control(ctx context.Context, socket string, pods *source.Push, agent *agent.Agent) error {
	if err := pods.Set(); err != nil {
		return err
	}
	lis, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /pods", func(w http.ResponseWriter, r *http.Request) {
		var pod v1.Pod
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err == nil {
			err = json.Unmarshal(text, &pod)
		}
		if err == nil {
			err = pods.Update(&pod)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	})
	mux.HandleFunc("DELETE /pods/{uid}", func(_ http.ResponseWriter, r *http.Request) { pods.Delete(types.UID(r.PathValue("uid"))) })
	mux.HandleFunc("GET /pods/{uid}", func(w http.ResponseWriter, r *http.Request) {
		for _, pod := range agent.Pods() {
			if pod.Pod != nil && string(pod.Pod.UID) == r.PathValue("uid") {
				return
			}
		}
		http.NotFound(w, r)
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = s.Close() })
	if err := s.Serve(lis); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
