//go:build linux

package e2e

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/modules/cluster/internal/hours"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

const (
	// snapshotPause is the pause between snapshots. snapshotTimeout is the timeout of each request of a snapshot.
	snapshotPause, snapshotTimeout = 5 * time.Second, 4 * time.Second
	// calm is the pause after the recovery from each fault. Only calm time counts for the rules on durations.
	calm = 20 * time.Second
	// longestFault is the maximum duration of a fault.
	longestFault = 15 * time.Second
	// lastCalm is the pause after the recovery from the last fault. It is long enough that a pod that stays Terminating
	// breaks its rule.
	lastCalm = 90 * time.Second
)

// The time that the parts may take to recover from a fault. An API server client detects a half-open connection
// after 45 s, and waits up to a minute before it watches again.
const (
	recovery      = 20 * time.Second
	watchRecovery = time.Minute
)

// hostile is a node during TestHostileHours.
type hostile struct {
	*rig
	runtime *cri.Client
	proxy   *hours.Proxy
	folder  string
	random  *rand.Rand

	mu sync.Mutex
	// broken means that a fault is active. recovered is the time from which all parts work again.
	broken    bool
	recovered time.Time
	kills     int
	counts    map[string]int
}

// TestHostileHours runs pods of all controllers on the node while it injects faults into the parts of the cluster. It
// fails if a rule of package hours is broken.
func TestHostileHours(t *testing.T) {
	text := os.Getenv("PODSYNC_HOURS")
	if text == "" {
		t.Skip("PODSYNC_HOURS is not set")
	}
	duration, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("PODSYNC_HOURS: %v", err)
	}
	h := &hostile{rig: newRig(t), folder: t.TempDir(), random: rand.New(rand.NewPCG(1, 2)), counts: map[string]int{}}
	h.runtime = h.dial()
	h.throughProxy()
	h.furnish()
	ctx, cancel := context.WithCancel(t.Context())
	var watcher sync.WaitGroup
	watcher.Go(func() { h.judge(ctx) })
	defer watcher.Wait()
	defer cancel()
	for round, end := 0, time.Now().Add(duration); time.Now().Before(end); round++ {
		h.churn(round)
		time.Sleep(calm / 2)
		h.fault(faults[round%len(faults)])
	}
	time.Sleep(lastCalm)
	h.settled()
	cancel()
	watcher.Wait()
	t.Logf("%v: %v", duration, h.counts)
}

// throughProxy restarts the agent with a proxy between it and the API server.
func (h *hostile) throughProxy() {
	h.Helper()
	direct := filepath.Join(h.dir, "node.kubeconfig")
	config := must.Get(clientcmd.LoadFromFile(direct))(h)
	server := strings.TrimPrefix(config.Clusters[config.Contexts[config.CurrentContext].Cluster].Server, "https://")
	h.proxy = hours.NewProxy(func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(server, "443"))
	})
	listener := must.Get(net.Listen("tcp", net.JoinHostPort(server, "0")))(h)
	must.Run(h, func(ctx context.Context) error { return h.proxy.Serve(ctx, listener) })
	for _, c := range config.Clusters {
		c.Server = "https://" + listener.Addr().String()
	}
	proxied := filepath.Join(h.dir, "proxied.kubeconfig")
	must.Do(h, clientcmd.WriteToFile(*config, proxied))
	h.kill("kubelet", func(arg string) string { return strings.ReplaceAll(arg, direct, proxied) })()
	h.Cleanup(func() {
		h.kill("kubelet", func(arg string) string { return strings.ReplaceAll(arg, proxied, direct) })()
	})
}

// A part is a part of the cluster with a fault.
type part struct {
	name     string
	recovery time.Duration
	// kills means that the fault may interrupt container starts.
	kills bool
	// breaks injects the fault, and returns a function that ends it.
	breaks func(h *hostile) (mend func())
}

func killed(process string) func(*hostile) func() {
	return func(h *hostile) func() { return h.kill(process) }
}

func cut(mode hours.Mode) func(*hostile) func() {
	return func(h *hostile) func() {
		h.proxy.Set(mode)
		return func() { h.proxy.Set(hours.Forward) }
	}
}

var containerdKilled = part{"containerd killed", recovery, true, killed("containerd")}

var faults = []part{
	{"agent killed", recovery, true, killed("kubelet")},
	{"watch half open", watchRecovery, false, cut(hours.HalfOpen)},
	containerdKilled,
	{"disk full", recovery, false, (*hostile).fill},
	{"API server killed", watchRecovery, false, killed("kube-apiserver")},
	{"network dropped", watchRecovery, false, cut(hours.Drop)},
	{"network delayed", recovery, false, cut(hours.Delay)},
}

