package dra

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/device"
)

const (
	// callTimeout is the timeout of a call to a driver, as in a kubelet.
	callTimeout = 45 * time.Second
	// claimTimeout is the timeout for getting the claims of a pod.
	claimTimeout = 10 * time.Second
	// lockTimeout is how long a pod waits for calls for other pods with the same claims.
	lockTimeout = time.Minute
)

// Claims gets ResourceClaims.
type Claims interface {
	// ResourceClaim returns a claim, which is not modified. It is called before a claim is prepared, and must return when ctx ends.
	ResourceClaim(ctx context.Context, namespace, name string) (*resourcev1.ResourceClaim, error)
}

// StaticClaims are claims that do not change.
type StaticClaims []*resourcev1.ResourceClaim

// ResourceClaim returns the first claim with the namespace and name.
func (s StaticClaims) ResourceClaim(_ context.Context, namespace, name string) (*resourcev1.ResourceClaim, error) {
	for _, claim := range s {
		if claim.Namespace == namespace && claim.Name == name {
			return claim, nil
		}
	}
	return nil, fmt.Errorf("there is no claim %s/%s", namespace, name)
}

// Config configures a Manager.
type Config struct {
	// State is an absolute path of a directory for a file of each claim. It is created when it is needed. Required.
	State string
	// Root is an absolute path of a directory. Drivers register by sockets in its directory plugins_registry, and serve below
	// Root. All paths are those of a kubelet with that root directory. Required.
	Root string
	// Claims gets claims. Required.
	Claims Claims
	// Devices allocates further devices, such as those of device plugins. A container gets both. Default: none.
	Devices syncpod.Devices
	// Log receives a line for each driver that registers or leaves, and for errors of drivers. Default: no log.
	Log logr.Logger
}

// New returns a Manager with the records of earlier agents. It writes nothing yet.
func New(c Config) (*Manager, error) {
	for _, f := range []struct{ name, value string }{{"State", c.State}, {"Root", c.Root}} {
		if !filepath.IsAbs(f.value) {
			return nil, fmt.Errorf("dra: Config.%s is %q, want an absolute path", f.name, f.value)
		}
	}
	if c.Claims == nil {
		return nil, errors.New("dra: Config.Claims is missing")
	}
	if c.Devices == nil {
		c.Devices = none{}
	}
	m := &Manager{config: c, boot: bootID(), callTimeout: callTimeout, claims: map[types.UID]*claim{}, drivers: map[string][]*driver{}, notify: func(types.UID) {}}
	records, errs, err := readRecords(c.State)
	if err != nil {
		return nil, fmt.Errorf("dra: Config.State: %w", err)
	}
	for _, err := range errs {
		c.Log.Error(err, "a claim may stay prepared for ever")
	}
	for _, r := range records {
		m.claims[r.UID] = &claim{busy: make(chan struct{}, 1), record: r.inBoot(m.boot)}
	}
	return m, nil
}

// none is no further device.
type none struct{}

func (none) Allocate(context.Context, *v1.Pod, *v1.Container) (device.Allocation, error) {
	return device.Allocation{}, nil
}
func (none) Choose(context.Context, *v1.Pod, *v1.Container) error { return nil }
func (none) Devices(*v1.Pod) map[string][]v1.ResourceStatus       { return nil }
func (none) KeptPods() ([]types.UID, error)                       { return nil, nil }
func (none) Notify(func(types.UID))                               {}
func (none) RemovePod(context.Context, types.UID) error           { return nil }
