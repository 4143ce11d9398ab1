// Package lastknown decides whether a container may start with the inputs that the node still has. A source, an API server, a
// registry, a credential plugin or a volume that is unavailable neither stops nor delays the restart of a container whose
// inputs have not changed. [Suffices] is the rule, and [Answers] remembers a source's answers.
package lastknown

import (
	"context"
	"time"

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
	return ctx.Err() == nil && (has == Made || env.Unavailable(err))
}
