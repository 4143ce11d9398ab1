//go:build linux

package e2e

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// shells returns attacks on resources that the agent shares with a container: processes, watches, leases, sessions, paths.
func (s *siege) shells() []offence {
	all := []offence{
		{name: "slaughter", attack: []string{"slaughter"}, change: sharesProcesses, check: runsAgain},
		{name: "daemons", attack: []string{"deaf"}, change: leavesDaemons, check: (*siege).probedForAWhile},
		{name: "watches", attack: []string{"watches"}, check: (*siege).readLogs},
		{name: "leases", attack: []string{"leases"}, change: mountedBySibling, check: runsAgain},
		{name: "sessions", attack: []string{"deaf"}, check: (*siege).leaveSessions},
		{name: "oddpaths", attack: []string{"oddpaths"}, change: mountsOddPaths, event: "Failed", words: "subPath"},
	}
	if s.lasts == 0 {
		return all
	}
	return append(all,
		offence{name: "mountpaths", attack: []string{"deaf"}, change: mountsAnywhere, check: (*siege).probedForAWhile},
		offence{name: "crashes", attack: []string{"deaf"}, change: crashesAtOnce, check: runsAgain},
		offence{name: "longname", attack: []string{"deaf"}, change: longNames, event: "FailedCreatePodSandBox", words: "sandbox of pod"},
	)
}

// listen fails the test if anything connects to the node's port.
func (s *siege) listen(t *testing.T) {
	lis := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	var accepting sync.WaitGroup
	t.Cleanup(func() { lis.Close(); accepting.Wait() })
	_, s.port, _ = net.SplitHostPort(lis.Addr().String())
	accepting.Go(func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			t.Error("a probe was redirected to a port of the node")
			conn.Close()
		}
	})
}

// sharesProcesses adds a container that shares its processes with the other one, which kills them.
func sharesProcesses(_ *siege, l level, p *v1.Pod) {
	p.Spec.ShareProcessNamespace = new(true)
	p.Spec.Containers = append(p.Spec.Containers, attacker(l, "victim", "deaf"))
}

// leavesDaemons adds containers whose probes leave processes behind that hold the output open.
func leavesDaemons(_ *siege, l level, p *v1.Pod) {
	for i, command := range []string{"sleep 1000 & exit 0", "kill -STOP $$", "exec >&- 2>&-; sleep 1000", "(trap '' TERM; sleep 1000 & sleep 1000) & exit 1"} {
		c := attacker(l, fmt.Sprint("probed", i), "deaf")
		c.ReadinessProbe = &v1.Probe{PeriodSeconds: 1, TimeoutSeconds: 1, ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/bin/sh", "-c", command}}}}
		c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"/bin/sh", "-c", command}}}}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
}

// mountsOddPaths adds containers that mount, by a subPath, the files that the attack leaves.
func mountsOddPaths(_ *siege, l level, p *v1.Pod) {
	p.Spec.InitContainers = p.Spec.Containers
	p.Spec.InitContainers[0].Name = "before"
	p.Spec.Containers = nil
	for _, kind := range []string{"pipe", "socket", "zero", "whiteout", "link", "loop", "out"} {
		c := attacker(l, kind, "spy", "/odd")
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "scratch", MountPath: "/odd", SubPathExpr: "$(KIND)"})
		c.Env = []v1.EnvVar{{Name: "KIND", Value: kind}}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
}

// mountsAnywhere adds containers that have the volume mounted over files of the runtime and the kernel.
func mountsAnywhere(_ *siege, l level, p *v1.Pod) {
	for i, path := range []string{"/", "/proc", "/proc/self/fd/3", "/proc/1/root/tmp", "/proc/thread-self/attr", "/sys/fs/cgroup", "/dev", "/dev/fd/3", "/etc", "/etc/hosts", "/dev/shm", "/var/run/../../proc", "/tmp/" + strings.Repeat("d/", 500)} {
		c := attacker(l, fmt.Sprint("at", i), "deaf")
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "scratch", MountPath: path})
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
}

// crashesAtOnce adds containers that end as soon as they start.
func crashesAtOnce(_ *siege, l level, p *v1.Pod) {
	p.Spec.Containers = nil
	for i := range 16 {
		c := attacker(l, fmt.Sprint("app", i))
		c.Command = []string{"/bin/sh", "-c", fmt.Sprint("exit ", i*17)}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
}

func longNames(_ *siege, _ level, p *v1.Pod) { p.Name += strings.Repeat("-x", (253-len(p.Name))/2) }

// leaveSessions opens sessions in the container, and abandons them.
func (s *siege) leaveSessions(p *v1.Pod) error {
	if err := s.running(p); err != nil {
		return err
	}
	program, err := nodeAgent()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range 10 {
		cmd := exec.CommandContext(ctx, program, "exec", "-serve", "unix://"+filepath.Join(s.dir, "sockets", "looks"), p.Namespace+"/"+p.Name, "-c", "app", "--", "/bin/sleep", "1000")
		if err := cmd.Start(); err != nil {
			return err
		}
		go func() { _ = cmd.Wait() }() // it ends by force, or with the container
	}
	time.Sleep(3 * time.Second)
	return s.remove(p)
}
