package csi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const (
	// callTimeout is how long a driver may take for one operation, as with a kubelet.
	callTimeout = 2 * time.Minute
	// maxAnswer bounds an answer of a driver in bytes, maxHeaders its headers, in which its errors are, and window what is under way.
	maxAnswer, maxHeaders, window = 1 << 20, 16 << 10, 64 << 10
	// maxMessage limits the part of a driver's error that is repeated.
	maxMessage = 1024
	// maxDriver bounds the name of a driver, as CSI does.
	maxDriver = 63
)

// driverName is the form of a driver's name: a domain name, which may become a directory.
var driverName = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$`)

func checkDriver(name string) error {
	if len(name) > maxDriver || !driverName.MatchString(name) {
		return fmt.Errorf("driver name %.80q is none of CSI: at most %d letters, digits, dots and dashes", name, maxDriver)
	}
	return nil
}

// A driver is a CSI driver that is registered.
type driver struct {
	name string
	node csipb.NodeClient
	// socket is the registration socket, empty for one of Config.Drivers, which does not register. close ends the connection.
	socket string
	close  func() error
	info   DriverInfo
	// stages, expands, groups and stats are capabilities: stage and unstage, expand, set the group of
	// files, and report usage. singleWriter: it knows the access modes of ReadWriteOncePod.
	stages, expands, groups, stats, singleWriter bool
}

// DriverInfo is what a driver reports of the node, for its CSINode.
type DriverInfo struct {
	// Name is the driver's, and NodeID the node's in its words.
	Name, NodeID string
	// MaxVolumes is how many of its volumes the node can have, zero if it does not say.
	MaxVolumes int64
	// Topology are the labels of the node that say where its volumes can be.
	Topology map[string]string
}

// dialDriver connects to the socket of a driver.
func dialDriver(path string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///csi", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)), grpc.WithMaxHeaderListSize(maxHeaders),
		grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}))
}

// askDriver returns a driver that has answered who it is and what it can do.
func askDriver(ctx context.Context, name string, conn grpc.ClientConnInterface) (*driver, error) {
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
		case csipb.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER:
			d.singleWriter = true
		}
	}
	return d, nil
}

// checkInfo refuses what the API server would refuse in a CSINode.
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

// maxTopology is how many labels a driver may give to the node.
const maxTopology = 64

// A callError is the answer of a driver to a call. Its text is bounded and has none of the secrets of the call.
type callError struct {
	call    string
	secrets map[string]string
	err     error
}

// Error returns the answer as kubelets report it.
func (e *callError) Error() string {
	s, _ := status.FromError(e.err)
	text := s.Message()
	for _, secret := range e.secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "..."
	}
	return fmt.Sprintf("rpc error: code = %s desc = %s (%s)", s.Code(), text, e.call)
}

// final reports whether the driver has refused the operation, so that nothing has changed. Other errors leave open
// whether the operation goes on (CSI: the error codes of all calls).
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

// errNotStarted is what an error wraps if a step failed before anything was called or mounted.
var errNotStarted = errors.New("not started")

// A notStarted is the reason why a step was not begun.
type notStarted struct{ error }

func (e notStarted) Unwrap() []error { return []error{e.error, errNotStarted} }

// hasEffect reports whether a step that failed may have changed something. One that undoes something may have come
// half-way, whatever the driver answers (kubernetes #106729).
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
