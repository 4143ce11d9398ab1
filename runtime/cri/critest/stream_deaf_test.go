package critest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/internal/spdy"
	"github.com/podsync/podsync/runtime/cri/critest/internal/streams"
)

// chatter prints on both of its streams without end.
func chatter(_ context.Context, c *Command) int {
	written := make(chan error)
	for _, w := range []io.Writer{c.Stdout, c.Stderr} {
		go func() {
			piece := make([]byte, 32<<10)
			for {
				if _, err := w.Write(piece); err != nil {
					written <- err
					return
				}
			}
		}()
	}
	<-written
	<-written
	return 0
}

// processOverSPDY opens the streams of a process.
func (n *node) processOverSPDY(location string) *spdy.Conn {
	n.Helper()
	u, err := url.Parse(location)
	n.ok(err)
	conn, err := n.DialStream(n.Context(), "tcp", u.Host+":80")
	n.ok(err)
	n.Cleanup(func() { conn.Close() })
	req, err := http.NewRequest("POST", location, nil)
	n.ok(err)
	req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {spdy.Protocol}, streams.ProtocolHeader: {"v4.channel.k8s.io"}}
	n.ok(req.Write(conn))
	read := bufio.NewReader(conn)
	resp, err := http.ReadResponse(read, req)
	n.ok(err)
	if resp.StatusCode != http.StatusSwitchingProtocols {
		n.Fatal(resp.Status)
	}
	client := spdy.Client(struct {
		io.Reader
		io.WriteCloser
	}{read, conn})
	for _, kind := range []string{"error", "stdout", "stderr"} {
		_, err := client.Open(map[string]string{"streamtype": kind})
		n.ok(err)
		if m, err := client.Read(); err != nil || m.Kind != spdy.Accepted {
			n.Fatalf("%+v, %v, want an accepted stream", m, err)
		}
	}
	return client
}

// TestTimePassesForDeafClients: virtual time passes while clients do not read what a process prints
// on two streams, over either protocol. A mutex that is held during a write would stop it.
func TestTimePassesForDeafClients(t *testing.T) {
	onBubble(t, Config{Programs: map[string]Program{"chatter": chatter}}, func(n *node) {
		_, id := n.runs("u", "sleep", "infinity")
		req := &runtimeapi.ExecRequest{Cmd: []string{"chatter"}, Stdout: true, Stderr: true}
		socket := n.exec(id, req)
		resp, err := n.rt.Exec(n.Context(), req)
		n.ok(err)
		streams := n.processOverSPDY(resp.Url)
		begun := time.Now()
		time.Sleep(time.Hour)
		if passed := time.Since(begun); passed != time.Hour {
			t.Errorf("%v have passed, want an hour", passed)
		}
		n.ok(errors.Join(socket.ws.Close(), streams.Close()))
	})
}
