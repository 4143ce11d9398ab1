//go:build !linux

package main

import (
	"context"

	"github.com/podsync/podsync/internal/base/websocket"
)

// terminal leaves the console as it is: agents run on Linux.
func (l *looking) terminal(context.Context, *websocket.Conn) (undo func()) { return func() {} }
