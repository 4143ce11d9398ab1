package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

func TestClassify(t *testing.T) {
	rpc := func(c codes.Code, text string) error { return status.Error(c, text) }
	for name, tc := range map[string]struct {
		err    error
		want   Class
		holder string
	}{
		"not found":           {rpc(codes.NotFound, "x"), ErrNotFound, ""},
		"K2 under Unknown":    {rpc(codes.Unknown, "Error: No such container: abc"), ErrNotFound, ""},
		"sandbox not found":   {rpc(codes.Unknown, `sandbox "abc" not found`), ErrNotFound, ""},
		"container gone":      {rpc(codes.Internal, "container abc does not exist"), ErrNotFound, ""},
		"another thing":       {rpc(codes.Unknown, "failed to start: exec: \"runc\": executable file not found"), ErrUnknown, ""},
		"network namespace":   {rpc(codes.Unknown, "failed to stop container abc: netns /x: file not found in path"), ErrUnknown, ""},
		"quoted":              {rpc(codes.Unknown, `Error: no such pod sandbox "abc"`), ErrNotFound, ""},
		"without an ID":       {rpc(codes.Unknown, "container not found"), ErrNotFound, ""},
		"CNI text":            {rpc(codes.Unknown, `failed to destroy network for sandbox "x": plugin type="multus" failed (delete): no such container`), ErrUnknown, ""},
		"CNI text at the end": {rpc(codes.Unknown, `sandbox abc: delete network: container not found`), ErrUnknown, ""},
		"what came of it":     {rpc(codes.Unknown, "no such container: abc, its mounts are busy"), ErrUnknown, ""},
		"subject of another":  {rpc(codes.Unknown, "container abc: task does not exist"), ErrUnknown, ""},
		"already exists":      {rpc(codes.AlreadyExists, "x"), ErrAlreadyExists, ""},
		"unavailable":         {rpc(codes.Unavailable, "connection refused"), ErrUnavailable, ""},
		"restarting":          {rpc(codes.Unavailable, "error reading from server: EOF"), ErrUnavailable, ""},
		"deadline":            {rpc(codes.DeadlineExceeded, "context deadline exceeded"), ErrDeadline, ""},
		"deadline in text":    {rpc(codes.Unknown, "failed to setup network: context deadline exceeded"), ErrDeadline, ""},
		"canceled":            {rpc(codes.Canceled, "x"), ErrCanceled, ""},
		"unimplemented":       {rpc(codes.Unimplemented, "unknown method"), ErrUnimplemented, ""},
		"invalid":             {rpc(codes.InvalidArgument, "no such container option"), ErrInvalid, ""},
		"permission":          {rpc(codes.PermissionDenied, "x"), ErrPermission, ""},
		"unauthenticated":     {rpc(codes.Unauthenticated, "x"), ErrPermission, ""},
		"precondition":        {rpc(codes.FailedPrecondition, "not running"), ErrPrecondition, ""},
		"message too large":   {rpc(codes.ResourceExhausted, "grpc: received message larger than max"), ErrExhausted, ""},
		"registry":            {rpc(codes.Unknown, "RegistryUnavailable: dial tcp"), ErrRegistryUnavailable, ""},
		"signature":           {rpc(codes.Unknown, "SignatureValidationFailed: no key"), ErrSignature, ""},
		"anything":            {rpc(codes.Internal, "boom"), ErrUnknown, ""},
		"plain":               {io.ErrUnexpectedEOF, ErrUnknown, ""},
		"context's own":       {context.Canceled, ErrCanceled, ""},
		"context's deadline":  {fmt.Errorf("wait: %w", context.DeadlineExceeded), ErrDeadline, ""},
		"wrapped":             {fmt.Errorf("stop: %w", rpc(codes.NotFound, "x")), ErrNotFound, ""},
		"containerd reserved": {rpc(codes.Unknown, `failed to reserve sandbox name "p_ns_u_0": name "p_ns_u_0" is reserved for "9d423d30"`), ErrNameReserved, "9d423d30"},
		"containerd exists":   {rpc(codes.AlreadyExists, `name "n" is reserved for "c1": already exists`), ErrNameReserved, "c1"},
		"cri-o reserved": {rpc(codes.Unknown, "Kubelet may be retrying requests that are timing out in CRI-O due to system load: "+
			"context deadline exceeded: error reserving pod name k8s_p_ns_u_0 for id b421a43db: name is reserved"), ErrNameReserved, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := Classify(tc.err)
			var e *Error
			if !errors.Is(got, tc.want) || !errors.As(got, &e) || e.Holder != tc.holder {
				t.Errorf("Classify(%v) = %#v, want class %q and holder %q", tc.err, got, tc.want, tc.holder)
			}
			if !errors.Is(got, tc.err) {
				t.Error("the error beneath is lost")
			}
			if again := Classify(fmt.Errorf("more: %w", got)); !errors.Is(again, tc.want) {
				t.Errorf("classified twice: %v", again)
			}
		})
	}
	must.Do(t, Classify(nil))
}

