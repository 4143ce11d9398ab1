package server

import (
	"bufio"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	goruntime "runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/podsync/podsync/internal/spdy"
	"github.com/podsync/podsync/runtime/websocket"
)

// talkative is a streaming server of a runtime for a process that prints 8 MiB on its stdout and
// stderr, in pieces as large as a runtime reads from a pipe.
func talkative(conn net.Conn) {
	defer conn.Close()
	rt := spdy.Server(conn)
	for range 3 {
		m, err := rt.Read()
		if err != nil || rt.Accept(m.Stream) != nil {
			return
		}
	}
	piece := make([]byte, 32<<10)
	for range 8 << 20 / (2 * len(piece)) {
		if rt.Write(3, piece) != nil || rt.Write(5, piece) != nil {
			return
		}
	}
	_, _ = rt.Read() // until the connection is closed
}

// TestDeafCallersTakeBoundedMemory: while a caller does not read, the server reads nothing more
// from the runtime, so a stream takes a few buffers, however much the process prints. The limit
// includes the memory of both other ends.
func TestDeafCallersTakeBoundedMemory(t *testing.T) {
	const callers, perCaller = 16, 384 << 10
	synctest.Test(t, func(t *testing.T) {
		var running sync.WaitGroup
		var conns []net.Conn
		before := memory()
		for range callers {
			ours, runtime := net.Pipe()
			near, far := net.Pipe()
			conns = append(conns, ours, far)
			running.Go(func() { talkative(runtime) })
			running.Go(func() { translateTo(t, ours, near, far) })
		}
		synctest.Wait()
		if each := (memory() - before) / callers; each > perCaller {
			t.Errorf("a caller who does not read takes %d KiB, want at most %d", each>>10, perCaller>>10)
		}
		for _, c := range conns {
			c.Close()
		}
		running.Wait()
	})
}

// translateTo translates a process to a caller who reads the answer and nothing after it.
func translateTo(t *testing.T, runtime, near, far net.Conn) {
	c := &translation{runtime: spdy.Client(runtime), conn: near, streams: map[byte]uint32{}, channels: map[uint32]byte{}}
	if err := c.open(streams{stdout: true, stderr: true}); err != nil {
		t.Error(err)
		return
	}
	asked := make(chan error, 1)
	go func() {
		_, _, err := websocket.Dial(far, httptest.NewRequest("GET", "/", nil), closeProtocol)
		asked <- err
	}()
	read := bufio.NewReader(near)
	r, err := http.ReadRequest(read)
	if err == nil {
		c.caller, _, err = websocket.Accept(near, read, r, closeProtocol)
	}
	if dialed := <-asked; err != nil || dialed != nil {
		t.Error(err, dialed)
		return
	}
	c.run()
}

// memory returns the bytes in use, including stacks. It is the lowest of three readings, because each may include
// uncollected garbage, even of earlier tests.
func memory() int64 {
	least := int64(math.MaxInt64)
	for range 3 {
		var m goruntime.MemStats
		goruntime.GC()
		goruntime.ReadMemStats(&m)
		least = min(least, int64(m.HeapAlloc+m.StackInuse))
	}
	return least
}
