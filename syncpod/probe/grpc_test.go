package probe

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	goruntime "runtime"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// held returns the bytes that the process has more than at the beginning while that many gRPC
// probes run against a server, at most.
func held(t *testing.T, l net.Listener, probes int) int64 {
	t.Helper()
	heap := func() int64 { // the lowest of three readings, because each may include uncollected garbage
		least := int64(math.MaxInt64)
		for range 3 {
			var m goruntime.MemStats
			goruntime.GC()
			goruntime.ReadMemStats(&m)
			least = min(least, int64(m.HeapAlloc))
		}
		return least
	}
	p := proberOf(t)
	grpc := &v1.Probe{ProbeHandler: v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: int32(portOfListener(t, l))}}}
	before, most := heap(), int64(0)
	var all sync.WaitGroup
	for range probes {
		all.Go(func() {
			o := p.checker.outcome(t.Context(), Request{Container: "app", ContainerID: "a", PodIP: "127.0.0.1", Probe: limited(grpc, 3)})
			if o.failure == "" {
				t.Error("the probe succeeded")
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for {
		most = max(most, heap()-before)
		select {
		case <-done:
			return most
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// A server that answers with a message of 4 MiB, or with 14 MiB of headers, makes a probe
// hold no more than a part of it.
func TestGRPCAnswersAreBounded(t *testing.T) {
	const probes, limit = 8, 8 << 20
	message := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		_, _ = w.Write(binary.BigEndian.AppendUint32([]byte{0}, 4<<20-1))
		_, _ = io.CopyN(w, endless{}, 4<<20-2)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	message.Config.Protocols = new(http.Protocols)
	message.Config.Protocols.SetUnencryptedHTTP2(true)
	message.Start()
	defer message.Close()
	if got := held(t, message.Listener, probes); got > limit {
		t.Errorf("%d probes hold %d KiB of messages", probes, got>>10)
	}

	headers := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer headers.Close()
	go serveHeaders(headers)
	if got := held(t, headers, probes); got > limit {
		t.Errorf("%d probes hold %d KiB of headers", probes, got>>10)
	}
}

// endless reads as zeros.
type endless struct{}

func (endless) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// serveHeaders answers each connection with headers of 14 MiB, and nothing after them. It
// keeps none in memory.
func serveHeaders(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			go func() { _ = writeHeaders(conn) }()
			_, _ = io.Copy(io.Discard, conn) // until the client closes it
		}()
	}
}

func writeHeaders(conn io.Writer) error {
	const continuation, endHeaders = 9, 4
	const status200, literal, value16000 = 0x88, 0x00, "\x7f\x81\x7c" // a length of 16,000: 127 + 1 + 124<<7
	large := append([]byte{literal, 1, 'x'}, value16000...)
	large = append(large, bytes.Repeat([]byte{'x'}, 16_000)...)
	if err := writeFrame(conn, frameSettings, 0, 0, nil); err != nil {
		return err
	}
	if err := writeFrame(conn, frameSettings, flagAck, 0, nil); err != nil {
		return err
	}
	if err := writeFrame(conn, frameHeaders, 0, 1, []byte{status200}); err != nil {
		return err
	}
	for range 14 << 20 / 16_000 {
		if err := writeFrame(conn, continuation, 0, 1, large); err != nil {
			return err
		}
	}
	return writeFrame(conn, continuation, endHeaders, 1, append([]byte{literal, 12}, "content-type\x10application/grpc"...))
}

// writeFrame writes a frame of HTTP/2.
func writeFrame(w io.Writer, kind, flags byte, stream uint32, payload []byte) error {
	head := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	if _, err := w.Write(binary.BigEndian.AppendUint32(head, stream)); err != nil {
		return err
	}
	_, err := w.Write(payload) // not copied: held would count the copies
	return err
}
