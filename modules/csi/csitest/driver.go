package csitest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// Config configures a Driver. The zero value is a driver that stages volumes and mounts nothing.
type Config struct {
	// Name is the driver's name. Default "csi.example.com".
	Name string
	// NodeID is the node's name. Default "node-1".
	NodeID string
	// MaxVolumes and Topology are returned by NodeGetInfo.
	MaxVolumes int64
	Topology   map[string]string
	// NoStage removes the capability STAGE_UNSTAGE_VOLUME. The other fields set other capabilities; Conditions is
	// VOLUME_CONDITION.
	NoStage, Groups, SingleWriter, NoExpand, NoStats, Conditions bool
	// Mounter mounts and unmounts. Default: the driver creates the target directories and mounts nothing.
	Mounter Mounter
}

// A Mounter changes the node for the driver. Its methods must return nil if the work is done already.
type Mounter interface {
	Mount(volume, target string) error
	Unmount(target string) error
}

// A Driver is the node service of a CSI driver in memory. [Driver.Violations] lists the calls that break a rule of CSI.
// Its methods may be called concurrently.
type Driver struct {
	csipb.UnimplementedNodeServer
	csipb.UnimplementedIdentityServer
	config Config

	mu     sync.Mutex
	calls  []Call
	faults []*Fault
	// staged has the staging path of each volume, and published the targets of each.
	staged    map[string]string
	published map[string]map[string]*csipb.NodePublishVolumeRequest
	busy      map[string]string
	broken    []string
	inUse     func(target string) bool
	// usage is the answer of NodeGetVolumeStats for a volume.
	usage map[string]*csipb.NodeGetVolumeStatsResponse
}

// A Call is a call that the driver received. Its method is written without "Volume", such as NodeStage.
type Call struct {
	Method, Volume, Target string
	// Code is the answer's code.
	Code codes.Code
}

// String returns the call as one line.
func (c Call) String() string { return fmt.Sprintf("%s %s %s", c.Method, c.Volume, c.Code) }

// A Fault makes calls fail or wait.
type Fault struct {
	// Method is the calls' name, such as NodeStage. Volume is empty for all volumes.
	Method, Volume string
	// Times is the number of calls that the fault affects; zero means all calls.
	Times int
	// Code is the returned error's code. With OK, the fault only delays the call.
	Code codes.Code
	// Message is the error's message. Default: the code's name.
	Message string
	// Delay is the time that the call takes.
	Delay time.Duration
	// Done means that the driver does the work and still returns the error.
	Done bool
	// Deaf means that the driver completes the call even if the caller cancels it.
	Deaf bool
}

// New returns a driver.
func New(c Config) *Driver {
	if c.Name == "" {
		c.Name = "csi.example.com"
	}
	if c.NodeID == "" {
		c.NodeID = "node-1"
	}
	if c.Mounter == nil {
		c.Mounter = directories{}
	}
	return &Driver{config: c, staged: map[string]string{}, published: map[string]map[string]*csipb.NodePublishVolumeRequest{}, busy: map[string]string{}, usage: map[string]*csipb.NodeGetVolumeStatsResponse{}}
}

// directories is a Mounter that creates directories.
type directories struct{}

func (directories) Mount(_, target string) error { return os.MkdirAll(target, 0o750) }

func (directories) Unmount(target string) error {
	if err := os.Remove(target); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Register adds the driver's services to a server.
func (d *Driver) Register(s grpc.ServiceRegistrar) {
	csipb.RegisterNodeServer(s, d)
	csipb.RegisterIdentityServer(s, d)
}

// TB is a part of testing.TB.
type TB interface {
	Helper()
	Fatal(args ...any)
	Cleanup(f func())
}

// Start returns a driver and an in-memory connection to it, which works in testing/synctest bubbles. The cleanup of the
// test closes both.
func Start(t TB, c Config) (*Driver, *grpc.ClientConn) {
	t.Helper()
	d := New(c)
	lis := &pipes{accept: make(chan net.Conn), closed: make(chan struct{})}
	server := grpc.NewServer()
	d.Register(server)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(lis) // returns when the test ends
	}()
	conn, err := grpc.NewClient("passthrough:///csitest", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(lis.dial))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close() // may be closed already
		server.Stop()
		<-served
	})
	return d, conn
}

