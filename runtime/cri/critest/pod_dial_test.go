package critest

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A server responds to probes and handlers on any port. It refuses connections once it has ended.
func TestServersAnswer(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		sandbox, id := n.runs("1", "nginx")
		address := n.address(sandbox)
		client := &http.Client{Transport: &http.Transport{
			DialContext: n.DialPod, DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		}}
		for _, url := range []string{"http://" + address + ":80/ready", "https://" + address + ":8443/ready"} {
			answer, err := client.Get(url)
			n.ok(err)
			if answer.Body.Close(); answer.StatusCode != http.StatusOK {
				n.Errorf("%s: %s, want %d", url, answer.Status, http.StatusOK)
			}
		}
		n.ok(n.health(address + ":9090"))
		n.ok(n.stopIt(n.Context(), id, 1))
		n.refused(address + ":80")
	})
}

// health makes a gRPC health check.
func (n *node) health(address string) error {
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return n.DialPod(ctx, "tcp", address) }))
	n.ok(err)
	defer conn.Close()
	var answer []byte
	err = conn.Invoke(n.Context(), healthCheck, new([]byte), &answer, grpc.ForceCodecV2(rawCodec{}))
	if err == nil && string(answer) != healthServing {
		n.Errorf("the health check answers %q, want %q", answer, healthServing)
	}
	return err
}

func (n *node) refused(address string) {
	n.Helper()
	if conn, err := n.DialPod(n.Context(), "tcp", address); err == nil || !strings.Contains(err.Error(), "refused") {
		n.Errorf("%s: %v, %v, want a connection that is refused", address, conn, err)
	}
}

// A program has the ports that it listens on. A script has no ports.
func TestProgramsListen(t *testing.T) {
	listen := func(ctx context.Context, c *Command) int {
		lis, err := c.Listen(7000)
		if err != nil {
			return 1
		}
		defer context.AfterFunc(ctx, func() { lis.Close() })()
		conn, err := lis.Accept()
		if err != nil {
			return 1
		}
		_, _ = io.WriteString(conn, "mine")
		conn.Close()
		<-ctx.Done()
		return 0
	}
	onBubble(t, Config{Programs: map[string]Program{"listen": listen}}, func(n *node) {
		sandbox, _ := n.runs("1", "listen")
		address := n.address(sandbox)
		conn, err := n.DialPod(n.Context(), "tcp", address+":7000")
		n.ok(err)
		if said, err := io.ReadAll(conn); string(said) != "mine" {
			n.Errorf("the program says %q, %v, want %q", said, err, "mine")
		}
		conn.Close()
		n.refused(address + ":7001")
		sandbox, _ = n.runs("2", script("sleep infinity")...)
		n.refused(n.address(sandbox) + ":7000")
		n.refused("10.1.2.3:80")
		config := podConfig("3")
		config.PortMappings = []*runtimeapi.PortMapping{{HostPort: 8080, ContainerPort: 7000}}
		made, err := n.rt.RunPodSandbox(n.Context(), &runtimeapi.RunPodSandboxRequest{Config: config})
		n.ok(err)
		_, err = withMounts(n, made.GetPodSandboxId(), []string{"listen"}, "")
		n.ok(err)
		synctest.Wait()
		conn, err = n.DialPod(n.Context(), "tcp", "10.1.2.3:8080")
		n.ok(err)
		conn.Close()
	})
}
