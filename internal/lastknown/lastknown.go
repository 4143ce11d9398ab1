// Package lastknown decides whether a container may start with the inputs that the node still has. A source, an API server, a
// registry, a credential plugin or a volume that is unavailable neither stops nor delays the restart of a container whose
// inputs have not changed. [Suffices] is the rule, and [Answers] remembers a source's answers.
package lastknown

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/syncpod/container/env"
)

// An Input is a kind of input of a container that the node still has.
type Input int

const (
	// Answer is a source answer, such as a ConfigMap of a variable, or its absence. It counts until the source has
	// another one: a source that reports that an object was deleted is available.
	Answer Input = iota
	// Made was made on the node for the pod: a volume's files, a mount, a sandbox, a cgroup. No answer from a source takes
	// it away.
	Made
)

// Patience is how long a start waits for news of an input that the node has.
const Patience = 2 * time.Second

// Suffices reports whether a container may start with an input that the node has, although err prevented a newer one. It may
// not after ctx, the start's context, has ended.
func Suffices(ctx context.Context, has Input, err error) bool {
	return ctx.Err() == nil && (has == Made || Unavailable(err))
}

// Unavailable reports whether an error from a source says nothing about the object: the server cannot be reached, does not
// work, or cannot authenticate the caller, for example after the client certificate of the node has expired. Any other API
// status is the server's answer.
func Unavailable(err error) bool {
	var status interface{ Status() metav1.Status }
	if err == nil || env.NotFound(err) {
		return false
	}
	if !errors.As(err, &status) {
		return true
	}
	switch s := status.Status(); s.Reason {
	case metav1.StatusReasonInternalError, metav1.StatusReasonServerTimeout, metav1.StatusReasonServiceUnavailable,
		metav1.StatusReasonTimeout, metav1.StatusReasonTooManyRequests, metav1.StatusReasonUnauthorized:
		return true
	default:
		return s.Code >= 500
	}
}
