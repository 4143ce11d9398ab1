package reader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
)

// ListedPod is one pod as in the runtime's lists: its sandboxes and containers with their states,
// but neither addresses nor exit codes. Full lists are cheap, and show whether a pod has changed.
// Reader.Inspect completes it to a status.
//
// A ListedPod is not modified after its creation.
type ListedPod struct {
	UID       types.UID
	Name      string
	Namespace string
	// ObservedAt is when the read began.
	ObservedAt time.Time

	sandboxes  []*runtimeapi.PodSandbox // newest first
	containers []*runtimeapi.Container  // newest first
}

// Changed reports whether the pod's sandboxes and containers, or their states, differ from prev. A nil prev has no
// sandbox and no container.
//
// Lists do not show changes that leave all states the same.
func (p *ListedPod) Changed(prev *runtime.PodStatus) bool {
	known := knownPod{prev}
	if sandboxes, containers := known.count(); len(p.sandboxes) != sandboxes || len(p.containers) != containers {
		return true
	}
	for _, s := range p.sandboxes {
		if k := known.sandbox(s.GetId()); k == nil || k.State != sandboxState(s.GetState()) {
			return true
		}
	}
	for _, c := range p.containers {
		if known.unchangedContainer(c) == nil {
			return true
		}
	}
	return false
}

// Running reports whether any container in the pod is running or in an unknown state, or any sandbox is ready: the pod
// must then be stopped.
func (p *ListedPod) Running() bool {
	for _, s := range p.sandboxes {
		if s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY {
			return true
		}
	}
	for _, c := range p.containers {
		if s := containerState(c.GetState()); s == runtime.ContainerRunning || s == runtime.ContainerUnknown {
			return true
		}
	}
	return false
}

// Source returns the agent's source for the pod, as its newest sandbox records it in runtime.AnnotationConfigSource.
// It returns "" if it was not recorded or the pod has no sandbox.
func (p *ListedPod) Source() string {
	if len(p.sandboxes) == 0 {
		return ""
	}
	return p.sandboxes[0].GetAnnotations()[runtime.AnnotationConfigSource]
}

// List reads all the agent's pods, ordered by their UIDs, in two calls.
func (r *Reader) List(ctx context.Context) ([]*ListedPod, error) {
	return r.list(ctx, r.owner.Selector())
}

// list groups the listed objects by pod. It lists sandboxes first: if a sandbox is removed between the two calls, its
// containers are missing as well, and an inspection shows that the sandbox no longer exists.
func (r *Reader) list(ctx context.Context, selector map[string]string) ([]*ListedPod, error) {
	pods := map[types.UID]*ListedPod{}
	began := time.Now()
	pod := func(uid, name, namespace string) *ListedPod {
		p := pods[types.UID(uid)]
		if p == nil {
			p = &ListedPod{UID: types.UID(uid), Name: name, Namespace: namespace, ObservedAt: began}
			pods[p.UID] = p
		}
		return p
	}
	sandboxes, err := r.runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{LabelSelector: selector}})
	if err != nil {
		return nil, listError("sandboxes", err)
	}
	for _, s := range sandboxes.GetItems() {
		if m := s.GetMetadata(); r.owner.Owns(s.GetLabels()) && m.GetUid() != "" {
			p := pod(m.GetUid(), m.GetName(), m.GetNamespace())
			p.sandboxes = append(p.sandboxes, s)
		}
	}
	containers, err := r.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: selector}})
	if err != nil {
		return nil, listError("containers", err)
	}
	for _, c := range containers.GetContainers() {
		if l := c.GetLabels(); r.owner.Owns(l) && l[runtime.LabelPodUID] != "" {
			p := pod(l[runtime.LabelPodUID], l[runtime.LabelPodName], l[runtime.LabelPodNamespace])
			p.containers = append(p.containers, c)
		}
	}
	return sorted(pods), nil
}

// listError adds the limit that applies to the error from a list that is too long for a
// message.
func listError(of string, err error) error {
	err = cri.Classify(err)
	if errors.Is(err, cri.ErrExhausted) {
		return fmt.Errorf("the list of %s may be longer than a message, which Config.MaxMessageBytes and the runtime bound: %w", of, err)
	}
	return err
}

// sorted sorts the pods and drops duplicates.
func sorted(pods map[types.UID]*ListedPod) []*ListedPod {
	all := make([]*ListedPod, 0, len(pods))
	for _, p := range pods {
		slices.SortStableFunc(p.sandboxes, newerSandbox)
		slices.SortStableFunc(p.containers, newerContainer)
		p.sandboxes = unique(p.sandboxes, (*runtimeapi.PodSandbox).GetId)
		p.containers = unique(p.containers, (*runtimeapi.Container).GetId)
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *ListedPod) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return all
}

func unique[T any](all []T, id func(T) string) []T {
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(e T) bool {
		repeated := seen[id(e)]
		seen[id(e)] = true
		return repeated
	})
}

// newerSandbox orders sandboxes by attempt, the highest first. Equal attempts are ordered by the clock, and then by the ID,
// so that the order is total.
func newerSandbox(a, b *runtimeapi.PodSandbox) int {
	return cmp.Or(
		cmp.Compare(b.GetMetadata().GetAttempt(), a.GetMetadata().GetAttempt()),
		cmp.Compare(b.GetCreatedAt(), a.GetCreatedAt()),
		strings.Compare(a.GetId(), b.GetId()),
	)
}

func newerContainer(a, b *runtimeapi.Container) int {
	return cmp.Or(
		cmp.Compare(attempt(b.GetAnnotations(), b.GetMetadata()), attempt(a.GetAnnotations(), a.GetMetadata())),
		cmp.Compare(b.GetCreatedAt(), a.GetCreatedAt()),
		strings.Compare(a.GetId(), b.GetId()),
	)
}
