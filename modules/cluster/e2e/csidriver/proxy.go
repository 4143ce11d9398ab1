//go:build linux

package main

import (
	"context"
	"errors"
	"io"
	"net"
)

// forward connects each client of a socket to a connection that the tests' process has opened in advance.
func forward(ctx context.Context, clients net.Listener, address string) error {
	drivers, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = errors.Join(clients.Close(), drivers.Close()) })
	for {
		client, err := clients.Accept()
		if err != nil {
			return err
		}
		driver, err := drivers.Accept()
		if err != nil {
			return err
		}
		go pipe(client, driver)
		go pipe(driver, client)
	}
}

// pipe copies from one connection to the other until either ends, and closes both.
func pipe(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = errors.Join(to.Close(), from.Close())
}
