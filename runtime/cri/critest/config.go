package critest

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Config describes a runtime. The zero value is a runtime that works: it pulls
// any image, keeps everything in memory and never fails.
type Config struct {
	// Dir is the directory below which the log files and the mounts of
	// containers are real files: paths of the CRI messages that point elsewhere
	// are kept in memory, and nothing that a message names, through whatever
	// links, is touched outside it. Empty means that all of it stays in memory.
	Dir string
	// LogsRoot is one more such directory, for an agent that has its containers'
	// logs apart from its mounts: /var/log/pods for a kubelet. New makes it if it is
	// not there. Empty means that logs are real files below Dir alone.
	LogsRoot string
	// Like is the runtime whose ways this one has.
	Like Model
	// Images are on the node from the start.
	Images []Image
	// Registry lists the images that can be pulled. Nil means that every image can,
	// except images of hosts below the domain .invalid, which no name server knows, immediately and
	// without credentials; its content is then an [Image] of that name.
	Registry []RemoteImage
	// Programs are commands by name, for containers and ExecSync. They come
	// before those of the command language. A program that is called as an image is, in the
	// words of the pod, is the entrypoint of that image if it has no other one.
	Programs map[string]Program
	// Latency is how long a method takes before it does anything. Methods that
	// are not in it take no time.
	Latency map[Method]time.Duration
	// PodCIDRs are what sandboxes get addresses from, one of each; the first
	// one's is the pod's address. Default: 10.88.0.0/16.
	PodCIDRs []netip.Prefix
	// Handlers are the runtime handlers known besides "".
	Handlers []string
	// Name is the name of the runtime in the answer of Version. Default: critest.
	Name    string
	version string // Default: 2.0.0.
	// JournalLimit is how many calls the journal keeps, the last ones: for a
	// runtime that stands alone for long. Of what was removed more than so many IDs
	// ago it forgets whose it was. 0 keeps all.
	JournalLimit int
	// cgroupDriver is what RuntimeConfig answers. The zero value is SYSTEMD.
	cgroupDriver runtimeapi.CgroupDriver
}

// withDefaults validates a config, sets defaults and copies everything that the caller could still
// modify.
func (c Config) withDefaults() (Config, error) {
	if c.Like > CRIO {
		return c, fmt.Errorf("critest: Config.Like: unknown model %d", c.Like)
	}
	if c.JournalLimit < 0 {
		return c, fmt.Errorf("critest: Config.JournalLimit is negative: %d", c.JournalLimit)
	}
	for m := range c.Latency {
		if !known(m) {
			return c, fmt.Errorf("critest: Config.Latency: unknown method %q", m)
		}
	}
	c.Latency, c.Programs = maps.Clone(c.Latency), maps.Clone(c.Programs)
	c.PodCIDRs, c.Handlers = slices.Clone(c.PodCIDRs), slices.Clone(c.Handlers)
	if len(c.PodCIDRs) == 0 {
		c.PodCIDRs = []netip.Prefix{netip.MustParsePrefix("10.88.0.0/16")}
	}
	for i, p := range c.PodCIDRs {
		if !p.IsValid() {
			return c, fmt.Errorf("critest: Config.PodCIDRs[%d] is not a prefix", i)
		}
	}
	if c.Name == "" {
		c.Name = "critest"
	}
	if c.version == "" {
		c.version = "2.0.0"
	}
	return c, nil
}
