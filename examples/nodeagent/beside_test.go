package main

import (
	"os"
	"path/filepath"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
)

func TestSharedLogsAreNoticed(t *testing.T) {
	root := t.TempDir()
	pod := func(name string, labels map[string]string, logs bool) *runtimeapi.PodSandbox {
		if logs {
			if err := os.MkdirAll(filepath.Join(root, "default_"+name+"_uid"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		return &runtimeapi.PodSandbox{Metadata: &runtimeapi.PodSandboxMetadata{Namespace: "default", Name: name, Uid: "uid"}, Labels: labels}
	}
	own := pod("own", cri.Owner{Name: "edge"}.Mark(nil), true)
	elsewhere := pod("elsewhere", nil, false)
	escape := pod("../..", nil, false)
	if got := sharesLogs(root, "edge", []*runtimeapi.PodSandbox{own, elsewhere, escape, {}}); got != "" {
		t.Errorf("%s, want none", got)
	}
	if got := sharesLogs(root, "edge", []*runtimeapi.PodSandbox{own, pod("kubelets", nil, true)}); got != "default/kubelets" {
		t.Errorf("%q, want the kubelet's pod", got)
	}
}
