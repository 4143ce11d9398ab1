package agent_test

import (
	"strings"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// The error for a Config names the missing or invalid field.
func TestConfigNamesTheInvalidField(t *testing.T) {
	_, conn := critest.Start(t, critest.Config{})
	for _, tt := range []struct {
		want   string
		change func(*agent.Config)
	}{
		{"Config.Client is missing", func(c *agent.Config) { c.Client = nil }},
		{"Config.Client is not connected", func(c *agent.Config) { c.Client = &cri.Client{} }},
		{"Config.Sync.Parts.Probes is set, which requires Config.NoProbes", func(c *agent.Config) { c.Sync.Parts.Probes = syncpod.NoProbes{} }},
		{"Config.Sync.Parts.Images is set, which requires Config.NoImageGC", func(c *agent.Config) { c.Sync.Parts.Images = noImages{}; c.NoImageGC = false }},
		{"Config.Root: ", func(c *agent.Config) { c.Root = "here"; c.Sync.Root = t.TempDir() }},
		{"Config.Sync.Root: ", func(c *agent.Config) { c.Sync.Root = "here" }},
		{"Config.Images: image: Settings.InitialBackOff", func(c *agent.Config) { c.Images.InitialBackOff = -time.Second }},
		{"Config.LogInterval is negative", func(c *agent.Config) { c.NoLogRotation, c.LogInterval = false, -time.Second }},
		{"Config.LogPolicy: ", func(c *agent.Config) { c.NoLogRotation, c.LogPolicy.MaxSize = false, -1 }},
		{"Config.Sources is empty", func(c *agent.Config) { c.Sources = nil }},
	} {
		c := agent.Config{
			Client: cri.NewClient(conn), Sources: []source.Source{source.NewPush()}, NoLogRotation: true, NoImageGC: true, NoEviction: true, NoOOMEvents: true,
		}
		c.Sync.RuntimeName = "critest"
		if _, err := agent.New(c); err != nil {
			t.Fatal(err)
		}
		tt.change(&c)
		if _, err := agent.New(c); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("want %q, got %v", tt.want, err)
		}
	}
}

// noImages is never called.
type noImages struct{ syncpod.Images }
