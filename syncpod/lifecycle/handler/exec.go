package handler

import (
	"context"
	"errors"
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
)

func (r *Runner) runExec(ctx context.Context, req Request) (Result, error) {
	switch {
	case len(req.Handler.Exec.Command) == 0:
		return Result{}, invalid("exec.command is empty")
	case req.ContainerID == "":
		return Result{}, invalid("Request.ContainerID is required by an exec")
	}
	resp, err := r.exec.ExecSync(ctx, &runtimeapi.ExecSyncRequest{
		ContainerId: req.ContainerID,
		Cmd:         slices.Clone(req.Handler.Exec.Command),
		Timeout:     timeout(ctx),
	})
	if err != nil {
		return r.execFailed(err)
	}
	var result Result
	result.Output, result.Truncated = r.tail(resp.GetStdout(), resp.GetStderr())
	if code := resp.GetExitCode(); code != 0 {
		return result, exitError(code)
	}
	return result, nil
}

// execFailed keeps the class of a runtime's error. It moves its text to the field for texts that may contain
// output, because CRI-O repeats both streams in it.
func (r *Runner) execFailed(err error) (Result, error) {
	var classified *cri.Error
	if !errors.As(cri.Classify(err), &classified) {
		return Result{}, cri.ErrUnknown
	}
	detail, truncated := r.tail([]byte(classified.Error()))
	return Result{Detail: string(detail), Truncated: truncated}, classified.Class
}

// timeout returns the time until ctx's deadline in seconds, rounded up, 0 for no deadline.
func timeout(ctx context.Context) int64 {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return max(1, int64((time.Until(deadline)+time.Second-1)/time.Second))
}

// tail returns the last bytes of the parts, in newly allocated memory.
func (r *Runner) tail(parts ...[]byte) (kept []byte, truncated bool) {
	all := 0
	for _, p := range parts {
		all += len(p)
	}
	skip := max(0, all-r.maxOutput)
	kept = make([]byte, 0, all-skip)
	truncated = skip > 0
	for _, p := range parts {
		n := min(skip, len(p))
		kept = append(kept, p[n:]...)
		skip -= n
	}
	return kept, truncated
}
