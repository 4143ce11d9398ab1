package critest

import (
	"context"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/faults"
)

func TestServeUnixSocket(t *testing.T) {
	r, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	endpoint, err := r.Listen(filepath.Join(t.TempDir(), "cri.sock"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Listen("/no/such/directory/cri.sock"); err == nil {
		t.Error("a socket in a directory that is not there")
	}
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := runtimeapi.NewRuntimeServiceClient(conn).Version(t.Context(), &runtimeapi.VersionRequest{}); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.Listen(filepath.Join(t.TempDir(), "cri.sock")); err == nil {
		t.Error("a closed runtime listens")
	}
	if _, err := r.Dial(); err == nil {
		t.Error("a closed runtime is dialled")
	}
}

func TestServeBufconn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		lis := bufconn.Listen(1 << 16)
		served := make(chan error, 1)
		go func() { served <- r.Serve(lis) }()
		conn, err := grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := runtimeapi.NewRuntimeServiceClient(conn).Version(t.Context(), &runtimeapi.VersionRequest{}); err != nil {
			t.Error(err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// The bubble itself fails if Close leaves a goroutine of a process, of a hanging call or of an event
// stream.
func TestCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := New(Config{Images: []Image{{Name: "app"}}})
		if err != nil {
			t.Fatal(err)
		}
		conn, err := r.Dial()
		if err != nil {
			t.Fatal(err)
		}
		n := &node{T: t, Runtime: r, rt: runtimeapi.NewRuntimeServiceClient(conn)}
		_, id := n.runs("uid", script(deaf)...)
		synctest.Wait() // until its trap is set
		n.ok(n.SetIgnoreSignals(id, faults.IgnoreSignals{Kill: true}))
		n.inject(faults.Fault{Match: faults.Match{Method: RunPodSandbox}, Hang: new(faults.Gate), IgnoreCancel: true})
		results := make(chan error, 3)
		go func() { results <- n.stopIt(context.Background(), id, 1000) }()
		go func() {
			_, err := n.trySandbox(context.Background(), "other")
			results <- err
		}()
		stream, err := n.rt.GetContainerEvents(context.Background(), &runtimeapi.GetEventsRequest{})
		n.ok(err)
		go func() {
			for err == nil {
				_, err = stream.Recv()
			}
			results <- err
		}()
		synctest.Wait()
		start := time.Now()
		n.ok(r.Close())
		n.ok(r.Close())
		if time.Since(start) != 0 {
			n.Errorf("Close took %v", time.Since(start))
		}
		for range 3 {
			if err := <-results; status.Code(err) != codes.Unavailable {
				n.Errorf("a call ended with %v", err)
			}
		}
		n.ok(conn.Close())
		if n.Restart(faults.Restart{}) != nil || len(n.Journal()) != 6 {
			n.Errorf("after Close: %v", n.Journal())
		}
	})
}

func TestNewValidates(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	for field, cfg := range map[string]Config{
		"Config.Dir":                  {Dir: file},
		"Config.Like":                 {Like: 9},
		"Config.JournalLimit":         {JournalLimit: -1},
		"Config.Images[1].Name":       {Images: []Image{{Name: "a"}, {}}},
		"Config.Registry[0].Name":     {Registry: []RemoteImage{{}}},
		"Config.Registry[0].PullTime": {Registry: []RemoteImage{{Image: Image{Name: "a"}, PullTime: -1}}},
		"Config.Latency":              {Latency: map[Method]time.Duration{"Run": 1}},
		"Config.PodCIDRs[0]":          {PodCIDRs: []netip.Prefix{{}}},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v, want an error and %v in it", field, err, field)
		}
	}
}

func TestAddressesRunOut(t *testing.T) {
	cfg := Config{PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/30"), netip.MustParsePrefix("fd00::/64")}}
	onBubble(t, cfg, func(n *node) {
		for _, uid := range []string{"a", "b"} {
			n.newSandbox(uid)
		}
		_, err := n.trySandbox(n.Context(), "c")
		n.code(err, codes.Unknown)
		first := n.sandboxes()[0].GetId()
		resp, err := n.rt.PodSandboxStatus(n.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: first})
		n.ok(err)
		if net := resp.GetStatus().GetNetwork(); net.GetIp() != "10.0.0.2" || len(net.GetAdditionalIps()) != 1 || net.GetAdditionalIps()[0].GetIp() != "fd00::2" {
			n.Errorf("%v, want the addresses %q and %q", net, "10.0.0.2", "fd00::2")
		}
		n.ok(n.Remove(first))
		if got := n.address(n.newSandbox("c")); got != "10.0.0.2" {
			n.Errorf("a freed address is not used: %s", got)
		}
	})
}

func TestUnimplemented(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		_, err := n.rt.CheckpointContainer(n.Context(), &runtimeapi.CheckpointContainerRequest{})
		n.code(err, codes.Unimplemented)
		_, err = n.rt.CheckpointPod(n.Context(), &runtimeapi.CheckpointPodRequest{})
		n.code(err, codes.Unimplemented)
	})
}
