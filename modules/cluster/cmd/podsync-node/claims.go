package main

import (
	"context"
	"path/filepath"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/podsync/podsync/modules/dra"
)

// claims gets ResourceClaims of the API server. A node may get those of its pods, but not list them.
type claims struct{ kube kubernetes.Interface }

func (c claims) ResourceClaim(ctx context.Context, namespace, name string) (*resourcev1.ResourceClaim, error) {
	return c.kube.ResourceV1().ResourceClaims(namespace).Get(ctx, name, metav1.GetOptions{})
}

// claimsOf creates the manager that prepares ResourceClaims. Drivers register below the root directory, as with a kubelet.
func (a *agent) claimsOf(p *parts) (*dra.Manager, error) {
	return dra.New(dra.Config{State: filepath.Join(a.root, "dra"), Root: a.root, Claims: claims{a.kube}, Devices: p.devices, Log: a.log})
}

// serveDrivers serves drivers of ResourceClaims until ctx ends.
func (a *agent) serveDrivers(ctx context.Context, p *parts) error {
	a.retry(ctx, "No ResourceClaims are prepared", p.claims.Run)
	return nil
}
