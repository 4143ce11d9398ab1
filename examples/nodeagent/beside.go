package main

import (
	"context"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/foreign"
	"github.com/podsync/podsync/sandbox"
)

// warnOfSharedLogs prints a warning if a pod of another agent, such as a kubelet, has its logs below -pod-logs: a kubelet
// removes the logs of pods that it does not know.
func (o options) warnOfSharedLogs(ctx context.Context, client *cri.Client, s *screen) {
	if o.runtime == memory {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	list, err := client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return // the agent reports a runtime that does not list
	}
	if name := sharesLogs(o.podLogs, o.owner, list.Items); name != "" {
		s.warning = "Warning: a kubelet may delete the logs of these pods: use another -pod-logs."
		s.say("Warning: pod %s of another agent has its logs below -pod-logs %s, too. A kubelet deletes the logs of this agent's pods there: use another folder, such as -pod-logs /var/log/%s.",
			foreign.Line(name), o.podLogs, o.owner)
	}
}

// sharesLogs returns the name of a pod of another owner that has its logs below root, "" if there is none.
func sharesLogs(root, owner string, sandboxes []*runtimeapi.PodSandbox) string {
	for _, s := range sandboxes {
		m := s.GetMetadata()
		if (cri.Owner{Name: owner}).Owns(s.GetLabels()) || m == nil {
			continue
		}
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: types.UID(m.Uid)}}
		folder, err := sandbox.BuildPodLogsDirectory(root, pod)
		if err != nil {
			continue // no pod of a kubelet has such a name
		}
		if _, err := os.Lstat(folder); err == nil {
			return m.Namespace + "/" + m.Name
		}
	}
	return ""
}
