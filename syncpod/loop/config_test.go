package loop_test

import (
	"strings"
	"testing"
	"time"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/source"
)

// Parts that a Loop makes itself. None of their methods is called.
type (
	noStatuses struct{ syncpod.StatusReader }
	noKeeper   struct{ syncpod.StatusKeeper }
	noSyncer   struct{ podworkers.Syncer }
	noSource   struct{ podworkers.StatusSource }
)

// The error for a Config names the missing or invalid field.
func TestConfigNamesTheInvalidField(t *testing.T) {
	_, conn := critest.Start(t, critest.Config{})
	for _, tt := range []struct {
		want   string
		change func(*loop.Config)
	}{
		{"Config.Sources is empty", func(c *loop.Config) { c.Sources = nil }},
		{"Config.Sources[1] is nil", func(c *loop.Config) { c.Sources = append(c.Sources, nil) }},
		{`Config.Sources[1] has the name "a" of Sources[0]`, func(c *loop.Config) { c.Sources = append(c.Sources, source.NewStaticPush("a")) }},
		{`Config.Sources[1] is a Push of static pods with the name "api"`, func(c *loop.Config) { c.Sources = append(c.Sources, source.NewStaticPush("api")) }},
		{"Config.Sources[0] has no name", func(c *loop.Config) { c.Sources = []source.Source{&scripted{}} }},
		{"Config.Client is missing", func(c *loop.Config) { c.Client = nil }},
		{"Config.Root \"here\" is not an absolute path", func(c *loop.Config) { c.Root = "here" }},
		{"Config.Sync.Client is set, which is for the Loop to do", func(c *loop.Config) { c.Sync.Client = c.Client }},
		{"Config.Sync.Parts.Statuses is set", func(c *loop.Config) { c.Sync.Parts.Statuses = noStatuses{} }},
		{"Config.Sync.Parts.StatusKeeper is set", func(c *loop.Config) { c.Sync.Parts.StatusKeeper = noKeeper{} }},
		{"Config.Workers.Syncer is set", func(c *loop.Config) { c.Workers.Syncer = noSyncer{} }},
		{"Config.Workers.Status is set", func(c *loop.Config) { c.Workers.Status = noSource{} }},
		{"Config.Sync.Limits.CleanupTimeout is negative", func(c *loop.Config) { c.Sync.Limits.CleanupTimeout = -time.Second }},
		{"Config.Workers.ResyncInterval is negative", func(c *loop.Config) { c.Workers.ResyncInterval = -time.Second }},
		{"Config.Sync: ", func(c *loop.Config) { c.Sync.Owner.Name = "not a label!" }},
		{"Config.Parts[0] is nil", func(c *loop.Config) { c.Parts = []loop.Part{nil} }},
		{"Config.Watch: ", func(c *loop.Config) { c.Watch.EventRelist = -time.Second }},
		{"Config.Workers: ", func(c *loop.Config) { c.Workers.MaxConcurrent = -1 }},
		{"Config.Sync: ", func(c *loop.Config) { c.Sync.Limits.StopTimeout = -time.Second }},
		{"Config.Sync.RuntimeName is missing", func(c *loop.Config) { c.Sync.RuntimeName = "" }},
		{`Config.Sync.RuntimeName "a://b" has`, func(c *loop.Config) { c.Sync.RuntimeName = "a://b" }},
		{"Config.Client is not connected: make it with cri.Dial", func(c *loop.Config) { c.Client = &cri.Client{} }},
		{"Config.Extensions.Admit[0] is nil", func(c *loop.Config) { c.Sync.Extensions.Admit = []syncpod.Admitter{nil} }},
		{"Config.Node.LogsRoot", func(c *loop.Config) { c.Sync.Node.LogsRoot = "logs" }},
		{"Config.Node.HostIPs[0]", func(c *loop.Config) { c.Sync.Node.HostIPs = func() []string { return []string{"bad"} } }},
	} {
		c := loop.Config{Client: cri.NewClient(conn), Sources: []source.Source{source.NewStaticPush("a")}}
		c.Sync.RuntimeName = "critest"
		if _, err := loop.New(c); err != nil {
			t.Fatal(err)
		}
		tt.change(&c)
		if l, err := loop.New(c); err == nil || !strings.Contains(err.Error(), tt.want) || l != nil {
			t.Errorf("want %q, got %v, %v", tt.want, l, err)
		}
	}
}
