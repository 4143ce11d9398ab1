package systemd

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	units "github.com/coreos/go-systemd/v22/dbus"
	"github.com/go-logr/logr"
	"github.com/godbus/dbus/v5"

	"github.com/podsync/podsync/syncpod/cgroup"
)

// Config configures a Systemd. The zero Config uses the system bus and the cgroups at /sys/fs/cgroup.
type Config struct {
	// Address is the bus's address, such as "unix:path=/run/dbus/system_bus_socket". Default: the system bus.
	Address string
	// Version is the version of the kernel's interface to cgroups. Default: that of /sys/fs/cgroup.
	Version cgroup.Version
	// Timeout bounds the connection to the bus, each call, and each job of systemd. Default 30 s.
	Timeout time.Duration
	// Log receives a line for each slice that is created or removed, and for each step of a shutdown. Default: no log.
	Log logr.Logger
}

// A Systemd creates slices and delays shutdowns. Its methods may be called concurrently.
type Systemd struct {
	config Config

	mu sync.Mutex
	// conn is the connection to the unit manager, nil before the first call.
	conn *units.Conn
}

// New returns a Systemd. It connects when it is first used, and again after a bus restart.
func New(c Config) (*Systemd, error) {
	switch {
	case c.Version != 0 && c.Version != cgroup.V1 && c.Version != cgroup.V2:
		return nil, fmt.Errorf("systemd: Config.Version is %d, want 1 or 2", c.Version)
	case c.Timeout < 0:
		return nil, fmt.Errorf("systemd: Config.Timeout is %v, want 0 or more", c.Timeout)
	}
	c.Timeout = cmp.Or(c.Timeout, 30*time.Second)
	if c.Version == 0 {
		c.Version = cgroup.V1
		if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
			c.Version = cgroup.V2
		}
	}
	return &Systemd{config: c}, nil
}

// Close closes the connection to the unit manager. A later call connects again.
func (s *Systemd) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
}

// manager returns the connection to the unit manager.
func (s *Systemd) manager(ctx context.Context) (*units.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil && s.conn.Connected() {
		return s.conn, nil
	}
	if s.conn != nil {
		s.conn.Close()
	}
	s.conn = nil
	conn, err := s.newManager(ctx)
	if err == nil {
		s.conn = conn
	}
	return conn, err
}

// newManager connects to the unit manager. NewConnection subscribes to signals without a context, so newManager
// closes the connections when ctx ends, which ends that call.
func (s *Systemd) newManager(ctx context.Context) (*units.Conn, error) {
	var pending []func() bool // each function keeps its connection open after ctx ends, and reports whether it was called in time
	conn, err := units.NewConnection(func() (*dbus.Conn, error) {
		c, err := s.dial(ctx, "org.freedesktop.systemd1")
		if err == nil {
			pending = append(pending, context.AfterFunc(ctx, func() { c.Close() }))
		}
		return c, err
	})
	open := true
	for _, stop := range pending {
		open = stop() && open
	}
	if err == nil && !open {
		conn.Close()
		err = fmt.Errorf("systemd: connection to D-Bus: %w", context.Cause(ctx))
	}
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// dial connects to the bus, for the calls and signals of a name's owner. ctx bounds only the handshake: the
// connection outlives it.
func (s *Systemd) dial(ctx context.Context, name string) (*dbus.Conn, error) {
	life, end := context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, end)
	own := newSignals(name)
	conn, err := s.connect(dbus.WithContext(life), dbus.WithSignalHandler(own))
	if err == nil {
		if err = own.follow(ctx, conn); err != nil {
			conn.Close()
		}
	}
	if err == nil && !stop() {
		conn.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		end()
		return nil, fmt.Errorf("systemd: connection to D-Bus: %w", err)
	}
	context.AfterFunc(conn.Context(), end)
	return conn, nil
}

func (s *Systemd) connect(options ...dbus.ConnOption) (conn *dbus.Conn, err error) {
	if s.config.Address == "" {
		conn, err = dbus.SystemBusPrivate(options...)
	} else {
		conn, err = dbus.Dial(s.config.Address, options...)
	}
	if err != nil {
		return nil, err
	}
	// The user's number is enough: only the C library could find the name.
	if err = conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Getuid()))}); err == nil {
		err = conn.Hello()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}
