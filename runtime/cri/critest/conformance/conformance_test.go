package conformance

import (
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"

	"github.com/podsync/podsync/runtime/cri/critest"
)

// nodeConfig returns a node that the rules can be checked on.
func nodeConfig(dir string) critest.Config {
	return critest.Config{
		Dir:      dir,
		Images:   []critest.Image{{Name: "localhost/busybox:critest", OnlyKnown: true}},
		Registry: []critest.RemoteImage{},
	}
}

func TestCritestConforms(t *testing.T) {
	for name, like := range map[string]critest.Model{"containerd 2": critest.Containerd2, "containerd 1.6": critest.Containerd16, "CRI-O": critest.CRIO} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cfg := nodeConfig(dir)
			cfg.Like = like
			dial := func(t *testing.T) *grpc.ClientConn {
				_, conn := critest.Start(t, cfg)
				return conn.ClientConn
			}
			Run(t, dial, Config{Image: "localhost/busybox:critest", Dir: dir, Around: synctest.Test})
		})
	}
}
