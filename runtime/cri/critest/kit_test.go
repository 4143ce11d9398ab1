package critest

import (
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
)

// kitConfig is a node as the kit wants it.
func kitConfig(dir string) Config {
	return Config{
		Dir:      dir,
		Images:   []Image{{Name: "localhost/busybox:critest", OnlyKnown: true}},
		Registry: []RemoteImage{},
	}
}

func TestKit(t *testing.T) {
	for name, like := range map[string]Model{"containerd 2": Containerd2, "containerd 1.6": Containerd16, "CRI-O": CRIO} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cfg := kitConfig(dir)
			cfg.Like = like
			dial := func(t *testing.T) *grpc.ClientConn {
				_, conn := Start(t, cfg)
				return conn
			}
			Run(t, dial, Kit{Image: "localhost/busybox:critest", Dir: dir, Around: synctest.Test})
		})
	}
}
