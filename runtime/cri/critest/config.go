package critest

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Config describes a runtime. The zero Config is a runtime without faults: it pulls any image and keeps
// everything in memory.
type Config struct {
	// Dir is the directory below which the log files and container mounts are real files. Files
	// at other paths of CRI messages are kept in memory. No path or link in a message leads
	// outside Dir. Empty means that all files are kept in memory.
	Dir string
	// LogsRoot is a second such directory, for an agent whose container logs are not below Dir:
	// /var/log/pods for a kubelet. New creates it if it does not exist. Empty means that only logs
	// below Dir are real files.
	LogsRoot string
	// Like is the real runtime that this one imitates.
	Like Model
	// Images are the images that are on the node from the start.
	Images []Image
	// Registry lists the images that can be pulled. Nil means that every image can be pulled
	// immediately and without credentials; its content is then an [Image] with that name.
	// The exception are images of hosts below the domain .invalid, which no name server
	// knows.
	Registry []RemoteImage
	// Programs are commands by name, for containers and ExecSync. They take precedence over those of
	// the command language. If an image has no entrypoint and its name, as the pod states it, is a
	// program's name, the program is its entrypoint.
	Programs map[string]Program
	// ServeUnknown means that a command that the runtime does not know is a server: it runs until it is stopped. Otherwise
	// a container with such a command fails to start, as on a node whose image does not contain it.
	ServeUnknown bool
	// Latency is how long a method takes before it does anything. Other methods take no time.
	Latency map[Method]time.Duration
	// PodCIDRs are the prefixes of sandbox addresses. A sandbox gets one address from each; that from
	// the first prefix is the pod's primary address. Default: 198.18.0.0/15, which RFC 2544 reserves for tests and no
	// container tool uses: a connection that is not made with DialPod reaches no other pod.
	PodCIDRs []netip.Prefix
	// Handlers are the runtime handlers in addition to "".
	Handlers []string
	// Name is the runtime's name in the response to Version. Default: critest.
	Name    string
	version string // Default: 2.0.0.
	// JournalLimit is the maximum number of calls in the journal; it keeps the last ones. Set it for
	// a runtime that runs for long. With a limit, the runtime also forgets to which pod a removed ID
	// belonged, after as many newer IDs. 0 keeps all.
	JournalLimit int
	// cgroupDriver is the driver in the response to RuntimeConfig. The zero value is SYSTEMD.
	cgroupDriver runtimeapi.CgroupDriver
}

// withDefaults validates a config, sets defaults, and copies everything that the caller could still
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
		c.PodCIDRs = []netip.Prefix{netip.MustParsePrefix("198.18.0.0/15")}
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
