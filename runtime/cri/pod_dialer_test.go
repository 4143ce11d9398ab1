package cri

import (
	"context"
	"errors"
	"net"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var errPod = errors.New("dialed the pod")

// podConn is a connection that reaches pods.
type podConn struct{ deadlines }

func (*podConn) DialPod(context.Context, string, string) (net.Conn, error) { return nil, errPod }

// podRuntime is an implementation that reaches pods.
type podRuntime struct {
	runtimeapi.RuntimeServiceClient
}

func (podRuntime) DialPod(context.Context, string, string) (net.Conn, error) { return nil, errPod }

func TestPodDialer(t *testing.T) {
	conn := &podConn{}
	runtime, image := runtimeapi.NewRuntimeServiceClient(conn), runtimeapi.NewImageServiceClient(conn)
	for name, c := range map[string]*Client{
		"a connection":               NewClient(conn),
		"a connection with timeouts": NewClient(Timeouts{}.Conn(Timeouts{}.Conn(conn))),
		"an implementation":          New(podRuntime{runtime}, image),
		"a client":                   New(NewClient(conn), image),
	} {
		dial := c.PodDialer()
		if dial == nil {
			t.Errorf("%s: no dialer", name)
		} else if _, err := dial(t.Context(), "tcp", "10.0.0.1:80"); !errors.Is(err, errPod) {
			t.Errorf("%s: the dialer returns %v", name, err)
		}
	}
	for name, c := range map[string]*Client{"a connection": NewClient(&deadlines{}), "an implementation": New(runtime, image), "nothing": New(nil, nil), "the zero client": {}} {
		if c.PodDialer() != nil {
			t.Errorf("%s without DialPod has a dialer", name)
		}
	}
}
