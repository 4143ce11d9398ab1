package mirrors

import (
	"context"

	"github.com/podsync/podsync/syncpod/source"
)

// Source returns a source of the same static pods, which get mirrors when a Loop is told
// of them.
func (m *Mirrors) Source(static source.Source) source.Source { return mirrored{static, m} }

type mirrored struct {
	source.Source
	mirrors *Mirrors
}

func (s mirrored) Run(ctx context.Context, deliver func(source.Snapshot)) error {
	return s.Source.Run(ctx, func(snapshot source.Snapshot) {
		s.mirrors.want(snapshot)
		deliver(snapshot)
	})
}
