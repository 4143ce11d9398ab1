package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/podsync/podsync/runtime/stats"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/server"
)

// lookedInto serves those who look into the agent until ctx ends, if they may.
func lookedInto(ctx context.Context, o options, agent *loop.Loop, conn *connection) error {
	if o.serve == "" {
		<-ctx.Done()
		return nil
	}
	figures, err := stats.New(stats.Config{Runtime: conn, Dir: o.root})
	if err != nil {
		return err
	}
	s, err := server.New(server.Config{Agent: agent, Runtime: conn, Stats: figures, NodeName: o.node, StreamTransport: conn.streams})
	if err != nil {
		return err
	}
	if err := s.ServeUnix(ctx, strings.TrimPrefix(o.serve, "unix://")); err != nil {
		return &failure{exitUsage, "Give -serve a path at which a socket can be made.", fmt.Errorf("-serve %s: %w", o.serve, err)}
	}
	return nil
}
