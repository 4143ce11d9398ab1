package critest

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/internal/sh"
	"github.com/podsync/podsync/runtime/cri/critest/internal/streams"
)

// The runtime's mu guards a container's fields, except those above the blank line, which do not change.
type container struct {
	id, name string
	seq      int
	sandbox  *sandbox
	config   *runtimeapi.ContainerConfig
	podUID   string // from its label
	image    Image  // as it was when the container was created
	files    *files
	log      *containerLog
	attached *streams.Attached
	process  *sh.Process
	exited   chan struct{} // closed once the exit is recorded

	state      runtimeapi.ContainerState
	createdAt  int64
	startedAt  int64
	finishedAt int64
	exitCode   int32
	reason     string
	message    string
	resources  *runtimeapi.LinuxContainerResources
	ran        *Process // set when the container was started
	unclaimed  bool     // created for a caller that had disconnected: CRI-O does not show it
	starting   bool
	removing   bool
	running    bool  // the process lives, whatever the state is
	signalled  bool  // a stop with a timeout has sent its signal
	ended      *Exit // the exit to record instead of the real one
	unseen     bool  // the runtime was down when the process ended: no event
	ignores    faults.IgnoreSignals
	usage      Usage
	unkilled   bool // a SIGKILL is pending until the process no longer ignores it
}

// logPath returns the container's log path, "" for none.
func (c *container) logPath() string {
	if c.sandbox.config.GetLogDirectory() == "" || c.config.GetLogPath() == "" {
		return ""
	}
	return filepath.Join(c.sandbox.config.GetLogDirectory(), c.config.GetLogPath())
}

// stopSignal returns the container's stop signal, or else of its image.
func (c *container) stopSignal() runtimeapi.Signal {
	if s := c.config.GetStopSignal(); s != runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT {
		return s
	}
	if c.image.StopSignal != runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT {
		return c.image.StopSignal
	}
	return runtimeapi.Signal_SIGNAL_SIGTERM
}

// user returns the container's user. It returns nil for a user with a name, because there is no file
// that maps it to a number.
func (c *container) user() *runtimeapi.ContainerUser {
	security := c.config.GetLinux().GetSecurityContext()
	uid, gid := security.GetRunAsUser(), security.GetRunAsGroup().GetValue()
	if uid == nil {
		uid, _ = c.image.user()
	}
	if uid == nil && (c.image.User != "" || security.GetRunAsUsername() != "") {
		return nil
	}
	return &runtimeapi.ContainerUser{Linux: &runtimeapi.LinuxContainerUser{
		Uid: uid.GetValue(), Gid: gid, SupplementalGroups: slices.Clone(security.GetSupplementalGroups()),
	}}
}

// uid returns the number of the process's user. There is no file that maps names to numbers, but for nobody.
func (c *container) uid() int64 {
	if name := c.config.GetLinux().GetSecurityContext().GetRunAsUsername(); cmp.Or(name, c.image.User) == "nobody" && c.user() == nil {
		return sh.Nobody
	}
	return c.user().GetLinux().GetUid()
}

// groups returns the groups of the process, the primary one first.
func (c *container) groups() []int64 {
	l := c.user().GetLinux()
	return append([]int64{l.GetGid()}, l.GetSupplementalGroups()...)
}

// status must be called with mu held.
func (c *container) status() *runtimeapi.ContainerStatus {
	st := &runtimeapi.ContainerStatus{
		Id:          c.id,
		Metadata:    proto.CloneOf(c.config.GetMetadata()),
		State:       c.state,
		CreatedAt:   c.createdAt,
		StartedAt:   c.startedAt,
		FinishedAt:  c.finishedAt,
		ExitCode:    c.exitCode,
		Image:       &runtimeapi.ImageSpec{Image: c.image.Name},
		ImageRef:    c.image.ref(),
		ImageId:     c.image.ID,
		Reason:      c.reason,
		Message:     c.message,
		Labels:      maps.Clone(c.config.GetLabels()),
		Annotations: maps.Clone(c.config.GetAnnotations()),
		LogPath:     c.logPath(),
		Resources:   &runtimeapi.ContainerResources{Linux: proto.CloneOf(c.resources)},
		StopSignal:  c.stopSignal(),
		User:        c.user(),
	}
	for _, m := range c.config.GetMounts() {
		st.Mounts = append(st.Mounts, proto.CloneOf(m))
	}
	return st
}

// kill ends the process for Close, even if the process ignores signals.
func (c *container) kill() {
	if c.process != nil {
		c.process.Signal(sh.SIGKILL)
	}
}
