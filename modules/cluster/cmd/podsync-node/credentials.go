package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/credentialprovider"
)

// accounts reads service accounts. A node may read only the service accounts of its pods.
type accounts struct{ kube kubernetes.Interface }

// ServiceAccount reads a service account from the API server.
func (a accounts) ServiceAccount(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error) {
	return a.kube.CoreV1().ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{})
}

// withPlugins adds the credentials of credential plugins to the pull secrets if the flags name plugins.
func (a *agent) withPlugins(objects syncpod.Objects) (syncpod.Objects, error) {
	if a.credentialConfig == "" && a.credentialDir == "" {
		return objects, nil
	}
	if a.credentialConfig == "" || a.credentialDir == "" {
		return objects, errors.New("of --image-credential-provider-config and --image-credential-provider-bin-dir one is missing")
	}
	dir, err := filepath.Abs(a.credentialDir)
	if err != nil {
		return objects, fmt.Errorf("--image-credential-provider-bin-dir: %w", err)
	}
	objects.PullSecrets, err = credentialprovider.New(credentialprovider.Config{
		File: a.credentialConfig, BinDir: dir, Secrets: objects.PullSecrets, Env: os.Environ(), Tokens: objects.Tokens, ServiceAccounts: accounts{a.kube},
	})
	if err != nil {
		return objects, fmt.Errorf("--image-credential-provider-config: %w", err)
	}
	return objects, nil
}
