// Package podref names pods and their containers in events, log lines and errors. [Describe] is a kubelet's format.Pod, and
// [Container] its GenerateContainerRef.
//
// All functions are pure and accept a nil pod: a pod whose spec is not known has no name, and no events are about it.
package podref

import (
	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
)

// Name returns a pod's namespace and name, such as "default/web", and "" for a nil pod.
func Name(pod *v1.Pod) string {
	if pod == nil {
		return ""
	}
	return pod.Namespace + "/" + pod.Name
}

// Describe returns a pod in the form of a kubelet's messages, such as "web_default(uid)", and "<nil>" for a nil pod.
func Describe(pod *v1.Pod) string {
	if pod == nil {
		return "<nil>"
	}
	return pod.Name + "_" + pod.Namespace + "(" + string(pod.UID) + ")"
}

// Log returns the logger for lines about a pod. If the pod is nil, its spec is unknown, and the lines name no
// pod.
func Log(log logr.Logger, pod *v1.Pod) logr.Logger {
	if pod == nil {
		return log
	}
	return log.WithValues("pod", Name(pod), "podUID", pod.UID)
}

// Pod returns the involved object of events about a pod, nil for a nil pod.
func Pod(pod *v1.Pod) *v1.ObjectReference {
	if pod == nil {
		return nil
	}
	return &v1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion}
}

// Container returns the involved object of events about a container in the pod: the pod, with
// the container as its field path, such as "spec.initContainers{migrate}". It is nil for a nil pod.
func Container(pod *v1.Pod, ref actions.ContainerRef) *v1.ObjectReference {
	about := Pod(pod)
	if about == nil {
		return nil
	}
	about.FieldPath = "spec." + ref.Kind.List() + "{" + ref.Name + "}"
	return about
}

// ContainerNamed returns the same for a container by its name. A container that is missing in
// the spec is named as a regular container.
func ContainerNamed(pod *v1.Pod, name string) *v1.ObjectReference {
	if pod == nil {
		return nil
	}
	ref, found := actions.FindContainer(pod, name)
	if !found {
		ref = actions.ContainerRef{Kind: actions.RegularContainer, Name: name}
	}
	return Container(pod, ref)
}
