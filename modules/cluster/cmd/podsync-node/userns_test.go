package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
)

// A pod with spec.hostUsers false has its own range of IDs, in its sandbox and in its containers, also after a restart of
// the agent. The range of a deleted pod is free.
func TestUserNamespaces(t *testing.T) {
	onSite(t, func(s *site) {
		s.furnish()
		for _, name := range []string{"one", "two"} {
			pod := podOf(name, "registry.test/app:1")
			pod.Spec.HostUsers = new(false)
			s.create(pod)
		}
		s.boot()
		s.sleep(time.Minute)
		s.wantRunning("changed", "deleted", "one", "same", "two")
		first := map[uint32]bool{}
		for _, name := range []string{"one", "two"} {
			host := uint32(0)
			for _, call := range s.rt.Journal().Pod("uid-" + name) {
				var ns *runtimeapi.UserNamespace
				switch call.Method {
				case critest.RunPodSandbox:
					ns = call.Request().(*runtimeapi.RunPodSandboxRequest).GetConfig().GetLinux().GetSecurityContext().GetNamespaceOptions().GetUsernsOptions()
				case critest.CreateContainer:
					ns = call.Request().(*runtimeapi.CreateContainerRequest).GetConfig().GetLinux().GetSecurityContext().GetNamespaceOptions().GetUsernsOptions()
				default:
					continue
				}
				if ns.GetMode() != runtimeapi.NamespaceMode_POD || len(ns.GetUids()) != 1 || host != 0 && host != ns.GetUids()[0].HostId {
					t.Errorf("%s of %s has %v, want one range, that of the pod", call.Method, name, ns)
					continue
				}
				host = ns.GetUids()[0].HostId
			}
			first[host] = true
		}
		if len(first) != 2 || first[0] {
			t.Errorf("the ranges of the pods begin at %v, want two that are not those of the node", first)
		}
		file := filepath.Join(s.root, "pods", "uid-one", "userns")
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	})
}

func TestSubordinateIDs(t *testing.T) {
	if first, count, err := parseSubordinateIDs("0: kubelet 65536 7208960\n"); first != 65536 || count != 7208960 || err != nil {
		t.Errorf("%d, %d, %v", first, count, err)
	}
	for _, bad := range []string{"", "0: kubelet 65536", "0: kubelet 65536 7208960\n1: kubelet 1 2", "0: kubelet -1 65536", "0: kubelet 65536 0", "0: kubelet 65536 4294967296"} {
		if _, _, err := parseSubordinateIDs(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
