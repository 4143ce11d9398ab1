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
	for name, change := range map[string]func(*Config){
		"containerd 2":   func(*Config) {},
		"containerd 1.6": func(c *Config) { c.NoEvents = true },
		"CRI-O":          func(c *Config) { c.Names, c.ContainersInSandboxStatus = NamesReturned, true },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cfg := kitConfig(dir)
			change(&cfg)
			dial := func(t *testing.T) *grpc.ClientConn {
				_, conn := Start(t, cfg)
				return conn
			}
			Run(t, dial, Kit{Image: "localhost/busybox:critest", Dir: dir, Around: synctest.Test})
		})
	}
}
