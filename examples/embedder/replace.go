package embedder

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/volume"
)

// Own are the parts of an embedder that replace those of an agent.
type Own struct {
	Admit   func(pod *v1.Pod, active []*v1.Pod) *syncpod.Rejection
	Images  cri.ImagePuller
	Volumes volume.Plugin
	Probes  syncpod.Probes
	Report  func(ctx context.Context, pod *v1.Pod, status v1.PodStatus) error
}

// Replace puts them into the configuration of an agent, with back-offs of one's own for crashes, pulls and failed work.
func Replace(c *agent.Config, own Own) {
	c.Admission, c.Images.Runtime = loop.AdmissionFunc(own.Admit), own.Images
	c.Sync.Extensions.Volumes = own.Volumes
	c.NoProbes, c.Sync.Parts.Probes = true, own.Probes
	c.Sync.Sink = syncpod.StatusSinkFunc(own.Report)
	c.Sync.Limits.InitialBackOff, c.Sync.Limits.MaxBackOff = time.Second, 8*time.Second
	c.Images.InitialBackOff, c.Images.MaxBackOff = time.Second, 4*time.Second
	c.Workers.RetryInitial, c.Workers.RetryMax = time.Second, 2*time.Second
}
