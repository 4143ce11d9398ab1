package main

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/runtime/pleg"
	"github.com/podsync/podsync/syncpod"
)

// workers counts the work on pods.
type workers struct {
	podworkers.NopObserver
	*metrics
}

func (o workers) SyncEnded(w podworkers.Work, took time.Duration, err error) {
	o.observe("podsync_work", took, "type", w.Type.String(), "outcome", outcome(err))
}

func (o workers) SyncAbandoned(w podworkers.Work) {
	o.add("podsync_work_abandoned_total", 1, "type", w.Type.String())
}

// containers counts sandboxes and containers, and measures how long a pod takes to run.
type containers struct {
	syncpod.NopObserver
	*metrics
}

func (o containers) PodRunning(_ *v1.Pod, took time.Duration) { o.observe("podsync_pod_start", took) }

func (o containers) SandboxCreated(_ *v1.Pod, took time.Duration, err error) {
	o.observe("podsync_sandbox_create", took, "outcome", outcome(err))
}

func (o containers) ContainerStarted(_ *v1.Pod, _ actions.ContainerRef, took time.Duration, err error) {
	o.observe("podsync_container_start", took, "outcome", outcome(err))
}

func (o containers) ContainerStopped(_ *v1.Pod, _ string, took time.Duration, err error) {
	o.observe("podsync_container_stop", took, "outcome", outcome(err))
}

// watcher counts the runtime's inspections.
type watcher struct {
	pleg.NopObserver
	*metrics
}

func (o watcher) Listed(_ int, took time.Duration, err error) {
	o.observe("podsync_list", took, "outcome", outcome(err))
}

func (o watcher) Inspected(_ types.UID, took time.Duration, err error) {
	o.observe("podsync_look", took, "outcome", outcome(err))
}

func (o watcher) Streaming(on bool) {
	if !on {
		o.add("podsync_event_streams_lost_total", 1)
	}
}

// pulls counts image pulls, and the time that they waited in the queue.
type pulls struct {
	image.NopObserver
	*metrics
}

func (o pulls) PullFinished(p image.Pull, took time.Duration, err error) {
	o.observe("podsync_image_pull", took, "outcome", outcome(err))
	o.observe("podsync_image_pull_wait", p.Waited)
}
