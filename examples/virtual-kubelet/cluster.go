package main

import (
	"context"
	"errors"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"

	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/container/env"
)

// A cluster reads the objects that pods refer to from the API server.
type cluster struct {
	kube       kubernetes.Interface
	configMaps listers.ConfigMapLister
	secrets    listers.SecretLister
	services   listers.ServiceLister
}

// supply sets these objects' sources in a configuration.
func (c cluster) supply(config *syncpod.Config) {
	config.Objects.Sources = env.Sources{ConfigMaps: c, Secrets: c, Services: c}
	config.Objects.PullSecrets = c
	config.Objects.Tokens = c
}

// ConfigMap implements env.ConfigMaps.
func (c cluster) ConfigMap(_ context.Context, namespace, name string) (*v1.ConfigMap, error) {
	return c.configMaps.ConfigMaps(namespace).Get(name)
}

// Secret implements env.Secrets.
func (c cluster) Secret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	return c.secrets.Secrets(namespace).Get(name)
}

// Services implements env.Services.
func (c cluster) Services(_ context.Context, namespace string) ([]*v1.Service, error) {
	return c.services.Services(namespace).List(labels.Everything())
}

// PullSecrets implements syncpod.PullSecrets.
func (c cluster) PullSecrets(_ context.Context, pod *v1.Pod) ([]v1.Secret, error) {
	var secrets []v1.Secret
	var errs []error
	for _, ref := range pod.Spec.ImagePullSecrets {
		secret, err := c.secrets.Secrets(pod.Namespace).Get(ref.Name)
		if err == nil {
			secrets = append(secrets, *secret)
		}
		errs = append(errs, err)
	}
	return secrets, errors.Join(errs...)
}

// Token implements volume.Tokens.
func (c cluster) Token(ctx context.Context, pod *v1.Pod, ask *v1.ServiceAccountTokenProjection) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: ask.ExpirationSeconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if ask.Audience != "" {
		request.Spec.Audiences = []string{ask.Audience}
	}
	answer, err := c.kube.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return answer.Status.Token, nil
}
