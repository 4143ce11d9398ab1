//go:build linux

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

const nodeName = "n1"

// A rig is a cluster, with a namespace for one test.
type rig struct {
	*testing.T
	dir, namespace string
	kube           kubernetes.Interface
}

func newRig(t *testing.T) *rig {
	dir := os.Getenv("PODSYNC_E2E_DIR")
	if dir == "" {
		t.Skip("there is no cluster: PODSYNC_E2E_DIR is not set")
	}
	config := must.Get(clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.kubeconfig")))(t)
	config.QPS, config.Burst = 200, 400
	r := &rig{T: t, dir: dir, kube: kubernetes.NewForConfigOrDie(config)}
	ns := must.Get(r.kube.CoreV1().Namespaces().Create(t.Context(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "podsync-"}}, metav1.CreateOptions{}))(t)
	r.namespace = ns.Name
	t.Cleanup(func() {
		_ = r.kube.CoreV1().Namespaces().Delete(context.Background(), r.namespace, metav1.DeleteOptions{})
	})
	r.wait(time.Minute, "a service account", func() bool {
		_, err := r.kube.CoreV1().ServiceAccounts(r.namespace).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	return r
}

// dial connects to the container runtime.
func (r *rig) dial() *cri.Client {
	r.Helper()
	endpoint := must.Get(os.ReadFile(filepath.Join(r.dir, "endpoint")))(r)
	client := must.Get(cri.Dial(r.Context(), cri.Config{Endpoint: strings.TrimSpace(string(endpoint))}))(r)
	r.Cleanup(func() { _ = client.Close() })
	return client
}

func image() string {
	return cmp.Or(os.Getenv("PODSYNC_E2E_IMAGE"), "registry.k8s.io/e2e-test-images/busybox:1.37.0-1")
}

func pause() string { return cmp.Or(os.Getenv("PODSYNC_E2E_PAUSE"), "registry.k8s.io/pause:3.10.2") }

// wait waits until a condition is true.
func (r *rig) wait(most time.Duration, what string, so func() bool) {
	r.Helper()
	for end := time.Now().Add(most); ; time.Sleep(100 * time.Millisecond) {
		if so() {
			return
		}
		if time.Now().After(end) {
			r.Fatalf("after %v there is not yet: %s", most, what)
		}
	}
}

// pidFile returns the file with the process ID of a part. containerd.sh keeps containerd's file in a separate directory.
func (r *rig) pidFile(name string) string {
	if name == "containerd" {
		return filepath.Join(r.dir, name, "pid")
	}
	return filepath.Join(r.dir, name+".pid")
}

func (r *rig) pid(name string) int {
	r.Helper()
	text := must.Get(os.ReadFile(r.pidFile(name)))(r)
	return must.Get(strconv.Atoi(strings.TrimSpace(string(text))))(r)
}

// kill kills a process, and returns a function that restarts it. Each function in change is applied to each argument.
func (r *rig) kill(name string, change ...func(arg string) string) (start func()) {
	r.Helper()
	pid := r.pid(name)
	args, environ := r.words(pid, "cmdline"), r.words(pid, "environ")
	for _, f := range change {
		for i := range args {
			args[i] = f(args[i])
		}
	}
	path := must.Get(os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)))(r)
	must.Do(r, syscall.Kill(pid, syscall.SIGKILL))
	r.wait(10*time.Second, "the end of "+name, func() bool { return gone(pid) })
	return func() {
		r.Helper()
		log := must.Get(os.OpenFile(filepath.Join(r.dir, "log", name+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644))(r)
		defer log.Close()
		c := &exec.Cmd{Path: path, Args: args, Env: environ, Stdout: log, Stderr: log, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
		must.Do(r, c.Start())
		go func() { _ = c.Wait() }() // reaps the process, so that its exit can be detected
		must.Do(r, os.WriteFile(r.pidFile(name), []byte(strconv.Itoa(c.Process.Pid)), 0o644))
	}
}

// gone reports whether a process has exited, even if its parent has not waited for it.
func gone(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := bytes.Cut(text, []byte(") "))
	return err != nil || bytes.HasPrefix(rest, []byte("Z"))
}

func (r *rig) words(pid int, file string) []string {
	r.Helper()
	text := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file)))(r)
	return strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
}

func (r *rig) pods() []v1.Pod {
	r.Helper()
	list := must.Get(r.kube.CoreV1().Pods(r.namespace).List(r.Context(), metav1.ListOptions{}))(r)
	return list.Items
}

func ready(pod *v1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

func (r *rig) create(pod *v1.Pod) {
	r.Helper()
	must.Get(r.kube.CoreV1().Pods(r.namespace).Create(r.Context(), pod, metav1.CreateOptions{}))(r)
}

func (r *rig) delete(name string) {
	r.Helper()
	if err := r.kube.CoreV1().Pods(r.namespace).Delete(r.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		r.Fatal(err)
	}
}
