package pinning_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/cpu"
	"github.com/podsync/podsync/syncpod/pinning"
	"github.com/podsync/podsync/syncpod/source"
)

// On a machine with four CPUs, of which one is reserved, a pod gets two of the others alone. A second pod finds too few.
func Example() {
	dir, err := os.MkdirTemp("", "pinning")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	machine := cpu.Topology{CPUs: []cpu.CPU{{ID: 0}, {ID: 1, Core: 1}, {ID: 2, Core: 2}, {ID: 3, Core: 3}}} // cpu.Read(os.DirFS("/sys"))
	manager, err := pinning.New(pinning.Config{
		State: filepath.Join(dir, "pinning.json"),
		CPUs:  cpu.Config{Policy: cpu.Static, Topology: machine, ReservedCount: 1},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client, done := exampleRuntime()
	defer done()
	pods := source.NewPush()
	if err := pods.Set(guaranteed("first"), guaranteed("second")); err != nil {
		log.Fatal(err)
	}
	var mu sync.Mutex
	seen := map[string]string{}
	agent, err := agent.New(agent.Config{
		Client:     client,
		Root:       filepath.Join(dir, "agent"),
		Sources:    []source.Source{pods},
		NoEviction: true,
		Sync: syncpod.Config{
			RuntimeName: "critest",
			Node:        syncpod.Node{LogsRoot: filepath.Join(dir, "logs")},
			Extensions:  syncpod.Extensions{CPUSets: manager},
			Sink: syncpod.StatusSinkFunc(func(_ context.Context, pod *v1.Pod, status v1.PodStatus) error {
				mu.Lock() // statuses of several pods come at the same time
				defer mu.Unlock()
				switch status.Phase {
				case v1.PodRunning:
					seen[pod.Name] = fmt.Sprint("runs on the CPUs ", manager.CPUs(pod.UID, "app"))
				case v1.PodFailed:
					seen[pod.Name] = fmt.Sprint("is refused: ", status.Reason)
				}
				if len(seen) == 2 {
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
	fmt.Println("first", seen["first"])
	fmt.Println("second", seen["second"])
	// Output:
	// first runs on the CPUs 1-2
	// second is refused: UnexpectedAdmissionError
}

// guaranteed returns a pod whose container requests two CPUs, which may not be used by others.
func guaranteed(name string) *v1.Pod {
	two := v1.ResourceList{v1.ResourceCPU: resource.MustParse("2"), v1.ResourceMemory: resource.MustParse("64Mi")}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "app", Image: "registry.test/app:1", Command: []string{"sleep", "infinity"},
			Resources: v1.ResourceRequirements{Requests: two, Limits: two},
		}}},
	}
}

// exampleRuntime returns a runtime in memory.
func exampleRuntime() (client *cri.Client, done func()) {
	runtime, err := critest.New(critest.Config{})
	if err != nil {
		log.Fatal(err)
	}
	conn, err := runtime.Dial()
	if err != nil {
		log.Fatal(err)
	}
	return cri.NewClient(conn), func() { conn.Close(); runtime.Close() }
}
