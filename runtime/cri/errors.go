package cri

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Class says what an error of a CRI call means to its caller. A Class is itself
// an error, to be tested for with errors.Is:
//
//	if errors.Is(err, cri.ErrNotFound) { ... }
type Class string

// Error returns the class in words.
func (c Class) Error() string { return string(c) }

// The classes. Classify gives an error one of them. An error that joins several,
// as of pulls with several credentials, has the class of each.
const (
	// ErrNotFound: the object is not there. For a stop or a remove that is success.
	ErrNotFound Class = "not found"
	// ErrAlreadyExists: an object with that name exists.
	ErrAlreadyExists Class = "already exists"
	// ErrNameReserved: another create with the same name is in flight, or was
	// left half done; see Error.Holder (containerd #4604, cri-o #7010).
	ErrNameReserved Class = "name reserved"
	// ErrUnavailable: the runtime could not be reached or went away during the
	// call. Whether the call had an effect is not known.
	ErrUnavailable Class = "runtime unavailable"
	// ErrDeadline: the call's time ran out. Whether it had, or will yet have, an
	// effect is not known.
	ErrDeadline Class = "deadline exceeded"
	// ErrCanceled: the caller's context ended. Whether the call had an effect is
	// not known.
	ErrCanceled Class = "canceled"
	// ErrUnimplemented: the runtime does not know the call.
	ErrUnimplemented Class = "unimplemented"
	// ErrInvalid: the runtime refused the arguments.
	ErrInvalid Class = "invalid argument"
	// ErrPermission: the runtime, or a registry behind it, refused access.
	ErrPermission Class = "permission denied"
	// ErrPrecondition: the object is not in a state that allows the call.
	ErrPrecondition Class = "failed precondition"
	// ErrExhausted: a resource ran out, or a message was larger than
	// Config.MaxMessageBytes.
	ErrExhausted Class = "resource exhausted"
	// ErrRegistryUnavailable: the image's registry could not be reached.
	ErrRegistryUnavailable Class = "registry unavailable"
	// ErrSignature: the image's signature was not accepted.
	ErrSignature Class = "signature validation failed"
	// ErrUnknown: all the rest.
	ErrUnknown Class = "unknown error"
)

// Error is an error of a CRI call with its class.
type Error struct {
	// Class is one of the constants above.
	Class Class
	// Holder is the identifier of the object that holds the name, when Class is
	// ErrNameReserved and the runtime named it. Empty otherwise.
	Holder string
	// Err is the error as the call returned it.
	Err error
}

// Error returns the runtime's own words.
func (e *Error) Error() string {
	if s, ok := e.Err.(interface{ GRPCStatus() *status.Status }); ok {
		return fmt.Sprintf("%s (%s)", s.GRPCStatus().Message(), s.GRPCStatus().Code())
	}
	return e.Err.Error()
}

// Unwrap lets errors.Is find the class and errors.As the error beneath.
func (e *Error) Unwrap() []error { return []error{e.Class, e.Err} }

// Classify returns err with its class. It returns nil for nil, and an error that has a class
// unchanged. It distinguishes errors of a generated CRI client, plain or wrapped, by their gRPC
// code and, where runtimes use the codes inconsistently, by their text; no other code interprets
// either.
func Classify(err error) error {
	var classified *Error
	if err == nil || errors.As(err, &classified) {
		return err
	}
	class, holder := classOf(err)
	return &Error{Class: class, Holder: holder, Err: err}
}

// Ambiguous reports whether err leaves the outcome of the call unknown: it may have, or may still
// get, its effect. Only an inspection of the runtime shows that.
func Ambiguous(err error) bool {
	err = Classify(err)
	return errors.Is(err, ErrDeadline) || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrCanceled) ||
		errors.Is(err, ErrNameReserved) || errors.Is(err, ErrAlreadyExists)
}

// IgnoreNotFound returns nil for an error of class ErrNotFound, and otherwise
// the classified error: what a stop or a remove has to report.
func IgnoreNotFound(err error) error {
	if err = Classify(err); errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

func classOf(err error) (class Class, holder string) {
	s, ok := status.FromError(err)
	if !ok {
		return classOfContext(err), ""
	}
	if class, holder := classOfText(s.Message()); class != "" && textDecides(s.Code()) {
		return class, holder
	}
	return classOfCode(s.Code()), ""
}

func classOfContext(err error) Class {
	switch {
	case errors.Is(err, context.Canceled):
		return ErrCanceled
	case errors.Is(err, context.DeadlineExceeded):
		return ErrDeadline
	}
	return ErrUnknown
}

// textDecides reports whether runtimes use the code for anything that they have
// no better code for. Codes that the gRPC library itself sets are trusted.
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

// classOfText knows the texts that runtimes send under a code that says less.
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
		// CRI-O names the identifier it had meant for the new object, not the holder's.
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

// saysNotFound accepts only texts that say nothing else, of the container, sandbox
// or image itself: an error that mentions in passing something that was not found,
// be it a container in the words of a network plugin, must not pass for success
// (kubernetes #106734).
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

// cutObject takes the kind of object from the beginning of a text.
func cutObject(text string) (rest string, ok bool) {
	for _, kind := range []string{"container", "pod sandbox", "sandbox", "image"} {
		if rest, ok := strings.CutPrefix(text, kind); ok {
			return rest, true
		}
	}
	return "", false
}

// isOneWord accepts an identifier, in quotes or not, or nothing.
func isOneWord(text string) bool {
	return text == "" || text[0] == ' ' && !strings.ContainsAny(text[1:], " \t\n") && !strings.HasSuffix(text, ":")
}

// holderOf takes the identifier out of containerd's
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
