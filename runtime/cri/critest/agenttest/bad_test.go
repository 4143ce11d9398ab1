package agenttest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
)

// bad is the common part of both bad agents: a loop that syncs the pods once a second.
type bad struct {
	node Node
	// sync syncs the pods.
	sync func(context.Context, *hand, []*v1.Pod)

	mu     sync.Mutex
	pods   []*v1.Pod
	conn   *critest.Conn
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

func (b *bad) Start() (err error) {
	if b.conn, err = b.node.Dial(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	h := &hand{rt: runtimeapi.NewRuntimeServiceClient(b.conn)}
	b.ended.Go(func() {
		for ctx.Err() == nil {
			b.mu.Lock()
			pods := slices.Clone(b.pods)
			b.mu.Unlock()
			b.sync(ctx, h, pods)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	})
	return nil
}

func (b *bad) SetPods(pods []*v1.Pod) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pods = pods
	return nil
}

func (b *bad) Stop() error {
	b.cancel()
	b.ended.Wait()
	return b.conn.Close()
}

func (b *bad) Kill() error {
	err := b.conn.Close()
	b.cancel()
	b.ended.Wait()
	return err
}

// hand makes the calls of bad agents. The objects that it creates have identifying labels.
type hand struct {
	rt       runtimeapi.RuntimeServiceClient
	attempts uint32
}

func labels(p *v1.Pod) map[string]string { return map[string]string{"bad/pod": p.Name} }

func (h *hand) sandbox(ctx context.Context, p *v1.Pod) (id string, cfg *runtimeapi.PodSandboxConfig, err error) {
	h.attempts++
	cfg = &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Namespace: p.Namespace, Name: p.Name, Uid: string(p.UID), Attempt: h.attempts}, Labels: labels(p),
	}
	made, err := h.rt.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: cfg})
	return made.GetPodSandboxId(), cfg, err
}

func (h *hand) run(ctx context.Context, p *v1.Pod, c v1.Container, sandbox string, cfg *runtimeapi.PodSandboxConfig) (id string, err error) {
	h.attempts++
	made, err := h.rt.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{PodSandboxId: sandbox, SandboxConfig: cfg, Config: &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: h.attempts}, Labels: labels(p),
		Image: &runtimeapi.ImageSpec{Image: c.Image}, Command: c.Command,
	}})
	if err == nil {
		_, err = h.rt.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: made.GetContainerId()})
	}
	return made.GetContainerId(), err
}

func (h *hand) end(ctx context.Context, sandbox string, containers ...string) {
	for _, id := range containers {
		_, _ = h.rt.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: 8})
	}
	_, _ = h.rt.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: sandbox})
	_, _ = h.rt.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: sandbox})
}

// naive starts every container that it does not see running. A failed list shows it no container.
func naive(ctx context.Context, h *hand, pods []*v1.Pod) {
	sandboxes, _ := h.rt.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	list, _ := h.rt.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	running := map[string]map[string]string{} // IDs by sandbox and name
	for _, c := range list.GetContainers() {
		if running[c.PodSandboxId] == nil {
			running[c.PodSandboxId] = map[string]string{}
		}
		if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			running[c.PodSandboxId][c.Metadata.Name] = c.Id
		}
	}
	for _, sb := range sandboxes.GetItems() {
		name := sb.Labels["bad/pod"]
		if name == "" || slices.ContainsFunc(pods, func(p *v1.Pod) bool { return p.Name == name }) {
			continue
		}
		var ids []string
		for _, id := range running[sb.Id] {
			ids = append(ids, id)
		}
		h.end(ctx, sb.Id, ids...)
	}
	for _, p := range pods {
		id, cfg := "", &runtimeapi.PodSandboxConfig{}
		for _, sb := range sandboxes.GetItems() {
			if sb.Labels["bad/pod"] == p.Name {
				id, cfg.Metadata = sb.Id, sb.Metadata
			}
		}
		if id == "" {
			var err error
			if id, cfg, err = h.sandbox(ctx, p); err != nil {
				continue
			}
		}
		for _, c := range p.Spec.Containers {
			if running[id][c.Name] == "" {
				_, _ = h.run(ctx, p, c, id, cfg)
			}
		}
	}
}

