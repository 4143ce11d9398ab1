package cri_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc/test/bufconn"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
)

// A list that is too long for a message is an error that names what bounds it, and no
// node without pods.
func TestListLongerThanAMessage(t *testing.T) {
	n := newNode(t, critest.Config{})
	n.pod(cri.Owner{}, "u1", strings.Split("abcdefghij", "")...)
	l := bufconn.Listen(1 << 16)
	go n.Serve(l)
	n.client.Close()
	var err error
	n.client, err = cri.Dial(t.Context(), cri.Config{
		Dialer: func(ctx context.Context) (net.Conn, error) { return l.DialContext(ctx) }, MaxMessageBytes: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer n.client.Close()
	pods, err := n.reader(cri.Owner{}).List(t.Context())
	if !errors.Is(err, cri.ErrExhausted) || !strings.Contains(err.Error(), "list of containers") || !strings.Contains(err.Error(), "Config.MaxMessageBytes") {
		t.Errorf("listed %d pods, %v", len(pods), err)
	}
}
