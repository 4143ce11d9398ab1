package e2e

import (
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/podsync/podsync/runtime/cri/critest/conformance"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// endpoints returns the endpoints in PODSYNC_E2E.
func endpoints(t *testing.T) []string {
	t.Helper()
	value := os.Getenv("PODSYNC_E2E")
	if value == "" {
		t.Skip("PODSYNC_E2E names no CRI endpoint; see the package's documentation")
	}
	if os.Geteuid() != 0 {
		t.Skip("PODSYNC_E2E is set, but talking to a container runtime needs root")
	}
	return strings.Split(value, ",")
}

func TestConformance(t *testing.T) {
	for _, endpoint := range endpoints(t) {
		t.Run(strings.ReplaceAll(strings.TrimPrefix(endpoint, "unix://"), "/", "-"), func(t *testing.T) {
			dial := func(t *testing.T) *grpc.ClientConn {
				conn := must.Get(grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
				t.Cleanup(func() {
					if err := conn.Close(); err != nil {
						t.Error(err)
					}
				})
				return conn
			}
			conformance.Run(t, dial, conformance.Config{Image: "localhost/busybox:e2e"})
		})
	}
}
