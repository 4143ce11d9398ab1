package node

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// A leaseClient calls renewed after each successful update to a lease, because the lease controller of client-go reports
// only failures.
type leaseClient struct {
	kubernetes.Interface
	renewed func()
}

func (c leaseClient) CoordinationV1() coordinationclient.CoordinationV1Interface {
	return coordination{c.Interface.CoordinationV1(), c.renewed}
}

type coordination struct {
	coordinationclient.CoordinationV1Interface
	renewed func()
}

func (c coordination) Leases(namespace string) coordinationclient.LeaseInterface {
	return leases{c.CoordinationV1Interface.Leases(namespace), c.renewed}
}

type leases struct {
	coordinationclient.LeaseInterface
	renewed func()
}

func (l leases) Update(ctx context.Context, lease *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	updated, err := l.LeaseInterface.Update(ctx, lease, o)
	if err == nil {
		l.renewed()
	}
	return updated, err
}
