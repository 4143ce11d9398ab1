package streams

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/runtime/cri/critest/program"
)

// The channels of v4.channel.k8s.io and v5. A message's first byte is its channel.
const (
	Stdin  = 0
	Stdout = 1
	Stderr = 2
	Error  = 3
	Resize = 4
	Close  = 255 // in v5: closes the channel in the second byte
)

// A carrier carries messages whose first byte is the channel.
type carrier interface {
	Read() ([]byte, error)
	Write(message ...[]byte) error
	Close() error
}

// channels are the streams of a process over one connection.
type channels struct {
	conn  carrier
	stdin stdin
	sizes chan program.Size // the newest size
	ctx   context.Context   // ends when the client disconnects
	done  chan struct{}     // closed when no more messages are read
}

// A stdin receives the client's input.
type stdin interface {
	add([]byte)
	close()
}

// openChannels accepts a request for the given number of streams, and reads messages for stdin.
// With closes set, stdin is closed at the messages' end.
func openChannels(v *visit, streams int, to stdin, closes bool) (*channels, error) {
	conn, err := v.carry(streams)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(v.ctx)
	ch := &channels{conn: conn, stdin: to, sizes: make(chan program.Size, 1), ctx: ctx, done: make(chan struct{})}
	context.AfterFunc(ctx, func() { conn.Close() }) // unblocks writers
	go func() {
		defer close(ch.done)
		defer cancel()
		ch.read(closes)
	}()
	return ch, nil
}

// carry accepts the client's protocol.
func (v *visit) carry(streams int) (carrier, error) {
	if v.speaksSPDY() {
		return v.acceptStreams(streams)
	}
	return v.accept("v5.channel.k8s.io", "v4.channel.k8s.io")
}

func (ch *channels) read(closes bool) {
	if closes {
		defer ch.stdin.close()
	}
	for {
		message, err := ch.conn.Read()
		if err != nil {
			return
		}
		if len(message) > 0 {
			ch.take(message[0], message[1:], closes)
		}
	}
}

func (ch *channels) take(channel byte, data []byte, closes bool) {
	switch channel {
	case Stdin:
		ch.stdin.add(data)
	case Resize:
		var size program.Size
		if json.Unmarshal(data, &size) == nil {
			ch.resize(size)
		}
	case Close:
		if closes && len(data) == 1 && data[0] == Stdin {
			ch.stdin.close()
		}
	}
}

func (ch *channels) resize(size program.Size) {
	select {
	case <-ch.sizes: // an older size that was not read
	default:
	}
	ch.sizes <- size
}

// writer writes to a channel.
func (ch *channels) writer(channel byte) channelWriter { return channelWriter{ch.conn, channel} }

type channelWriter struct {
	conn    carrier
	channel byte
}

func (w channelWriter) Write(b []byte) (int, error) {
	if err := w.conn.Write([]byte{w.channel}, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// end sends the process's status and waits for the reader. It sends no status if the client or the
// runtime ended the process.
func (ch *channels) end(code int, err error) {
	if text, merr := json.Marshal(ended(code, err)); merr == nil && ch.ctx.Err() == nil {
		_ = ch.conn.Write([]byte{Error}, text) // the client may have disconnected
	}
	ch.conn.Close()
	<-ch.done
}

// ended returns the status that the error channel reports for a process.
func ended(code int, err error) metav1.Status {
	switch {
	case err != nil:
		return metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError, Code: http.StatusInternalServerError, Message: status.Convert(err).Message()}
	case code == 0:
		return metav1.Status{Status: metav1.StatusSuccess}
	}
	return metav1.Status{
		Status: metav1.StatusFailure, Reason: "NonZeroExitCode", Message: "command terminated with non-zero exit code: exit status " + strconv.Itoa(code),
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: "ExitCode", Message: strconv.Itoa(code)}}},
	}
}
