//go:build !linux

package main

import (
	"context"

	"github.com/podsync/podsync/runtime/websocket"
)

// terminal does nothing: agents run on Linux.
func (l *invocation) terminal(context.Context, *websocket.Conn) (undo func()) { return func() {} }
