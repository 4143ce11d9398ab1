package hours

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A network is an echo server behind a proxy.
type network struct {
	*testing.T
	proxy *Proxy
	front *bufconn.Listener
}

func onNetwork(t *testing.T, test func(n *network)) {
	synctest.Test(t, func(t *testing.T) {
		back := bufconn.Listen(1 << 10)
		n := &network{T: t, front: bufconn.Listen(1 << 10), proxy: NewProxy(func(ctx context.Context) (net.Conn, error) { return back.DialContext(ctx) })}
		go func() {
			for {
				conn, err := back.Accept()
				if err != nil {
					return
				}
				go func() {
					_, _ = io.Copy(conn, conn)
					_ = conn.Close()
				}()
			}
		}()
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- n.proxy.Serve(ctx, n.front) }()
		test(n)
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		back.Close()
	})
}

func (n *network) connect() net.Conn {
	n.Helper()
	conn := must.Get(n.front.DialContext(n.Context()))(n)
	n.Cleanup(func() { _ = conn.Close() })
	return conn
}

// echo sends a word. It returns the answer within 10 s, and the time until the answer.
func (n *network) echo(conn net.Conn, word string) (string, time.Duration, error) {
	start := time.Now()
	if _, err := conn.Write([]byte(word)); err != nil {
		return "", time.Since(start), err
	}
	_ = conn.SetReadDeadline(start.Add(10 * time.Second))
	defer func() { _ = conn.SetReadDeadline(time.Time{}) }()
	answer := make([]byte, len(word))
	_, err := io.ReadFull(conn, answer)
	return string(answer), time.Since(start), err
}

func (n *network) wantEcho(conn net.Conn, after time.Duration) {
	n.Helper()
	if got, d, err := n.echo(conn, "word"); got != "word" || d != after || err != nil {
		n.Errorf("after %v the answer is %q, %v, want it after %v", d, got, err, after)
	}
}

func (n *network) wantClosed(conn net.Conn) {
	n.Helper()
	if _, d, err := n.echo(conn, "word"); err == nil || d != 0 {
		n.Errorf("the connection is open: %v after %v", err, d)
	}
}

// wantSilent checks that a connection accepts data and returns neither data nor its end.
func (n *network) wantSilent(conn net.Conn) {
	n.Helper()
	var timeout net.Error
	if _, d, err := n.echo(conn, "word"); !errors.As(err, &timeout) || !timeout.Timeout() || d != 10*time.Second {
		n.Errorf("the connection is not silent: %v after %v", err, d)
	}
}

func TestForward(t *testing.T) {
	onNetwork(t, func(n *network) {
		a, b := n.connect(), n.connect()
		n.wantEcho(a, 0)
		n.wantEcho(b, 0)
		n.wantEcho(a, 0)
	})
}

// Drop closes connections, also new ones. Forward accepts new ones again.
func TestDrop(t *testing.T) {
	onNetwork(t, func(n *network) {
		old := n.connect()
		n.wantEcho(old, 0)
		n.proxy.Set(Drop)
		synctest.Wait()
		n.wantClosed(old)
		during := n.connect()
		synctest.Wait()
		n.wantClosed(during)
		n.proxy.Set(Forward)
		n.wantEcho(n.connect(), 0)
		n.wantClosed(old)
	})
}

// Delay delays each piece of data by a second in each direction.
func TestDelay(t *testing.T) {
	onNetwork(t, func(n *network) {
		conn := n.connect()
		n.wantEcho(conn, 0)
		n.proxy.Set(Delay)
		n.wantEcho(conn, 2*time.Second)
		n.proxy.Set(Forward)
		n.wantEcho(conn, 0)
	})
}

// HalfOpen leaves clients without an answer, and never closes their connections.
func TestHalfOpen(t *testing.T) {
	onNetwork(t, func(n *network) {
		old := n.connect()
		n.wantEcho(old, 0)
		n.proxy.Set(HalfOpen)
		synctest.Wait()
		n.wantSilent(old)
		during := n.connect()
		n.wantSilent(during)
		n.proxy.Set(Forward)
		n.wantSilent(old)
		n.wantSilent(during)
		n.wantEcho(n.connect(), 0)
	})
}
