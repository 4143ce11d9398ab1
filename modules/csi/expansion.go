package csi

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Expansions records how the node expands the file systems of PersistentVolumes, as a kubelet does in the status of
// their claims (KEP-1790). Its methods may be called concurrently.
type Expansions interface {
	// Expanding is called before the node expands a file system to a size in bytes. If it returns an error, the node
	// retries later, and does not expand the file system before.
	Expanding(ctx context.Context, volume string, bytes int64) error
	// Expanded is called when an expansion has succeeded or failed for certain, and again while the claim does not have
	// the size. It must return soon, and must not call the Manager. The node retries an expansion that has failed. The
	// error matches ErrInfeasible if the driver says that a retry is of no use.
	Expanded(volume string, bytes int64, err error)
}

// An error matches ErrInfeasible if the driver has rejected an expansion with InvalidArgument, OutOfRange or NotFound.
// That error's message is the driver's, shortened and without secrets.
var ErrInfeasible = errors.New("the volume cannot be expanded to this size")

// Is reports whether the error is an infeasible expansion.
func (e *callError) Is(target error) bool {
	if target != ErrInfeasible || e.call != expandCall {
		return false
	}
	switch status.Code(e.err) {
	case codes.InvalidArgument, codes.OutOfRange, codes.NotFound:
		return true
	}
	return false
}

// expandCall is the name of the call that expands a volume.
const expandCall = "NodeExpandVolume"

// expanding records that the node is about to expand a file system.
func (m *Manager) expanding(ctx context.Context, s *source) error {
	if m.config.Expansions == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	return m.config.Expansions.Expanding(ctx, s.Name, s.Size)
}

// expanded records an expansion's result, unless it is uncertain.
func (m *Manager) expanded(s *source, err error) {
	if m.config.Expansions == nil || errors.Is(err, errNotStarted) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return
	}
	if call, ok := errors.AsType[*callError](err); ok && !call.final() {
		return
	}
	m.config.Expansions.Expanded(s.Name, s.Size, err)
}
