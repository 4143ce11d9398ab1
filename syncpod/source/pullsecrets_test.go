package source

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/container/env"
)

// A pod's pull secrets are the Secrets of its namespace in the folder, each once.
func TestFolderPullSecrets(t *testing.T) {
	dir := t.TempDir()
	text := "{apiVersion: v1, kind: Secret, metadata: {name: one}, stringData: {a: x}}\n---\n{apiVersion: v1, kind: Secret, metadata: {name: other, namespace: prod}}\n"
	for i := range maxPullSecrets + 1 {
		text += fmt.Sprintf("---\n{apiVersion: v1, kind: Secret, metadata: {name: s%d}}\n", i)
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "s.yaml"), []byte(text), 0o600))
	f := must.Get(NewFolder(FolderConfig{Path: dir, NodeName: "n"}))(t)
	must.Do(t, f.scan(always))
	f.snapshot(nil)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}}
	for _, name := range []string{"one", "", "one", "other"} {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: name})
	}
	secrets, err := f.PullSecrets(t.Context(), pod)
	if len(secrets) != 1 || secrets[0].Name != "one" || err == nil || !strings.Contains(err.Error(), "Secret default/other is not in "+dir) {
		t.Errorf("got %d secrets, %v", len(secrets), err)
	}
	pod.Spec.ImagePullSecrets = nil
	for i := range maxPullSecrets + 1 {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: fmt.Sprint("s", i)})
	}
	if _, err := f.PullSecrets(t.Context(), pod); err == nil || env.Unavailable(err) || !strings.Contains(err.Error(), "more than 256 secrets") {
		t.Errorf("too many secrets: %v", err)
	}
}
