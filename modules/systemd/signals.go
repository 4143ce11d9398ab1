package systemd

import (
	"context"
	"errors"
	"sync"

	"github.com/godbus/dbus/v5"
)

const (
	busName, nameOwnerChanged = "org.freedesktop.DBus", "NameOwnerChanged"
	nameHasNoOwner            = "org.freedesktop.DBus.Error.NameHasNoOwner"
)

// delivery queues signals for channels, in their order.
type delivery interface {
	dbus.SignalHandler
	dbus.Terminator
	AddSignal(ch chan<- *dbus.Signal)
	RemoveSignal(ch chan<- *dbus.Signal)
}

// signals delivers the signals of the process that owns a name on the bus, and drops all others. Every user of the
// system bus may send signals to the agent's connection, and the bus does not apply match rules to them: such a user
// could announce a shutdown, and so stop all pods on the node. The bus itself writes a message's sender.
type signals struct {
	delivery
	name string

	mu sync.Mutex
	// owner is the unique name of the connection that owns the name, empty if there is none. isCurrent means that the
	// bus has announced it.
	owner     string
	isCurrent bool
}

func newSignals(name string) *signals {
	return &signals{delivery: dbus.NewSequentialSignalHandler().(delivery), name: name}
}

// DeliverSignal delivers a signal.
func (s *signals) DeliverSignal(iface, member string, signal *dbus.Signal) {
	if s.isOwn(iface, member, signal) {
		s.delivery.DeliverSignal(iface, member, signal)
	}
}

// isOwn reports whether a signal comes from the name's owner. It also reads a new owner's announcements.
func (s *signals) isOwn(iface, member string, signal *dbus.Signal) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if signal.Sender != busName {
		return s.owner != "" && signal.Sender == s.owner
	}
	var name, before, now string
	if iface == busName && member == nameOwnerChanged && dbus.Store(signal.Body, &name, &before, &now) == nil && name == s.name {
		s.owner, s.isCurrent = now, true
	}
	return false
}

// follow finds the name's owner, and subscribes to its changes. A service that the bus starts when it is first called has
// no owner yet.
func (s *signals) follow(ctx context.Context, conn *dbus.Conn) error {
	err := conn.AddMatchSignalContext(ctx, dbus.WithMatchSender(busName), dbus.WithMatchInterface(busName), dbus.WithMatchMember(nameOwnerChanged), dbus.WithMatchArg(0, s.name))
	if err != nil {
		return err
	}
	var owner string
	err = conn.BusObject().CallWithContext(ctx, busName+".GetNameOwner", 0, s.name).Store(&owner)
	if err != nil && !isError(err, nameHasNoOwner) {
		return errors.Join(errors.New("owner of "+s.name), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isCurrent { // an announcement is newer than the answer
		s.owner = owner
	}
	return nil
}