// trusting never inspects the runtime: it believes each response, and assumes that a failed call had
// no effect.
type trusting struct {
	made map[string]*believed // by the pod's name
}

type believed struct {
	sandbox    string
	cfg        *runtimeapi.PodSandboxConfig
	containers map[string]string
}

func (tr *trusting) sync(ctx context.Context, h *hand, pods []*v1.Pod) {
	for name, b := range tr.made {
		if slices.ContainsFunc(pods, func(p *v1.Pod) bool { return p.Name == name }) {
			continue
		}
		for _, id := range b.containers {
			if _, err := h.rt.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: 8}); err != nil {
				delete(tr.made, name)
			}
		}
		if tr.made[name] != nil {
			h.end(ctx, b.sandbox)
			delete(tr.made, name)
		}
	}
	for _, p := range pods {
		if tr.made[p.Name] == nil {
			id, cfg, err := h.sandbox(ctx, p)
			if err != nil {
				continue
			}
			tr.made[p.Name] = &believed{id, cfg, map[string]string{}}
		}
		for _, c := range p.Spec.Containers {
			b := tr.made[p.Name]
			if b.containers[c.Name] != "" {
				continue
			}
			if id, err := h.run(ctx, p, c, b.sandbox, b.cfg); err == nil {
				b.containers[c.Name] = id
			}
		}
	}
}

// Bad agents break the promises that they should break, and no other.
func TestBadAgents(t *testing.T) {
	naively := func(n Node) (Agent, error) { return &bad{node: n, sync: naive}, nil }
	trustfully := func(n Node) (Agent, error) {
		return &bad{node: n, sync: (&trusting{made: map[string]*believed{}}).sync}, nil
	}
	calm := append(adding("web", "leaving", "two"), after(20, removing("leaving")...)...)
	failures := func(method critest.Method, pod string) []Step {
		return append(adding("web", "leaving"),
			append(after(10, Step{Do: "fail", Method: method, Pod: pod, N: 1}), after(15, removing("leaving")...)...)...)
	}
	for _, tt := range []struct {
		name   string
		agent  func(Node) (Agent, error)
		steps  []Step
		broken []string
	}{
		{"naive, nothing happens", naively, calm, nil},
		{"naive, a container crashes", naively, adding("crash"), []string{"back-off"}},
		{"naive, a job has finished", naively, append(adding("job"), Step{Do: "watch", For: 30}), []string{"never-runs-once", "arrives"}},
		{"naive, a list fails", naively, failures("ListPodSandbox", ""), []string{"one-instance", "one-sandbox", "arrives"}},
		{"naive, init containers", naively, adding("init"), []string{"init-order"}},
		{"naive, the agent restarts", naively, append(slices.Clone(calm), Step{Do: "kill-agent"}, Step{After: 2, Do: "start-agent"}), nil},
		{"trusting, nothing happens", trustfully, calm, nil},
		{"trusting, what crashes", trustfully, append(adding("crash"), Step{Do: "watch", For: 400}), []string{"restarts"}},
		{"trusting, an answer is lost", trustfully, append([]Step{{Do: "lose-answer", Method: "StartContainer", Pod: "web", N: 1}}, adding("web", "two")...), []string{"one-instance", "arrives"}},
		{"trusting, a stop fails", trustfully, failures("StopContainer", "leaving"), []string{"nothing-left"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg, err := Config{Agent: tt.agent, Dir: t.TempDir(), Patience: time.Minute}.withDefaults()
				if err != nil {
					t.Fatal(err)
				}
				h, err := play(t.Context(), cfg, Scenario{Name: "bad", Steps: tt.steps}, 20*time.Second)
				if err != nil {
					t.Fatal(err)
				}
				all := newTally()
				if got := all.judge(h); !slices.Equal(sorted(got), sorted(tt.broken)) {
					t.Errorf("broken are %q, want %q", got, tt.broken)
					for _, o := range all.report.Broken() {
						t.Log(o.Promise, o.Breaches[0].text())
					}
				}
			})
		})
	}
}

func sorted(s []string) []string { return slices.Sorted(slices.Values(s)) }
