package node

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/foreign"
)

const (
	// downAfter is how long the last response from the runtime stays valid. A runtime restart that takes less than
	// 20 s does not make the node unready: it begins up to statusInterval after that response.
	downAfter = 30 * time.Second
	// statusInterval is the longest pause between two calls to Status while the runtime is ready: an idle node makes few calls.
	statusInterval = 10 * time.Second
	// unreadyInterval is that pause while the runtime is not ready or its calls fail: the node becomes ready soon after it.
	unreadyInterval = 2 * time.Second
	// imagesInterval is the shortest pause between two reads of the images. A read begins with Status' next call: every 30 s
	// while the runtime is ready, as a kubelet's.
	imagesInterval = 25 * time.Second
	// callTimeout is a call's timeout to the runtime.
	callTimeout = 2 * time.Minute
)

// A runtimeState is the last known state of the runtime.
type runtimeState struct {
	// status is the last response to Status, nil if there was none. answered is the time of that
	// response, and err the last call's error.
	status   *runtimeapi.StatusResponse
	answered time.Time
	err      error
	// version is the runtime's version, images are its largest images.
	version string
	images  []v1.ContainerImage
}

// notReady returns why the runtime cannot run pods, "" if it can. A response stays valid for
// downAfter, even if later calls fail or hang. The text is stable while the reason is the same.
func (r runtimeState) notReady(now time.Time) string {
	switch {
	case r.status == nil && r.err != nil:
		return "container runtime is down: " + r.err.Error()
	case r.status == nil:
		return "container runtime is down: it has not answered yet"
	case now.Sub(r.answered) <= downAfter:
		return notReady(r.status)
	case r.err != nil:
		return "container runtime is down: " + r.err.Error()
	}
	return "container runtime is down: no answer since " + r.answered.UTC().Format(time.RFC3339)
}

// notReady returns the condition that prevents the runtime from running pods, "" if there is none.
func notReady(status *runtimeapi.StatusResponse) string {
	ready := map[string]bool{}
	for _, c := range status.GetStatus().GetConditions() {
		ready[c.Type] = c.Status
		if !c.Status && (c.Type == runtimeapi.RuntimeReady || c.Type == runtimeapi.NetworkReady) {
			return unmet(c)
		}
	}
	for _, t := range []string{runtimeapi.RuntimeReady, runtimeapi.NetworkReady} {
		if !ready[t] {
			return "container runtime does not report " + t
		}
	}
	return ""
}

// unmet describes a condition of the runtime that is not met.
func unmet(c *runtimeapi.RuntimeCondition) string {
	return "container runtime: " + c.Type + " is not true: reason " + foreign.Word(c.Reason) + ": " + foreign.Text(c.Message)
}

// NetworkReady returns an error if the runtime's network is not ready according to its last response. It makes no call,
// and returns nil before the first response.
func (n *Node) NetworkReady(context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.runtime.status.GetStatus().GetConditions() {
		if c.Type == runtimeapi.NetworkReady && !c.Status {
			return errors.New(unmet(c))
		}
	}
	return nil
}

// watchRuntime calls the runtime until ctx ends, concurrently with the heartbeat, so that a call
// that hangs does not delay reports. A call to Status does not wait for the images.
func (n *Node) watchRuntime(ctx context.Context) {
	first := sync.OnceFunc(func() { close(n.runtimeRead) })
	var parts sync.WaitGroup
	defer parts.Wait()
	read := make(chan struct{}, 1) // has a value when the images must be read
	read <- struct{}{}
	for {
		select {
		case <-read:
			parts.Go(func() {
				n.readImages(ctx)
				time.AfterFunc(imagesInterval, func() { read <- struct{}{} })
			})
		default:
		}
		pause := min(n.config.Interval, n.readStatus(ctx))
		first()
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// awaitRuntime waits for the runtime's first response, for downAfter at most, so that an agent restart
// does not make a node with a slow runtime unready.
func (n *Node) awaitRuntime(ctx context.Context) {
	select {
	case <-n.runtimeRead:
	case <-time.After(downAfter):
	case <-ctx.Done():
	}
}

// readStatus reads the runtime's status, and returns when to read it again. If the node becomes ready or unready, it is
// reported at once.
func (n *Node) readStatus(ctx context.Context) (pause time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	status, err := n.config.Runtime.Status(ctx, &runtimeapi.StatusRequest{})
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.runtime.notReady(time.Now())
	if n.runtime.err = err; err == nil {
		n.runtime.status, n.runtime.answered = status, time.Now()
	}
	after := n.runtime.notReady(time.Now())
	if after != before {
		n.Report()
	}
	if err != nil || after != "" {
		return unreadyInterval
	}
	return statusInterval
}

// readImages reads the version of the runtime and its images. If they have changed, they are reported at once.
func (n *Node) readImages(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	version, versionErr := n.config.Runtime.Version(ctx, &runtimeapi.VersionRequest{})
	list, imagesErr := n.config.Runtime.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	n.mu.Lock()
	defer n.mu.Unlock()
	first := n.runtime.version == ""
	if versionErr == nil {
		n.runtime.version = foreign.Word(version.GetRuntimeName() + "://" + version.GetRuntimeVersion())
	}
	before := n.runtime.images
	if imagesErr == nil {
		n.runtime.images = largest(list.GetImages(), *n.config.MaxImages)
	}
	if first && n.runtime.version != "" || !equality.Semantic.DeepEqual(before, n.runtime.images) {
		n.Report()
	}
}

// largest returns at most `most` images, the largest first, or all images if most is negative.
func largest(list []*runtimeapi.Image, most int) (images []v1.ContainerImage) {
	for _, image := range list {
		names := slices.Concat(image.GetRepoDigests(), image.GetRepoTags())
		names = names[:min(len(names), maxImageNames)]
		for i, name := range names {
			names[i] = foreign.Line(name)
		}
		images = append(images, v1.ContainerImage{Names: names, SizeBytes: int64(min(image.GetSize(), math.MaxInt64))})
	}
	slices.SortStableFunc(images, func(a, b v1.ContainerImage) int {
		return cmp.Or(cmp.Compare(b.SizeBytes, a.SizeBytes), slices.Compare(a.Names, b.Names))
	})
	if most >= 0 {
		images = images[:min(len(images), most)]
	}
	return images
}
