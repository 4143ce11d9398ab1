package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	podruntime "github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/hostfs/mounts"
)

const (
	namespace = "nodeagent"
	nodeName  = "node"
	// patience is how long a busy machine may take for something that should happen immediately.
	patience = time.Minute
	// slack is how much later than it should an end may be observed on such a machine.
	slack = 5 * time.Second
)

// binaries is the directory in which programs are built, once for all tests.
var binaries string

// TestMain lets many pods run concurrently, because their tests wait for the runtime and not for a processor.
func TestMain(m *testing.M) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	var err error
	if !asked {
		err = flag.Set("test.parallel", "24")
	}
	if err == nil {
		binaries, err = os.MkdirTemp("", "podsync-e2e-")
	}
	if err == nil {
		err = os.Chmod(binaries, 0o755) // some are run as another user
	}
	if err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(binaries)
	os.Exit(code)
}

// nodeAgent is the path of examples/nodeagent.
var nodeAgent = sync.OnceValues(func() (string, error) {
	path := filepath.Join(binaries, "nodeagent")
	out, err := exec.Command("go", "build", "-o", path, "github.com/podsync/podsync/examples/nodeagent").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// A node is a runtime, and the folders that are left when an agent ends.
type node struct {
	*testing.T
	endpoint              string
	runtime               runtimeapi.RuntimeServiceClient
	images                runtimeapi.ImageServiceClient
	manifests, root, logs string
}

// onNodes runs a test on each endpoint, on all of them at once.
func onNodes(t *testing.T, f func(n *node)) {
	for _, endpoint := range endpoints(t) {
		t.Run(strings.ReplaceAll(strings.TrimPrefix(endpoint, "unix://"), "/", "-"), func(t *testing.T) {
			t.Parallel()
			f(newNode(t, endpoint))
		})
	}
}

func newNode(t *testing.T, endpoint string) *node {
	conn := must.Get(grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { _ = conn.Close() })
	dir := t.TempDir()
	n := &node{
		T: t, endpoint: endpoint, runtime: runtimeapi.NewRuntimeServiceClient(conn), images: runtimeapi.NewImageServiceClient(conn),
		manifests: filepath.Join(dir, "manifests"), root: filepath.Join(dir, "root"), logs: filepath.Join(dir, "logs"),
	}
	must.Do(n, os.Mkdir(n.manifests, 0o755))
	t.Cleanup(n.clear)
	return n
}

// clear removes the pods that agents have left. None runs any more.
func (n *node) clear() {
	for _, s := range n.all() {
		if _, err := n.runtime.StopPodSandbox(context.Background(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: s.GetId()}); err != nil {
			n.Error(err)
		}
		if _, err := n.runtime.RemovePodSandbox(context.Background(), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: s.GetId()}); err != nil {
			n.Error(err)
		}
	}
	unmountRoot(n.T, n.root)
}

// unmountRoot unmounts an agent's root. The agent leaves it mounted, and its directory could not be removed.
func unmountRoot(t *testing.T, root string) {
	at, err := mounts.At(root)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err == nil && at {
		err = exec.Command("umount", "-l", root).Run()
	}
	if err != nil {
		t.Error(err)
	}
}

// all returns the sandboxes of all pods.
func (n *node) all() []*runtimeapi.PodSandbox {
	n.Helper()
	list := must.Get(n.runtime.ListPodSandbox(context.Background(), &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
		LabelSelector: map[string]string{podruntime.LabelPodNamespace: namespace},
	}}))(n)
	return list.GetItems()
}

// in returns the node for a subtest.
func (n *node) in(t *testing.T) *node {
	in := *n
	in.T = t
	return &in
}

// write puts a manifest into the folder that agents watch.
func (n *node) write(file, text string) {
	n.Helper()
	// Files whose names begin with a dot do not count.
	must.Do(n, os.WriteFile(filepath.Join(n.manifests, "."+file), []byte(text), 0o644))
	must.Do(n, os.Rename(filepath.Join(n.manifests, "."+file), filepath.Join(n.manifests, file)))
}

func (n *node) remove(file string) {
	n.Helper()
	if err := os.Remove(filepath.Join(n.manifests, file)); err != nil && !errors.Is(err, os.ErrNotExist) {
		n.Fatal(err)
	}
}

// eventually waits until what returns nil.
func (n *node) eventually(what func() error) {
	n.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = what(); err == nil {
			return
		}
	}
	n.Fatalf("after %v: %v", patience, err)
}
