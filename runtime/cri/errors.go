package cri

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podsync/podsync/runtime/foreign"
)

// Class is what a CRI call's error means for the caller. A Class is itself an error. Test for it
// with errors.Is:
//
//	if errors.Is(err, cri.ErrNotFound) { ... }
type Class string

// Error returns the class as text.
func (c Class) Error() string { return string(c) }

// The classes. Classify gives an error its class. An error that joins several errors, such as those
// from pulls with several credentials, has each class.
const (
	// ErrNotFound: the object does not exist. A stop or a remove treats this as success.
	ErrNotFound Class = "not found"
	// ErrAlreadyExists: an object with that name exists.
	ErrAlreadyExists Class = "already exists"
	// ErrNameReserved: another request is creating an object with the same name, or an earlier one
	// was left incomplete; see Error.Holder (containerd #4604, cri-o #7010).
	ErrNameReserved Class = "name reserved"
	// ErrUnavailable: the runtime could not be reached, or became unavailable during the call. It is
	// unknown whether the call had an effect.
	ErrUnavailable Class = "runtime unavailable"
	// ErrDeadline: the call timed out. It is unknown whether the call had an effect, or will still
	// have one.
	ErrDeadline Class = "deadline exceeded"
	// ErrCanceled: the caller's context ended. It is unknown whether the call had an effect.
	ErrCanceled Class = "canceled"
	// ErrUnimplemented: the runtime does not implement the call.
	ErrUnimplemented Class = "unimplemented"
	// ErrInvalid: the runtime rejected the arguments.
	ErrInvalid Class = "invalid argument"
	// ErrPermission: the runtime, or a registry behind it, denied access.
	ErrPermission Class = "permission denied"
	// ErrPrecondition: the object's state does not allow the call.
	ErrPrecondition Class = "failed precondition"
	// ErrExhausted: a resource is exhausted, or a message was larger than Config.MaxMessageBytes.
	ErrExhausted Class = "resource exhausted"
	// ErrRegistryUnavailable: the image's registry could not be reached.
	ErrRegistryUnavailable Class = "registry unavailable"
	// ErrSignature: the image's signature was not accepted.
	ErrSignature Class = "signature validation failed"
	// ErrUnknown: any other error.
	ErrUnknown Class = "unknown error"
)

// Error is an error from a CRI call with its class.
type Error struct {
	// Class is one of the classes above.
	Class Class
	// Holder identifies the object that holds the name, if Class is ErrNameReserved and the
	// runtime reported it. Otherwise it is empty.
	Holder string
	// Err is the error that the call returned. If its text was long or not printable, Err is another
	// error with the same code, with a text that package foreign has bounded.
	Err error
}

// Error returns the runtime's own text, or the error of the connection without gRPC's words around it.
func (e *Error) Error() string {
	s, ok := e.Err.(grpcError)
	if !ok {
		return e.Err.Error()
	}
	text := s.GRPCStatus().Message()
	if quoted, ok := strings.CutPrefix(text, "connection error: desc = "); ok {
		if cause, err := strconv.Unquote(quoted); err == nil {
			text = strings.TrimPrefix(cause, "transport: Error while dialing: ")
		}
	}
	return fmt.Sprintf("%s (%s)", text, s.GRPCStatus().Code())
}

// Unwrap lets errors.Is find the class, and errors.As the underlying error.
func (e *Error) Unwrap() []error { return []error{e.Class, e.Err} }

// Classify returns err with its class. It returns nil for nil, and an error that has a class unchanged. errors.ErrUnsupported has
// the class ErrUnimplemented. It distinguishes errors from a generated CRI client, plain or wrapped, by their gRPC code and,
// where runtimes use the codes inconsistently, by their text; no other code interprets either.
func Classify(err error) error {
	var class Class
	if err == nil || errors.As(err, &class) {
		return err
	}
	class, holder := classOf(err)
	return &Error{Class: class, Holder: foreign.Word(holder), Err: boundText(err)}
}

// Withhold returns an error of err's class without the runtime's text. Use it where the text may repeat secrets that the
// caller does not know.
func Withhold(err error) error {
	if err = Classify(err); err == nil {
		return nil
	}
	class, _ := errors.AsType[Class](err)
	text := class.Error() + ": " + foreign.Withheld
	return &Error{Class: class, Err: foreign.ErrorWith(err, func(string) string { return text })}
}

// Ambiguous reports whether err leaves the call's outcome unknown: the call may have had its
// effect, or may take effect later. Only the runtime shows which.
func Ambiguous(err error) bool {
	err = Classify(err)
	return errors.Is(err, ErrDeadline) || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrCanceled) ||
		errors.Is(err, ErrNameReserved) || errors.Is(err, ErrAlreadyExists)
}