// pipes is a listener in memory.
type pipes struct {
	accept chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (p *pipes) dial(ctx context.Context, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.accept <- server:
		return client, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "csitest" }

// Inject adds a fault. If several faults match a call, the earliest applies.
func (d *Driver) Inject(f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, &f)
}

// Heal removes all faults.
func (d *Driver) Heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = nil
}

// SetInUse sets the function that reports whether a container uses a target. To unmount a target in use is a violation.
func (d *Driver) SetInUse(inUse func(target string) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inUse = inUse
}

// SetUsage sets the answer of NodeGetVolumeStats for a volume. Default: 1 of 10 GiB is used, and the volume is not faulty.
func (d *Driver) SetUsage(volume string, answer *csipb.NodeGetVolumeStatsResponse) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.usage[volume] = answer
}

// Calls returns the calls that concern a volume, ordered by their answers.
func (d *Driver) Calls() []Call {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.calls)
}

// Violations returns the broken rules of CSI, one line for each call that broke one.
func (d *Driver) Violations() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.broken)
}

// Volumes returns how many volumes are staged, and how many targets are published.
func (d *Driver) Volumes() (staged, published int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, targets := range d.published {
		published += len(targets)
	}
	return len(d.staged), published
}

// Published returns the requests of the volumes that are published now, sorted by target.
func (d *Driver) Published() []*csipb.NodePublishVolumeRequest {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []*csipb.NodePublishVolumeRequest
	for _, targets := range d.published {
		for _, req := range targets {
			all = append(all, req)
		}
	}
	slices.SortFunc(all, func(a, b *csipb.NodePublishVolumeRequest) int { return cmpString(a.TargetPath, b.TargetPath) })
	return all
}

func cmpString(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// violate records a violation. The caller holds the lock.
func (d *Driver) violate(format string, args ...any) {
	d.broken = append(d.broken, fmt.Sprintf(format, args...))
}

// do carries out a call, with the faults that match it.
func (d *Driver) do(ctx context.Context, method, volume, target string, work func() error) error {
	d.mu.Lock()
	if volume == "" || !filepath.IsAbs(target) {
		d.violate("%s of volume %q at %q", method, volume, target)
	}
	if other, ok := d.busy[volume]; ok {
		d.mu.Unlock()
		return status.Errorf(codes.Aborted, "%s of the volume is under way", other)
	}
	d.busy[volume] = method
	f := d.fault(method, volume)
	d.mu.Unlock()
	gone := pause(ctx, f)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.busy, volume)
	var err error
	if (f.Code == codes.OK || f.Done) && (gone == nil || f.Deaf) {
		err = work()
	}
	switch {
	case gone != nil:
		err = status.FromContextError(gone).Err()
	case f.Code != codes.OK:
		err = status.Error(f.Code, cmpOr(f.Message, f.Code.String()))
	case err != nil && status.Code(err) == codes.Unknown:
		err = status.Error(codes.Internal, err.Error())
	}
	d.calls = append(d.calls, Call{method, volume, target, status.Code(err)})
	return err
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// pause waits as long as the call takes. It returns an error if the caller cancels the call meanwhile.
func pause(ctx context.Context, f Fault) error {
	if f.Delay == 0 {
		return nil
	}
	timer := time.NewTimer(f.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		if f.Deaf {
			<-timer.C
		}
		return ctx.Err()
	}
}

// fault returns the first fault that matches a call. The caller holds the lock.
func (d *Driver) fault(method, volume string) Fault {
	for i, f := range d.faults {
		if f.Method != method || f.Volume != "" && f.Volume != volume {
			continue
		}
		found := *f
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				d.faults = slices.Delete(d.faults, i, i+1)
			}
		}
		return found
	}
	return Fault{}
}
