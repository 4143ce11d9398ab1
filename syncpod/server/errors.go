package server

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/podsync/podsync/runtime/cri"
)

// A statusError is an error with the HTTP status of its response.
type statusError struct {
	code int
	err  error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

func badRequest(format string, args ...any) error {
	return &statusError{http.StatusBadRequest, fmt.Errorf(format, args...)}
}

func notFound(format string, args ...any) error {
	return &statusError{http.StatusNotFound, fmt.Errorf(format, args...)}
}

// disabled is the error for a path that the Config does not enable.
func disabled(what string) error {
	return &statusError{http.StatusMethodNotAllowed, errors.New(what + " are not served by this agent")}
}

// fromRuntime converts a runtime error to a status by its class.
func fromRuntime(err error) error {
	err = cri.Classify(err)
	return &statusError{codeOf(err), err}
}

// codeOf returns the HTTP status of an error that has a class.
func codeOf(err error) int {
	switch {
	case errors.Is(err, cri.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, cri.ErrInvalid):
		return http.StatusBadRequest
	case errors.Is(err, cri.ErrPrecondition):
		return http.StatusConflict
	case errors.Is(err, cri.ErrUnavailable):
		return http.StatusServiceUnavailable
	case errors.Is(err, cri.ErrUnimplemented):
		return http.StatusNotImplemented
	case errors.Is(err, cri.ErrDeadline):
		return http.StatusGatewayTimeout
	case errors.Is(err, cri.ErrExhausted):
		return http.StatusTooManyRequests
	}
	return http.StatusInternalServerError
}
