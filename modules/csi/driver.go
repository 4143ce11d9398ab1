package csi

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podsync/podsync/runtime/foreign"
)

const (
	// callTimeout is the timeout for one operation of a driver, as in a
	// kubelet.
	callTimeout = 2 * time.Minute
	// maxAnswer is the maximum size of a driver's answer in bytes.
	maxAnswer = 1 << 20
	// maxMessage is the maximum length of a driver's message in an error, in bytes.
	maxMessage = 1024
	// maxDriver is the maximum length of a driver's name, as in CSI.
	maxDriver = 63
)

// driverName matches a driver's name: a domain name, which is also used as a directory's name.
var driverName = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$`)

func checkDriver(name string) error {
	if len(name) > maxDriver || !driverName.MatchString(name) {
		return fmt.Errorf("driver name %.80q is invalid: want at most %d letters, digits, dots and dashes", name, maxDriver)
	}
	return nil
}

// A driver is a CSI driver that is registered.
type driver struct {
	name string
	node csipb.NodeClient
	// socket is the registration socket, empty for a driver of Config.Drivers, which does not register. close ends the
	// connection.
	socket string
	close  func() error
	info   DriverInfo
	// stages, expands, groups and stats are capabilities: the driver stages, expands, sets the group of files, and
	// reports usage. conditions means that the usage says whether a volume is faulty. singleWriter means that it supports the access modes of ReadWriteOncePod.
	stages, expands, groups, stats, conditions, singleWriter bool
}

// DriverInfo is the driver's report about the node, for the CSINode.
type DriverInfo struct {
	// Name is the driver's name, and NodeID the driver's name for the node.
	Name, NodeID string
	// MaxVolumes is the maximum number of the driver's volumes on the node, zero if the driver sets no limit.
	MaxVolumes int64
	// Topology are the labels that say where in the cluster the node can reach volumes.
	Topology map[string]string
}

// queryDriver asks a driver for its name and capabilities, and returns it.
func queryDriver(ctx context.Context, name string, conn grpc.ClientConnInterface) (*driver, error) {
	d := &driver{name: name, node: csipb.NewNodeClient(conn), close: func() error { return nil }}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	info, err := d.node.NodeGetInfo(ctx, &csipb.NodeGetInfoRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return nil, &callError{call: "NodeGetInfo", err: err}
	}
	if d.info, err = checkInfo(name, info); err != nil {
		return nil, err
	}
	resp, err := d.node.NodeGetCapabilities(ctx, &csipb.NodeGetCapabilitiesRequest{})
	if err != nil {
		return nil, &callError{call: "NodeGetCapabilities", err: err}
	}
	for _, c := range resp.GetCapabilities() {
		switch c.GetRpc().GetType() {
		case csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME:
			d.stages = true
		case csipb.NodeServiceCapability_RPC_EXPAND_VOLUME:
			d.expands = true
		case csipb.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP:
			d.groups = true
		case csipb.NodeServiceCapability_RPC_GET_VOLUME_STATS:
			d.stats = true
		case csipb.NodeServiceCapability_RPC_VOLUME_CONDITION:
			d.conditions = true
		case csipb.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER:
			d.singleWriter = true
		}
	}
	return d, nil
}

// checkInfo rejects an answer that the API server would reject in a CSINode.
func checkInfo(name string, info *csipb.NodeGetInfoResponse) (DriverInfo, error) {
	d := DriverInfo{Name: name, NodeID: info.GetNodeId(), MaxVolumes: info.GetMaxVolumesPerNode(), Topology: info.GetAccessibleTopology().GetSegments()}
	switch {
	case d.NodeID == "" || len(d.NodeID) > 256:
		return d, fmt.Errorf("driver %s: NodeGetInfo: node_id has %d bytes, want 1 to 256", name, len(d.NodeID))
	case d.MaxVolumes < 0:
		return d, fmt.Errorf("driver %s: NodeGetInfo: max_volumes_per_node is %d", name, d.MaxVolumes)
	case len(d.Topology) > maxTopology:
		return d, fmt.Errorf("driver %s: NodeGetInfo: accessible_topology has %d segments, want at most %d", name, len(d.Topology), maxTopology)
	}
	return d, nil
}

// maxTopology is the maximum number of labels that a driver may give to the node.
const maxTopology = 64

// A callError is a call's error to a driver. Its text is bounded and contains none of the call's secrets.
type callError struct {
	call    string
	secrets map[string]string
	err     error
}

// Error returns the kubelet's text for the error.
func (e *callError) Error() string {
	s, _ := status.FromError(e.err)
	var secrets foreign.Secrets
	for _, secret := range e.secrets {
		secrets.Add(secret)
	}
	text := secrets.Redact(s.Message())
	return fmt.Sprintf("rpc error: code = %s desc = %s (%s)", s.Code(), foreign.Cut(text, maxMessage), e.call)
}

// final reports whether the driver rejected the operation, so that nothing has changed. After other errors the
// operation may still be in progress (see the error codes in the CSI specification).
func (e *callError) final() bool {
	switch status.Code(e.err) {
	case codes.OK, codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
		return false
	case codes.Unknown:
		_, answered := status.FromError(e.err)
		return answered
	}
	return true
}

// errNotStarted marks an error of a step that failed before the driver was called or anything was mounted.
var errNotStarted = errors.New("not started")

// A notStarted is the cause of an error that matches errNotStarted.
type notStarted struct{ error }

func (e notStarted) Unwrap() []error { return []error{e.error, errNotStarted} }

// notStartedIf marks an error as notStarted, unless it is nil.
func notStartedIf(err error) error {
	if err == nil {
		return nil
	}
	return notStarted{err}
}

// hasEffect reports whether a failed step may have changed something. An undo step may always have stopped half-way,
// whatever the driver answers (kubernetes #106729).
func hasEffect(action Action, err error) bool {
	if errors.Is(err, errNotStarted) {
		return false
	}
	if action == Unpublish || action == Unstage {
		return true
	}
	if call, ok := errors.AsType[*callError](err); ok {
		return !call.final()
	}
	return true
}
