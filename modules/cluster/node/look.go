package node

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// downAfter is how long the last response of the runtime stays valid: a restart of the runtime
	// is shorter, and does not make the node unready.
	downAfter = 30 * time.Second
	// statusInterval is the longest pause between two calls of Status.
	statusInterval = 5 * time.Second
	// callTimeout is the timeout of a call to the runtime.
	callTimeout = 2 * time.Minute
)

// A look is the last known state of the runtime.
type look struct {
	// status is the last response to Status, nil if there was none; answered is the time of that
	// response, err the error of the last call.
	status   *runtimeapi.StatusResponse
	answered time.Time
	err      error
	// version is the runtime's version, images are its largest images.
	version string
	images  []v1.ContainerImage
}

// notReady returns why the runtime cannot run pods, "" if it can. A response stays valid for
// downAfter, even if later calls fail or hang. The text is stable while the reason is the same.
func (l look) notReady(now time.Time) string {
	switch {
	case l.status == nil && l.err != nil:
		return "container runtime is down: " + l.err.Error()
	case l.status == nil:
		return "container runtime is down: it has not answered yet"
	case now.Sub(l.answered) <= downAfter:
		return notReady(l.status)
	case l.err != nil:
		return "container runtime is down: " + l.err.Error()
	}
	return "container runtime is down: no answer since " + l.answered.UTC().Format(time.RFC3339)
}

// notReady returns which of the runtime's conditions prevents it from running pods, "" if none
// does.
func notReady(status *runtimeapi.StatusResponse) string {
	ready := map[string]bool{}
	for _, c := range status.GetStatus().GetConditions() {
		ready[c.Type] = c.Status
		if !c.Status && (c.Type == runtimeapi.RuntimeReady || c.Type == runtimeapi.NetworkReady) {
			return "container runtime: " + c.Type + " is not true: reason " + c.Reason + ": " + c.Message
		}
	}
	for _, t := range []string{runtimeapi.RuntimeReady, runtimeapi.NetworkReady} {
		if !ready[t] {
			return "container runtime does not report " + t
		}
	}
	return ""
}

// lookAtRuntime calls the runtime until ctx ends, concurrently with the heartbeat, so that a call
// that hangs does not delay reports.
func (n *Node) lookAtRuntime(ctx context.Context, parts *sync.WaitGroup) {
	first := sync.OnceFunc(func() { close(n.looked) })
	parts.Go(func() {
		repeat(ctx, min(n.config.Interval, statusInterval), func(ctx context.Context) {
			n.lookAtStatus(ctx)
			first()
		})
	})
	parts.Go(func() { repeat(ctx, n.config.Interval, n.lookAtImages) })
}

// awaitLook waits for the first result of the runtime, for downAfter at most, so that a restart of
// the agent does not make a node with a slow runtime unready.
func (n *Node) awaitLook(ctx context.Context) {
	select {
	case <-n.looked:
	case <-time.After(downAfter):
	case <-ctx.Done():
	}
}

func repeat(ctx context.Context, interval time.Duration, f func(context.Context)) {
	for {
		f(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
	}
}

// lookAtStatus asks the runtime how it is. A node that becomes ready, or unready, is reported at
// once.
func (n *Node) lookAtStatus(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	status, err := n.config.Runtime.Status(ctx, &runtimeapi.StatusRequest{})
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.look.notReady(time.Now())
	if n.look.err = err; err == nil {
		n.look.status, n.look.answered = status, time.Now()
	}
	if n.look.notReady(time.Now()) != before {
		n.Report()
	}
}

// lookAtImages asks the runtime for its version and its images.
func (n *Node) lookAtImages(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	version, versionErr := n.config.Runtime.Version(ctx, &runtimeapi.VersionRequest{})
	list, imagesErr := n.config.Runtime.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	n.mu.Lock()
	defer n.mu.Unlock()
	first := n.look.version == ""
	if versionErr == nil {
		n.look.version = version.RuntimeName + "://" + version.RuntimeVersion
	}
	if imagesErr == nil {
		n.look.images = largest(list.Images, *n.config.MaxImages)
	}
	if first && n.look.version != "" {
		n.Report()
	}
}

// largest returns the images, the largest first: at most as many as most, and all of them if most is negative.
func largest(list []*runtimeapi.Image, most int) (images []v1.ContainerImage) {
	for _, image := range list {
		names := slices.Concat(image.RepoDigests, image.RepoTags)
		images = append(images, v1.ContainerImage{Names: names[:min(len(names), maxImageNames)], SizeBytes: int64(image.Size)})
	}
	slices.SortStableFunc(images, func(a, b v1.ContainerImage) int {
		return cmp.Or(cmp.Compare(b.SizeBytes, a.SizeBytes), slices.Compare(a.Names, b.Names))
	})
	if most >= 0 {
		images = images[:min(len(images), most)]
	}
	return images
}
