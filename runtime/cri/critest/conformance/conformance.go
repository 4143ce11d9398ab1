package conformance

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"os"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Config describes the runtime to check.
type Config struct {
	// Image is an image's name on the node with busybox in /bin and without an entrypoint.
	// Required.
	Image string
	// Missing is the name of an image that is not on the node and cannot be pulled. Default:
	// localhost:1/conformance/missing:1.
	Missing string
	// Dir is the directory for logs and mounts. The runtime must run on this machine, because both
	// use the directory. Default: os.TempDir().
	Dir string
	// Namespace is the created pods' namespace. Default: conformance.
	Namespace string
	// Around runs each rule, and calls dial inside. With synctest.Test, the rules take no time on a
	// runtime in this process. Default: the rule is called directly.
	Around func(t *testing.T, rule func(t *testing.T))
}

// A rule is a property of a runtime on which a node agent relies.
type rule struct {
	name     string
	sentence string // states the rule; printed if it does not hold
	check    func(b *bench)
}

// Run checks the rules on which a node agent relies, each in a subtest. For a broken rule the test
// prints the rule as a sentence, and then the observation. Rules about optional parts of CRI that
// the runtime does not implement are skipped with the reason.
//
// dial is called once for each rule. Run removes the pods that it creates and touches no others; it
// removes no image.
func Run(t *testing.T, dial func(t *testing.T) *grpc.ClientConn, cfg Config) {
	t.Helper()
	if cfg.Image == "" {
		t.Fatal("conformance: Config.Image is missing")
	}
	cfg = cfg.withDefaults()
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			cfg.Around(t, func(t *testing.T) { r.check(newBench(t, r, cfg, dial(t))) })
		})
	}
}

func (c Config) withDefaults() Config {
	if c.Missing == "" {
		c.Missing = "localhost:1/conformance/missing:1"
	}
	if c.Dir == "" {
		c.Dir = os.TempDir()
	}
	if c.Namespace == "" {
		c.Namespace = "conformance"
	}
	if c.Around == nil {
		c.Around = func(t *testing.T, rule func(t *testing.T)) { rule(t) }
	}
	return c
}

// Rules returns the rules in the order in which Run checks them: the name of each, which is also
// its subtest's, and its sentence.
func Rules() iter.Seq2[string, string] {
	return func(yield func(name, sentence string) bool) {
		for _, r := range rules() {
			if !yield(r.name, r.sentence) {
				return
			}
		}
	}
}

func rules() []rule {
	var all []rule
	for _, part := range [][]rule{
		runtimeRules, sandboxRules, sandboxEndRules, containerRules, containerNameRules,
		stopRules, removeRules, fileRules, logRules, execRules, imageRules, resourceRules, eventRules,
	} {
		all = append(all, part...)
	}
	return all
}

// A bench is the environment in which a rule is checked.
type bench struct {
	testing.TB
	rule
	cfg Config
	rt  runtimeapi.RuntimeServiceClient
	img runtimeapi.ImageServiceClient
	uid string // of the rule's pod
	dir string
}

func newBench(t testing.TB, r rule, cfg Config, conn *grpc.ClientConn) *bench {
	b := &bench{
		TB: t, rule: r, cfg: cfg,
		rt: runtimeapi.NewRuntimeServiceClient(conn), img: runtimeapi.NewImageServiceClient(conn),
		uid: r.name + "-" + rand.Text(),
	}
	var err error
	if b.dir, err = os.MkdirTemp(cfg.Dir, "conformance-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.sweep()
		_ = os.RemoveAll(b.dir) // a failure only leaves files behind
	})
	return b
}

// sweep removes the objects that the rule has created. It stops the containers first, because some
// runtimes let them run until nearly the end of the call that stops their sandbox.
func (b *bench) sweep() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	containers, err := b.rt.ListContainers(ctx, &runtimeapi.ListContainersRequest{
		Filter: &runtimeapi.ContainerFilter{LabelSelector: map[string]string{labelUID: b.uid}},
	})
	if err != nil {
		b.Errorf("cleaning up: %v", err)
	}
	for _, c := range containers.GetContainers() {
		if _, err := b.rt.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: c.GetId()}); err != nil {
			b.Errorf("cleaning up: %v", err)
		}
	}
	list, err := b.rt.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{
		Filter: &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{labelUID: b.uid}},
	})
	if err != nil {
		b.Errorf("cleaning up: %v", err)
	}
	for _, s := range list.GetItems() {
		if _, err := b.rt.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: s.GetId()}); err != nil {
			b.Errorf("cleaning up: %v", err)
		}
		if _, err := b.rt.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: s.GetId()}); err != nil {
			b.Errorf("cleaning up: %v", err)
		}
	}
}

// broken ends the check: the rule does not hold.
func (b *bench) broken(format string, args ...any) {
	b.Helper()
	b.Fatalf("%s\nBut: %s", b.sentence, fmt.Sprintf(format, args...))
}

// must ends the check if a call that the rule needs has failed.
func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.broken("%v", err)
	}
}

// gone reports whether an error is nil or NotFound: for an object that does not exist, both are
// success.
func gone(err error) bool {
	return err == nil || status.Code(err) == codes.NotFound
}

// wantCode ends the check unless the call failed with this code.
func (b *bench) wantCode(err error, want codes.Code) {
	b.Helper()
	if got := status.Code(err); got != want {
		b.broken("the code was %v, not %v: %v", got, want, err)
	}
}
