package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/podsync/podsync/internal/spdy"
	"github.com/podsync/podsync/runtime/websocket"
)

// The channels of a process's streams over a WebSocket. A message's first byte is its channel.
const (
	channelStdin  = 0
	channelStdout = 1
	channelStderr = 2
	channelError  = 3
	channelResize = 4
	channelClose  = 255 // of the channel that follows
)

const (
	// maxStatus is the maximum length of a process's status.
	maxStatus = 64 << 10
	// pingInterval is the interval of pings to the runtime, which closes idle connections after
	// some hours.
	pingInterval = 10 * time.Second
	// openTime limits how long the runtime may take to accept all streams, as in a kubelet.
	openTime = 30 * time.Second
)

// connect connects the caller to a process's streams, in a protocol that the runtime supports.
func (s *streamer) connect(w http.ResponseWriter, r *http.Request, location string, st streams) error {
	if slices.Contains(offers(r), closeProtocol) {
		return s.translate(w, r, location, st)
	}
	return s.proxy(w, r, location)
}

// translate carries the streams of a process between a WebSocket of the caller and SPDY of
// the runtime.
func (s *streamer) translate(w http.ResponseWriter, r *http.Request, location string, st streams) error {
	conn, _, err := s.upgrade(r, location, processProtocol)
	if err != nil {
		return err
	}
	defer conn.Close()
	t := &translation{runtime: spdy.Client(conn), streams: map[byte]uint32{}, channels: map[uint32]byte{}}
	if err := t.open(st); err != nil {
		return s.unreachable(r, err)
	}
	if t.caller, t.conn, err = s.accept(w, r, closeProtocol); t.caller == nil {
		return err
	}
	t.run()
	return nil
}

// A translation is one process's stream translation.
type translation struct {
	runtime  *spdy.Conn
	caller   *websocket.Conn
	conn     net.Conn        // of the caller
	streams  map[byte]uint32 // by channel: the streams that the caller writes to
	channels map[uint32]byte // by stream
	status   []byte          // how the process has ended
}

// open opens the process's requested streams.
func (t *translation) open(st streams) error {
	defer time.AfterFunc(openTime, func() { t.runtime.Close() }).Stop()
	for _, one := range []struct {
		kind    string
		channel byte
		is      bool
	}{
		{"error", channelError, true}, {"stdin", channelStdin, st.stdin}, {"stdout", channelStdout, st.stdout},
		{"stderr", channelStderr, st.stderr}, {"resize", channelResize, st.tty},
	} {
		if !one.is {
			continue
		}
		stream, err := t.openStream(one.kind)
		if err != nil {
			return err
		}
		t.streams[one.channel], t.channels[stream] = stream, one.channel
	}
	return nil
}

// openStream opens a stream, and waits until the runtime has accepted it: some runtimes lose data
// that is sent before.
func (t *translation) openStream(kind string) (stream uint32, err error) {
	stream, err = t.runtime.Open(map[string]string{"streamtype": kind})
	if err != nil {
		return 0, err
	}
	if m, err := t.runtime.Read(); err != nil || m.Kind != spdy.Accepted || m.Stream != stream {
		return 0, errors.Join(errors.New("it does not accept a stream"), err)
	}
	return stream, nil
}

// run translates until the process has ended or one of the ends disconnects.
func (t *translation) run() {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(t.send)
	running.Go(func() { t.keepAlive(ctx) })
	told := t.receive()
	cancel()
	t.runtime.Close()
	if told {
		announceEnd(t.caller, t.conn)
	} else {
		t.conn.Close()
	}
	running.Wait()
}

// send forwards the caller's messages until the caller disconnects. Input that the process no longer reads is
// lost.
func (t *translation) send() {
	defer t.conn.Close() // also unblocks a writer
	defer t.runtime.Close()
	for channel := byte(0); ; {
		data, first, last, err := t.caller.ReadPiece()
		if err != nil {
			return
		}
		if first && len(data) > 0 {
			channel, data = data[0], data[1:]
		} else if first && last {
			continue // an empty message is for no channel
		}
		_ = t.take(channel, data)
	}
}

// take forwards a caller message, or a piece of one.
func (t *translation) take(channel byte, data []byte) error {
	if channel == channelClose && len(data) == 1 && data[0] == channelStdin {
		return t.closeInput()
	}
	stream, ok := t.streams[channel]
	if !ok || channel != channelStdin && channel != channelResize {
		return nil
	}
	return t.runtime.Write(stream, data)
}

func (t *translation) closeInput() error {
	stream, ok := t.streams[channelStdin]
	if !ok {
		return nil
	}
	delete(t.streams, channelStdin)
	return t.runtime.CloseWrite(stream)
}

// receive passes on the process's output, and then its status, and reports whether the caller
// received the status. If the runtime reports no status, the caller's connection breaks, so that
// the process does not appear to have succeeded.
func (t *translation) receive() (told bool) {
	for !t.ended() {
		m, err := t.runtime.Read()
		if err != nil {
			break
		}
		if m.Kind == spdy.Data && t.print(t.channels[m.Stream], m.Data) != nil {
			return false
		}
	}
	return len(t.status) > 0 && t.caller.Write([]byte{channelError}, t.status) == nil
}

func (t *translation) print(channel byte, data []byte) error {
	switch channel {
	case channelError:
		if len(t.status)+len(data) > maxStatus {
			return io.ErrShortBuffer
		}
		t.status = append(t.status, data...)
	case channelStdout, channelStderr:
		return t.caller.Write([]byte{channel}, data)
	}
	return nil
}

// ended reports whether the process's status is complete.
func (t *translation) ended() bool { return len(t.status) > 0 && json.Valid(t.status) }

// keepAlive sends pings to the runtime.
func (t *translation) keepAlive(ctx context.Context) {
	tick := time.NewTicker(pingInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = t.runtime.Ping() // the reader notices a closed connection
		}
	}
}
