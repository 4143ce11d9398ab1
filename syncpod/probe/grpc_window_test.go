package probe

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A server that sends data without headers fills the flow-control window of the stream: the client
// can give none of it to the caller. The window does not grow with the connection's throughput, by which a
// server could make it 16 MiB: data for a stream that the client has not opened counts there.
func TestGRPCWindowsDoNotGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := make(chan *flood, 1)
		p := must.Get(New(Config{Exec: noExec{}, Dial: func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			f := &flood{conn: server, windows: [2]int64{65535, 65535}, initial: 65535, unknown: 48 << 20}
			go f.serve()
			servers <- f
			return client, nil
		}}))(t)
		grpc := &v1.Probe{ProbeHandler: v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: 80}}}
		o := p.checker.outcome(t.Context(), Request{Container: "app", ContainerID: "a", PodIP: "192.0.2.1", Probe: limited(grpc, 3)})
		if o.failure == "" {
			t.Error("the probe succeeded")
		}
		synctest.Wait()
		if f := <-servers; f.sent < window/2 || f.sent > window {
			t.Errorf("the server could send %d bytes, want %d at most, and more than half of it", f.sent, window)
		}
	})
}

// flood is the server's side of an HTTP/2 connection: it acknowledges all settings and pings. It
// sends some data for an unknown stream first, and then as much for stream 1 as the client's windows allow.
type flood struct {
	conn net.Conn
	// windows are those of the connection and of stream 1, and initial is the setting for new streams.
	windows [2]int64
	initial int64
	// asked means that the client has opened the stream, and sent counts the bytes of data for it.
	asked bool
	sent  int64
	// unknown counts the bytes that are still to be sent for an unknown stream.
	unknown int64
}

const (
	frameData, frameHeaders, frameSettings, framePing, frameWindowUpdate = 0, 1, 4, 6, 8
	flagAck                                                              = 1
)

// serve answers until the client closes the connection.
func (f *flood) serve() {
	defer f.conn.Close()
	if _, err := io.CopyN(io.Discard, f.conn, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return
	}
	for err := f.write(frameSettings, 0, 0, nil); err == nil; {
		err = f.answer()
	}
}

// answer reads a frame and writes what follows from it.
func (f *flood) answer() error {
	var head [9]byte
	if _, err := io.ReadFull(f.conn, head[:]); err != nil {
		return err
	}
	payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
	if _, err := io.ReadFull(f.conn, payload); err != nil {
		return err
	}
	kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:])
	switch {
	case kind == frameHeaders:
		f.asked = true
	case kind == frameWindowUpdate:
		f.windows[stream] += int64(binary.BigEndian.Uint32(payload))
	case kind == frameSettings && flags&flagAck == 0:
		f.set(payload)
		if err := f.write(frameSettings, flagAck, 0, nil); err != nil {
			return err
		}
	case kind == framePing && flags&flagAck == 0:
		time.Sleep(time.Millisecond) // the latency of a network
		if err := f.write(framePing, flagAck, 0, payload); err != nil {
			return err
		}
	}
	return f.fill()
}

// set heeds the initial window among the client's settings, which also moves the window of an open stream.
func (f *flood) set(settings []byte) {
	for ; len(settings) >= 6; settings = settings[6:] {
		if binary.BigEndian.Uint16(settings) == 4 {
			initial := int64(binary.BigEndian.Uint32(settings[2:]))
			f.windows[1] += initial - f.initial
			f.initial = initial
		}
	}
}

// fill sends data until a window is full.
func (f *flood) fill() error {
	for f.asked {
		stream, n := uint32(1), min(f.windows[0], f.windows[1], 16<<10)
		if f.unknown > 0 {
			stream, n = 3, min(f.windows[0], f.unknown, 16<<10)
		}
		if n <= 0 {
			return nil
		}
		if err := f.write(frameData, 0, stream, make([]byte, n)); err != nil {
			return err
		}
		f.windows[0] -= n
		if stream == 3 {
			f.unknown -= n
			continue
		}
		f.windows[1], f.sent = f.windows[1]-n, f.sent+n
	}
	return nil
}

func (f *flood) write(kind, flags byte, stream uint32, payload []byte) error {
	return writeFrame(f.conn, kind, flags, stream, payload)
}
