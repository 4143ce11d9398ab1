package systemd_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/godbus/dbus/v5"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A bus is a D-Bus daemon, systemd and logind in one: it speaks the wire protocol, answers calls from a script and
// records them.
type bus struct {
	*testing.T
	listener *net.UnixListener

	mu    sync.Mutex
	peers []*peer
	calls []string
	// units are the properties of units. results are the results of the next jobs, in place of "done".
	units   map[string]map[string]any
	results []string
	// delayMax is the limit of logind in microseconds. onHangup returns the limit that logind reads after a SIGHUP.
	delayMax uint64
	onHangup func() uint64
	// locks receives the bus's end of each lock: a read from it returns once the client has closed its own end.
	locks chan *os.File
	jobs  int
	// logind is the connection of logind, empty while it does not run. forgesJobs means that a peer announces the success
	// of each job before systemd announces its result.
	logind     string
	forgesJobs bool
	// silent is the name of calls that the bus does not answer.
	silent string
}

type peer struct {
	bus    *bus
	conn   *net.UnixConn
	name   string
	serial uint32
}

func newBus(t *testing.T) *bus {
	t.Helper()
	l := must.Get(net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(t.TempDir(), "bus")}))(t)
	b := &bus{T: t, listener: l, units: map[string]map[string]any{}, delayMax: 5_000_000, logind: ":1.logind", locks: make(chan *os.File, 8)}
	go b.accept()
	t.Cleanup(func() { l.Close(); b.drop() })
	return b
}

func (b *bus) address() string { return "unix:path=" + b.listener.Addr().String() }

func (b *bus) accept() {
	for {
		conn, err := b.listener.AcceptUnix()
		if err != nil {
			return
		}
		b.mu.Lock()
		p := &peer{bus: b, conn: conn, name: fmt.Sprintf(":1.%d", len(b.peers))}
		b.peers = append(b.peers, p)
		b.mu.Unlock()
		go p.serve()
	}
}

// drop closes all connections, as a restart of the daemon does.
func (b *bus) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.peers {
		p.conn.Close()
	}
}

// called returns the calls that begin with prefix.
func (b *bus) called(prefix string) (calls []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.calls {
		if strings.HasPrefix(c, prefix) {
			calls = append(calls, c)
		}
	}
	return calls
}

func (p *peer) serve() {
	defer p.conn.Close()
	in := bufio.NewReader(p.conn)
	if _, err := in.ReadByte(); err != nil { // the handshake begins with a NUL
		return
	}
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		answer := ""
		switch words := strings.Fields(line); words[0] {
		case "AUTH":
			answer = "REJECTED EXTERNAL\r\n"
			if len(words) > 1 {
				answer = "OK 1234567890abcdef1234567890abcdef\r\n"
			}
		case "NEGOTIATE_UNIX_FD":
			answer = "AGREE_UNIX_FD\r\n"
		case "BEGIN":
			p.messages(in)
			return
		}
		if _, err := p.conn.Write([]byte(answer)); err != nil {
			return
		}
	}
}

func (p *peer) messages(in *bufio.Reader) {
	for {
		m, err := dbus.DecodeMessage(in)
		if err != nil {
			return
		}
		if m.Type == dbus.TypeMethodCall {
			p.bus.answer(p, m)
		}
	}
}

// send sends a message. Callers hold the lock of the bus.
func (p *peer) send(kind dbus.Type, headers map[dbus.HeaderField]dbus.Variant, body ...any) {
	p.serial++
	if _, set := headers[dbus.FieldSender]; !set {
		headers[dbus.FieldSender] = dbus.MakeVariant("org.freedesktop.DBus")
	}
	m := &dbus.Message{Type: kind, Headers: headers, Body: body}
	if len(body) > 0 {
		headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(body...))
	}
	var buf bytes.Buffer
	n, err := m.CountFds()
	if err != nil {
		p.bus.Error(err)
	}
	if n > 0 {
		headers[dbus.FieldUnixFDs] = dbus.MakeVariant(uint32(n))
	}
	fds, err := m.EncodeToWithFDs(&buf, binary.LittleEndian)
	if err != nil {
		p.bus.Error(err)
		return
	}
	binary.LittleEndian.PutUint32(buf.Bytes()[8:], p.serial)
	_, _, _ = p.conn.WriteMsgUnix(buf.Bytes(), syscall.UnixRights(fds...), nil) // the peer may have disconnected
}