// IgnoreNotFound returns nil for an error in the class ErrNotFound, and otherwise the classified
// error. Use it for a stop's or a removal's result.
func IgnoreNotFound(err error) error {
	if err = Classify(err); errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

func classOf(err error) (class Class, holder string) {
	s, ok := status.FromError(err)
	if !ok {
		return classOfPlain(err), ""
	}
	if class, holder := classOfText(s.Message()); class != "" && textDecides(s.Code()) {
		return class, holder
	}
	return classOfCode(s.Code()), ""
}

// classOfPlain returns the class for an error without a gRPC status, such as one from a client without a
// connection.
func classOfPlain(err error) Class {
	switch {
	case errors.Is(err, context.Canceled):
		return ErrCanceled
	case errors.Is(err, context.DeadlineExceeded):
		return ErrDeadline
	case errors.Is(err, errors.ErrUnsupported):
		return ErrUnimplemented
	}
	return ErrUnknown
}

// textDecides reports whether runtimes use the code for errors that have no better code, so that the
// text must decide. Codes that the gRPC library itself sets are trusted.
func textDecides(c codes.Code) bool {
	switch c {
	case codes.Unknown, codes.Internal, codes.AlreadyExists, codes.FailedPrecondition, codes.Aborted:
		return true
	}
	return false
}

func classOfCode(c codes.Code) Class {
	switch c {
	case codes.NotFound:
		return ErrNotFound
	case codes.AlreadyExists:
		return ErrAlreadyExists
	case codes.Unavailable, codes.Aborted:
		return ErrUnavailable
	case codes.DeadlineExceeded:
		return ErrDeadline
	case codes.Canceled:
		return ErrCanceled
	case codes.Unimplemented:
		return ErrUnimplemented
	case codes.InvalidArgument, codes.OutOfRange:
		return ErrInvalid
	case codes.PermissionDenied, codes.Unauthenticated:
		return ErrPermission
	case codes.FailedPrecondition:
		return ErrPrecondition
	case codes.ResourceExhausted:
		return ErrExhausted
	}
	return ErrUnknown
}

// classOfText returns the class for a known error text. Runtimes send these texts with a generic
// code.
func classOfText(text string) (class Class, holder string) {
	lower := strings.ToLower(text)
	switch {
	case strings.HasPrefix(text, "RegistryUnavailable"):
		return ErrRegistryUnavailable, ""
	case strings.HasPrefix(text, "SignatureValidationFailed"):
		return ErrSignature, ""
	case strings.Contains(lower, "is reserved for"):
		return ErrNameReserved, holderOf(text)
	case strings.HasSuffix(lower, "name is reserved"), strings.Contains(lower, "name is reserved:"):
		// CRI-O reports the identifier that it intended for the new object, not the holder's.
		return ErrNameReserved, ""
	case saysNotFound(lower):
		return ErrNotFound, ""
	case strings.HasSuffix(lower, "context deadline exceeded"):
		return ErrDeadline, ""
	case strings.HasSuffix(lower, "context canceled"):
		return ErrCanceled, ""
	}
	return "", ""
}

// saysNotFound reports whether the text says that the container, sandbox or image itself was not
// found, and says nothing else. A text that mentions some other missing object in passing, even a
// container in a network plugin's words, must not count as success (kubernetes #106734).
func saysNotFound(lower string) bool {
	text := strings.TrimPrefix(lower, "error: ")
	if rest, ok := strings.CutPrefix(text, "no such "); ok {
		id, ok := cutObject(rest)
		return ok && isOneWord(strings.TrimPrefix(id, ":"))
	}
	for _, end := range []string{" not found", " does not exist"} {
		if rest, ok := strings.CutSuffix(text, end); ok {
			id, ok := cutObject(rest)
			return ok && isOneWord(id)
		}
	}
	return false
}

// cutObject removes the object kind with which a text begins.
func cutObject(text string) (rest string, ok bool) {
	for _, kind := range []string{"container", "pod sandbox", "sandbox", "image"} {
		if rest, ok := strings.CutPrefix(text, kind); ok {
			return rest, true
		}
	}
	return "", false
}

// isOneWord reports whether the text is one identifier, quoted or not, or empty.
func isOneWord(text string) bool {
	return text == "" || text[0] == ' ' && !strings.ContainsAny(text[1:], " \t\n") && !strings.HasSuffix(text, ":")
}

// holderOf extracts the identifier from containerd's text
//
//	failed to reserve sandbox name "n": name "n" is reserved for "id"
func holderOf(text string) string {
	_, after, ok := strings.Cut(text, "is reserved for ")
	if !ok {
		return ""
	}
	id := strings.FieldsFunc(after, func(r rune) bool { return r == '"' || r == '\\' || r == ' ' || r == ':' || r == ',' })
	if len(id) == 0 {
		return ""
	}
	return id[0]
}
