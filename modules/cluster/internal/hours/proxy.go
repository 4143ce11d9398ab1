package hours

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// A Mode is how a Proxy treats connections.
type Mode int

const (
	// Forward forwards all data immediately.
	Forward Mode = iota
	// Drop closes all connections, and closes each new one immediately.
	Drop
	// Delay forwards each piece of data after a pause of a second.
	Delay
	// HalfOpen closes the server's side and leaves the client's side open, also of new connections: the client receives
	// nothing, and the data that it sends is lost. These connections stay half-open when the mode changes, as after a
	// firewall has lost its state.
	HalfOpen
)

func (m Mode) String() string { return [...]string{"forward", "drop", "delay", "half-open"}[m] }

// pause is Delay's pause.
const pause = time.Second

// A Proxy forwards connections to a server. Its methods may be called concurrently.
type Proxy struct {
	dial func(context.Context) (net.Conn, error)

	mu    sync.Mutex
	mode  Mode
	links map[*link]bool
}

// A link is a connection of a client, and the corresponding connection to the server.
type link struct {
	client, server net.Conn
	// silent is closed when the client must receive nothing more.
	silent chan struct{}
	once   sync.Once
}

// NewProxy returns a Proxy that connects to the server with dial.
func NewProxy(dial func(context.Context) (net.Conn, error)) *Proxy {
	return &Proxy{dial: dial, links: map[*link]bool{}}
}

// Serve accepts connections and forwards them until ctx ends, and then closes the listener.
func (p *Proxy) Serve(ctx context.Context, listener net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var links sync.WaitGroup
	defer links.Wait()
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	for {
		client, err := listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return errors.Join(err, listener.Close())
		}
		links.Go(func() { p.forward(ctx, client) })
	}
}

// Set changes the mode, also for open connections.
func (p *Proxy) Set(mode Mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = mode
	for l := range p.links {
		switch mode {
		case Drop:
			_ = l.client.Close()
		case HalfOpen:
			l.silence()
		}
	}
}

func (l *link) silence() {
	l.once.Do(func() { close(l.silent) })
	_ = l.server.Close()
}

// forward serves one client until either side closes its connection or ctx ends.
func (p *Proxy) forward(ctx context.Context, client net.Conn) {
	defer client.Close()
	stop := context.AfterFunc(ctx, func() { _ = client.Close() })
	defer stop()
	l := &link{client: client, silent: make(chan struct{})}
	mode := p.current()
	if mode == Drop {
		return
	}
	if mode == HalfOpen {
		_, _ = io.Copy(io.Discard, client)
		return
	}
	var err error
	if l.server, err = p.dial(ctx); err != nil {
		return
	}
	defer l.server.Close()
	if !p.add(l) {
		return
	}
	defer p.remove(l)
	var copies sync.WaitGroup
	copies.Go(func() {
		p.copy(ctx, l.client, l.server)
		select {
		case <-l.silent:
		default:
			_ = l.client.Close()
		}
	})
	p.copy(ctx, l.server, l.client)
	select {
	case <-l.silent: // the client may keep sending
		_, _ = io.Copy(io.Discard, l.client)
	default:
	}
	_ = l.server.Close()
	copies.Wait()
}

// copy forwards data until a side is closed.
func (p *Proxy) copy(ctx context.Context, to io.Writer, from io.Reader) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && p.current() == Delay {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
		}
		if _, writeErr := to.Write(buffer[:n]); err != nil || writeErr != nil {
			return
		}
	}
}

func (p *Proxy) current() Mode {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode
}

// add adds a link. It returns false if the mode is now Drop.
func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.mode {
	case Drop:
		return false
	case HalfOpen:
		l.silence()
	}
	p.links[l] = true
	return true
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}