// fill fills the file system of the agent's root directory and of the pods' logs. mend deletes the file.
func (h *hostile) fill() (mend func()) {
	h.Helper()
	name := filepath.Join(h.dir, "disk", "full")
	f, err := os.Create(name)
	if err != nil {
		h.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 1<<20); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		h.Fatalf("the disk is not full: %v", err)
	}
	return func() {
		if err := os.Remove(name); err != nil {
			h.Error(err)
		}
	}
}

// fault injects one fault for some time, and returns when all parts work again.
func (h *hostile) fault(p part) {
	time.Sleep(time.Duration(h.random.Int64N(int64(calm / 2))))
	h.mu.Lock()
	h.broken = true
	h.counts[p.name]++
	if p.kills {
		h.kills++
	}
	h.mu.Unlock()
	mend := p.breaks(h)
	time.Sleep(time.Second + time.Duration(h.random.Int64N(int64(longestFault))))
	mend()
	h.mu.Lock()
	h.broken, h.recovered = false, time.Now().Add(p.recovery)
	h.mu.Unlock()
	time.Sleep(p.recovery)
}

// judge takes snapshots until ctx ends, and reports the rules that they break.
func (h *hostile) judge(ctx context.Context) {
	var history hours.History
	last := time.Now()
	for ctx.Err() == nil {
		s := h.snapshot(ctx, last)
		last = s.At
		var broken []hours.Violation
		if history, broken = hours.Check(history, s); ctx.Err() != nil {
			return // the last requests may have failed because ctx ended
		}
		for _, v := range broken {
			h.Errorf("%s %v", s.At.Format(time.TimeOnly), v)
		}
		h.mu.Lock()
		h.counts["snapshots"]++
		h.counts["most pods"] = max(h.counts["most pods"], len(s.Pods))
		h.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(snapshotPause):
		}
	}
}

// snapshot reads the state of the API server, the runtime and the containers' files, in this order.
func (h *hostile) snapshot(ctx context.Context, last time.Time) hours.Snapshot {
	s := hours.Snapshot{At: time.Now(), Runs: map[hours.Key]hours.Runs{}}
	h.mu.Lock()
	s.Trouble, s.Faults = h.broken || last.Before(h.recovered), h.kills
	h.mu.Unlock()
	asked, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	if list, err := h.kube.CoreV1().Pods(h.namespace).List(asked, metav1.ListOptions{}); err == nil {
		s.Pods = append([]v1.Pod{}, list.Items...)
	}
	asked, cancel = context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	selector := map[string]string{"io.kubernetes.pod.namespace": h.namespace}
	if list, err := h.runtime.ListContainers(asked, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: selector}}); err == nil {
		s.Containers = []hours.Container{}
		for _, c := range list.GetContainers() {
			s.Containers = append(s.Containers, hours.Container{
				Namespace: h.namespace, Pod: c.Labels["io.kubernetes.pod.name"], UID: types.UID(c.Labels["io.kubernetes.pod.uid"]),
				Name: c.Labels["io.kubernetes.container.name"], Running: c.State == runtimeapi.ContainerState_CONTAINER_RUNNING,
			})
		}
	}
	files, err := os.ReadDir(h.folder)
	if err != nil {
		h.Errorf("runs: %v", err)
	}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(h.folder, f.Name()))
		if err != nil {
			h.Errorf("runs: %v", err)
		}
		s.Runs[hours.Key{UID: types.UID(f.Name()), Name: "app"}] = hours.Runs{Started: strings.Count(string(text), "started"), Ran: strings.Count(string(text), "ran")}
	}
	h.mu.Lock() // a fault may have begun meanwhile
	s.Trouble, s.Faults = s.Trouble || h.broken, h.kills
	h.mu.Unlock()
	return s
}

// settled waits until all controllers have reached their desired state.
func (h *hostile) settled() {
	h.Helper()
	apps := h.kube.AppsV1()
	h.wait(time.Minute, "what the controllers want", func() bool {
		web, webErr := apps.Deployments(h.namespace).Get(h.Context(), "web", metav1.GetOptions{})
		db, dbErr := apps.StatefulSets(h.namespace).Get(h.Context(), "db", metav1.GetOptions{})
		logs, logsErr := apps.DaemonSets(h.namespace).Get(h.Context(), "logs", metav1.GetOptions{})
		if webErr != nil || dbErr != nil || logsErr != nil {
			return false
		}
		return web.Status.ReadyReplicas == webReplicas && web.Status.Replicas == webReplicas && db.Status.ReadyReplicas == dbReplicas &&
			logs.Status.NumberReady == 1 && h.jobsEnded()
	})
}

// jobsEnded reports whether the pods of all Jobs have succeeded. A kill of the runtime may fail a pod, which its Job then
// replaces.
func (h *hostile) jobsEnded() bool {
	jobs, err := h.kube.BatchV1().Jobs(h.namespace).List(h.Context(), metav1.ListOptions{})
	if err != nil {
		return false
	}
	for _, j := range jobs.Items {
		if j.Status.Succeeded != *j.Spec.Completions {
			return false
		}
	}
	return true
}