func (b *bus) answer(p *peer, m *dbus.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	member, _ := m.Headers[dbus.FieldMember].Value().(string)
	b.calls = append(b.calls, strings.TrimSpace(member+" "+describe(m.Body)))
	if member == b.silent {
		return
	}
	headers := map[dbus.HeaderField]dbus.Variant{dbus.FieldReplySerial: dbus.MakeVariant(m.Serial()), dbus.FieldDestination: dbus.MakeVariant(p.name)}
	body, failure := b.result(p, member, m.Body)
	if failure != "" {
		headers[dbus.FieldErrorName] = dbus.MakeVariant(failure)
		p.send(dbus.TypeError, headers, "as the script says")
		return
	}
	p.send(dbus.TypeMethodReply, headers, body...)
	if member == "Inhibit" {
		syscall.Close(int(body[0].(dbus.UnixFD)))
	}
	if member == "StartTransientUnit" || member == "StopUnit" {
		result := "done"
		if len(b.results) > 0 {
			result, b.results = b.results[0], b.results[1:]
		}
		if b.forgesJobs {
			b.signal(":1.99", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager", "JobRemoved", uint32(b.jobs), body[0], m.Body[0], "done")
		}
		b.signal(":1.systemd", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager", "JobRemoved", uint32(b.jobs), body[0], m.Body[0], result)
	}
}

// describe prints arguments, and sorts properties by name.
func describe(body []any) string {
	var words []string
	for _, v := range body {
		if all, ok := v.([][]any); ok {
			var properties []string
			for _, p := range all {
				if len(p) == 2 {
					properties = append(properties, fmt.Sprintf("%v=%v", p[0], p[1].(dbus.Variant).Value()))
				}
			}
			slices.Sort(properties)
			words = append(words, properties...)
			continue
		}
		words = append(words, fmt.Sprint(v))
	}
	return strings.Join(words, " ")
}

func (b *bus) result(p *peer, member string, body []any) (answer []any, failure string) {
	switch member {
	case "Hello":
		return []any{p.name}, ""
	case "StartTransientUnit":
		name := body[0].(string)
		if _, there := b.units[name]; there {
			return nil, "org.freedesktop.systemd1.UnitExists"
		}
		b.units[name] = map[string]any{}
		b.set(name, body[2].([][]any))
	case "SetUnitProperties":
		b.set(body[0].(string), body[2].([][]any))
		return nil, ""
	case "StopUnit":
		if _, there := b.units[body[0].(string)]; !there {
			return nil, "org.freedesktop.systemd1.NoSuchUnit"
		}
		delete(b.units, body[0].(string))
	case "ResetFailedUnit":
		return nil, "org.freedesktop.systemd1.NoSuchUnit"
	case "GetNameOwner":
		if body[0] == "org.freedesktop.systemd1" {
			return []any{":1.systemd"}, ""
		}
		if b.logind == "" {
			return nil, "org.freedesktop.DBus.Error.NameHasNoOwner"
		}
		return []any{b.logind}, ""
	case "Get":
		return []any{dbus.MakeVariant(b.delayMax)}, ""
	case "KillUnit":
		if b.onHangup != nil {
			b.delayMax = b.onHangup()
		}
		return nil, ""
	case "Inhibit":
		return b.inhibit()
	default:
		return nil, ""
	}
	b.jobs++
	return []any{dbus.ObjectPath(fmt.Sprintf("/org/freedesktop/systemd1/job/%d", b.jobs))}, ""
}

func (b *bus) inhibit() ([]any, string) {
	r, w, err := os.Pipe()
	if err != nil {
		b.Error(err)
		return nil, "org.freedesktop.DBus.Error.Failed"
	}
	b.locks <- r
	fd, err := syscall.Dup(int(w.Fd())) // answer closes it once it is sent
	if err != nil {
		b.Error(err)
	}
	w.Close()
	return []any{dbus.UnixFD(fd)}, ""
}

func (b *bus) set(name string, properties [][]any) {
	for _, p := range properties {
		b.units[name][p[0].(string)] = p[1].(dbus.Variant).Value()
	}
}

// signal sends a signal of a connection to all peers. Callers hold the lock.
func (b *bus) signal(sender string, path dbus.ObjectPath, iface, member string, body ...any) {
	for _, p := range b.peers {
		p.send(dbus.TypeSignal, map[dbus.HeaderField]dbus.Variant{
			dbus.FieldSender: dbus.MakeVariant(sender), dbus.FieldPath: dbus.MakeVariant(path), dbus.FieldInterface: dbus.MakeVariant(iface), dbus.FieldMember: dbus.MakeVariant(member),
		}, body...)
	}
}

// shutdown announces a shutdown, or that it is cancelled, as logind does.
func (b *bus) shutdown(begins bool) { b.shutdownFrom(b.logind, begins) }

func (b *bus) shutdownFrom(sender string, begins bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.signal(sender, "/org/freedesktop/login1", "org.freedesktop.login1.Manager", "PrepareForShutdown", begins)
}

// restartLogind gives logind's name to another connection. The sender is that of the bus, unless a peer forges it.
func (b *bus) restartLogind(sender, owner string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.signal(sender, "/org/freedesktop/DBus", "org.freedesktop.DBus", "NameOwnerChanged", "org.freedesktop.login1", b.logind, owner)
	if sender == "org.freedesktop.DBus" {
		b.logind = owner
	}
}