func TestAmbiguous(t *testing.T) {
	ambiguous := []codes.Code{codes.DeadlineExceeded, codes.Unavailable, codes.Canceled, codes.AlreadyExists}
	definite := []codes.Code{codes.NotFound, codes.InvalidArgument, codes.Unimplemented, codes.Internal, codes.ResourceExhausted}
	for _, c := range ambiguous {
		if !Ambiguous(status.Error(c, "x")) {
			t.Errorf("%v leaves nothing open", c)
		}
	}
	for _, c := range definite {
		if Ambiguous(status.Error(c, "x")) {
			t.Errorf("%v leaves open what happened", c)
		}
	}
}

func TestErrorTextIsTheRuntimes(t *testing.T) {
	err := Classify(status.Error(codes.NotFound, "sandbox x is gone"))
	if got, want := err.Error(), "sandbox x is gone (NotFound)"; got != want {
		t.Errorf("error text %q, want %q", got, want)
	}
}

func FuzzClassify(f *testing.F) {
	f.Add(uint32(2), `name "n" is reserved for "`)
	f.Add(uint32(2), "is reserved for ")
	f.Fuzz(func(t *testing.T, code uint32, text string) {
		err := status.Error(codes.Code(code), text)
		if code == 0 {
			if Classify(err) != nil {
				t.Error("OK is no error")
			}
			return
		}
		var e *Error
		if !errors.As(Classify(err), &e) || e.Class == "" {
			t.Errorf("no class for %v", err)
		}
	})
}

// E6: an error with a class is an error of that class, and keeps it.
func TestE6_ClassesAreClassified(t *testing.T) {
	for _, err := range []error{ErrNotFound, ErrUnavailable, fmt.Errorf("wrapped: %w", ErrUnimplemented), errors.Join(ErrInvalid, errors.New("other"))} {
		if got := Classify(err); got != err || errors.Is(got, ErrUnknown) {
			t.Errorf("Classify(%v) = %#v, want it unchanged", err, got)
		}
	}
	if err := IgnoreNotFound(ErrNotFound); err != nil {
		t.Errorf("IgnoreNotFound(%v) = %v", ErrNotFound, err)
	}
}

// E6: a client without gRPC reports a call that it does not have as errors.ErrUnsupported.
func TestE6_UnsupportedIsUnimplemented(t *testing.T) {
	for _, err := range []error{errors.ErrUnsupported, fmt.Errorf("events: %w", errors.ErrUnsupported)} {
		if got := Classify(err); !errors.Is(got, ErrUnimplemented) || errors.Is(got, ErrUnknown) {
			t.Errorf("Classify(%v) = %#v, want %v", err, got, ErrUnimplemented)
		}
	}
}

// An error keeps its class, and the end of its context, but neither its text nor those of the errors that it wraps.
func TestWithhold(t *testing.T) {
	must.Do(t, Withhold(nil))
	for _, original := range []error{
		status.Error(codes.PermissionDenied, "exec hunter2"), &Error{Class: ErrPermission, Holder: "hunter2", Err: errors.New("hunter2")},
		fmt.Errorf("hunter2: %w", ErrPermission),
	} {
		err := Withhold(original)
		e, ok := errors.AsType[*Error](err)
		if text := fmt.Sprintf("%v %#v %#v", err, e, e.Err); !ok || strings.Contains(text, "hunter2") || !errors.Is(err, ErrPermission) {
			t.Errorf("%s of %v, want the class alone", text, original)
		}
	}
	if err := Withhold(fmt.Errorf("hunter2: %w", context.Canceled)); !errors.Is(err, context.Canceled) || !errors.Is(err, ErrCanceled) {
		t.Errorf("%v, want the end of a context", err)
	}
}

// A person reads which socket does not answer, and not how gRPC says it.
func TestErrorOfAConnection(t *testing.T) {
	conn := must.Get(grpc.NewClient("unix://"+t.TempDir()+"/none.sock", grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	_, err := runtimeapi.NewRuntimeServiceClient(conn).Version(t.Context(), &runtimeapi.VersionRequest{})
	err = Classify(err)
	if err == nil || !strings.HasPrefix(err.Error(), "dial unix /") || !strings.HasSuffix(err.Error(), "/none.sock: connect: no such file or directory (Unavailable)") || !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v", err)
	}
}
