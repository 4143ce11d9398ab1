package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod"
)

type ownSecrets struct{}

func (ownSecrets) PullSecrets(context.Context, *v1.Pod) ([]v1.Secret, error) {
	return []v1.Secret{{}}, nil
}

// The agent calls the plugins that the flags name, in addition to a pod's pull secrets. It rejects one of the two
// flags without the other.
func TestCredentialProviders(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "providers.yaml")
	for path, text := range map[string]string{
		file: "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n" +
			"- {name: ecr, matchImages: ['*.amazonaws.com'], defaultCacheDuration: 1h, apiVersion: credentialprovider.kubelet.k8s.io/v1}\n",
		filepath.Join(dir, "ecr"): "#!/bin/sh\ncat > /dev/null\n" +
			`echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Global","auth":{"*.amazonaws.com":{"username":"AWS","password":"p"}}}'`,
	} {
		must.Do(t, os.WriteFile(path, []byte(text), 0o700))
	}
	objects := syncpod.Objects{PullSecrets: ownSecrets{}}
	for _, tt := range []struct {
		file, dir, err string
		secrets        int
	}{{"", "", "", 1}, {file, dir, "", 2}, {file, "", "bin-dir one is missing", 0}, {"", dir, "one is missing", 0}, {"/nonexistent", dir, "--image-credential-provider-config", 0}} {
		a := &agent{kube: fake.NewClientset()}
		a.credentialConfig, a.credentialDir = tt.file, tt.dir
		got, err := a.withPlugins(objects)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%+v: %v", tt, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Image: "1.amazonaws.com/app"}}}}
		if secrets, err := got.PullSecrets.PullSecrets(t.Context(), pod); err != nil || len(secrets) != tt.secrets {
			t.Errorf("%+v: %d secrets, %v", tt, len(secrets), err)
		}
	}
}
