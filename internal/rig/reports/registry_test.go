//go:build linux

package reports

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod/agent"
)

// credentials is a source of pull secrets that fails while down is set.
type credentials struct{ down bool }

func (c *credentials) PullSecrets(ctx context.Context, _ *v1.Pod) ([]v1.Secret, error) {
	if !c.down {
		return nil, nil
	}
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// With the policy Always a container restarts, also with the next agent, although the registry does not answer, in the words of
// containerd, or refuses what is pulled without credentials because their source hangs. The same holds for an image that it mounts.
func TestR3_RestartWithThePolicyAlways(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		down bool
	}{
		"registry":    {status.Error(codes.Unknown, `failed to pull and unpack image "registry.test/app:1": failed to do request: Head "https://registry.test/v2/": dial tcp 192.0.2.9:443: connect: connection refused`), false},
		"credentials": {status.Error(codes.Unknown, "unexpected status from HEAD request to https://registry.test/v2/: 401 Unauthorized"), true},
	} {
		t.Run(name, func(t *testing.T) {
			source := &credentials{}
			on(t, critest.Config{}, func(c *agent.Config) { c.Sync.Objects.PullSecrets = source }, func(n *node) {
				n.apply(`{metadata: {name: p}, spec: {volumes: [{name: v, image: {reference: "registry.test/data:1", pullPolicy: Always}}],
  containers: [{name: c, imagePullPolicy: Always, command: [sh, -c, "sleep 100; exit 1"], volumeMounts: [{name: v, mountPath: /data}]}]}}`)
				time.Sleep(time.Minute)
				source.down = tc.down
				if _, err := n.Inject(faults.Fault{Match: faults.Match{Method: critest.PullImage}, Times: faults.Always, Err: tc.err}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				n.want(len(n.runs("c")), 2, "runs with the same agent")
				n.restart(time.Second)
				time.Sleep(2 * time.Minute)
				n.want(len(n.runs("c")), 3, "runs with the next agent")
				n.apply(`{metadata: {name: new}, spec: {containers: [{name: d, imagePullPolicy: Always, command: [server]}]}}`)
				time.Sleep(time.Minute)
				n.want(len(n.runs("d")), 0, "runs of a pod that has not used the image")
			})
		})
	}
}
