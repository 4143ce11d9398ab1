package main

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/modules/cluster/volumes"
	"github.com/podsync/podsync/modules/csi"
)

// volumesOf creates the manager that mounts the volumes of claims and CSI drivers. Drivers register below the root
// directory, as with a kubelet.
func (a *agent) volumesOf(p *parts) (err error) {
	p.volumes, err = volumes.New(volumes.Config{
		Kube: a.kube, NodeName: a.name, Secrets: p.objects, Log: a.log,
		Node:   func() *v1.Node { return p.node.Object() },
		Report: func() { p.node.Report() },
	})
	if err != nil {
		return err
	}
	p.csi, err = csi.New(csi.Config{
		Root: a.root, Node: a.name, Objects: p.volumes.Objects(), Registered: p.volumes.Registered, Expansions: p.volumes, Log: a.log,
	})
	return err
}

// volumesInUse returns the volumes that must not be detached from the node.
func (p *parts) volumesInUse() (all []v1.UniqueVolumeName) {
	for _, id := range p.csi.InUse() {
		all = append(all, v1.UniqueVolumeName(id))
	}
	return all
}

// mountVolumes serves CSI drivers, and mounts and unmounts volumes until ctx ends.
func (a *agent) mountVolumes(ctx context.Context, p *parts) error {
	a.retry(ctx, "No volumes are mounted", p.csi.Run)
	return nil
}

// keepVolumes updates the API volume objects until ctx ends, once the node is registered.
func (p *parts) keepVolumes(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-p.node.Registered():
		p.volumes.Run(ctx)
	}
}
