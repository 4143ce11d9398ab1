package server_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/server"
)

// ownBackend is a backend of an embedder: it returns the URLs of a streaming server, and knows one pod.
type ownBackend struct {
	url  string
	mu   sync.Mutex
	asks []string
}

func (b *ownBackend) note(parts ...string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asks = append(b.asks, strings.Join(parts, " "))
	return b.url
}

func (b *ownBackend) Exec(_ context.Context, r *runtimeapi.ExecRequest, _ ...grpc.CallOption) (*runtimeapi.ExecResponse, error) {
	return &runtimeapi.ExecResponse{Url: b.note(append([]string{"exec", r.GetContainerId()}, r.GetCmd()...)...)}, nil
}

func (b *ownBackend) Attach(_ context.Context, r *runtimeapi.AttachRequest, _ ...grpc.CallOption) (*runtimeapi.AttachResponse, error) {
	return &runtimeapi.AttachResponse{Url: b.note("attach", r.GetContainerId())}, nil
}

func (b *ownBackend) PortForward(_ context.Context, r *runtimeapi.PortForwardRequest, _ ...grpc.CallOption) (*runtimeapi.PortForwardResponse, error) {
	return &runtimeapi.PortForwardResponse{Url: b.note("portForward", r.GetPodSandboxId())}, nil
}

func (b *ownBackend) RunningContainer(_ context.Context, p server.Path) (runtime.ContainerID, error) {
	if p != (server.Path{Namespace: "shop", Pod: "web", UID: p.UID, Container: "app"}) {
		return runtime.ContainerID{}, errors.New("no such container")
	}
	return runtime.ContainerID{Type: "own", ID: "a1"}, nil
}

func (b *ownBackend) ReadySandbox(_ context.Context, p server.Path) (string, error) {
	if p.Namespace != "shop" || p.Pod != "web" {
		return "", errors.New("no such pod")
	}
	return "s1", nil
}

// Streams connects callers to a backend of the embedder, without an agent and a loop.
func TestStreamsOfAnOwnBackend(t *testing.T) {
	streaming := newBackend(t, 0)
	own := &ownBackend{url: streaming.url}
	var log strings.Builder
	var logging sync.Mutex
	streams := must.Get(server.NewStreams(server.StreamsConfig{Runtime: own, Pods: own, Log: funcr.New(func(_, args string) {
		logging.Lock()
		defer logging.Unlock()
		log.WriteString(args + "\n")
	}, funcr.Options{})}))(t)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		streams.ServeHTTP(w, server.WithUser(r, server.User{Name: "ann"}))
	}))
	t.Cleanup(web.Close)
	open := func(path, protocol string) (*http.Response, net.Conn, *bufio.Reader) {
		conn := must.Get(net.Dial("tcp", strings.TrimPrefix(web.URL, "http://")))(t)
		t.Cleanup(func() { conn.Close() })
		r := must.Get(http.NewRequest("POST", web.URL+path, nil))(t)
		if protocol != "" {
			r.Header.Set("Connection", "Upgrade")
			r.Header.Set("Upgrade", protocol)
		}
		must.Do(t, r.Write(conn))
		reader := bufio.NewReader(conn)
		resp := must.Get(http.ReadResponse(reader, r))(t)
		return resp, conn, reader
	}

	for path, code := range map[string]int{
		"/exec/shop/web/app?command=date&output=1": http.StatusSwitchingProtocols, "/attach/shop/web/uid/app?output=1": http.StatusSwitchingProtocols,
		"/portForward/shop/web": http.StatusSwitchingProtocols, "/exec/shop/web/other?command=date&output=1": http.StatusNotFound,
		"/portForward/shop/other": http.StatusNotFound, "/exec/shop/web/app?output=1": http.StatusBadRequest, "/pods": http.StatusNotFound, "/exec//web": http.StatusNotFound,
	} {
		resp, conn, reader := open(path, "SPDY/3.1")
		if resp.StatusCode != code {
			t.Errorf("%s: %d, want %d", path, resp.StatusCode, code)
		}
		if code != http.StatusSwitchingProtocols {
			continue
		}
		far := streaming.conn(t)
		must.Get(io.WriteString(conn, "ping"))(t)
		got := make([]byte, 4)
		if _, err := io.ReadFull(far, got); err != nil || string(got) != "ping" {
			t.Errorf("%s: the backend got %q, %v", path, got, err)
		}
		must.Get(io.WriteString(far, "pong"))(t)
		if _, err := io.ReadFull(reader, got); err != nil || string(got) != "pong" {
			t.Errorf("%s: the caller got %q, %v", path, got, err)
		}
		conn.Close()
	}
	if resp, _, _ := open("/exec/shop/web/app?command=date&output=1", ""); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("no upgrade: %d", resp.StatusCode)
	}
	asked := map[string]bool{}
	own.mu.Lock()
	for _, ask := range own.asks {
		asked[ask] = true
	}
	own.mu.Unlock()
	if want := map[string]bool{"exec a1 date": true, "attach a1": true, "portForward s1": true}; !reflect.DeepEqual(asked, want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
	logging.Lock()
	defer logging.Unlock()
	if text := log.String(); !strings.Contains(text, `"user"="ann"`) || !strings.Contains(text, `"id"="own://a1"`) || strings.Contains(text, "date") {
		t.Errorf("log %s", text)
	}
}

func TestNewStreamsNamesTheMissingField(t *testing.T) {
	own := &ownBackend{}
	for field, c := range map[string]server.StreamsConfig{
		"StreamsConfig.Runtime": {Pods: own}, "StreamsConfig.Pods": {Runtime: own}, "StreamsConfig.IdleTimeout": {Runtime: own, Pods: own, IdleTimeout: -1},
	} {
		if _, err := server.NewStreams(c); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
