package handler

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// Action is the kind of a handler, by its field's name in the API.
type Action string

// The actions.
const (
	Exec      Action = "exec"
	HTTPGet   Action = "httpGet"
	TCPSocket Action = "tcpSocket"
	Sleep     Action = "sleep"
)

// The causes of failures, for errors.Is. Otherwise an error of an exec has a class of package cri,
// and after the end of its context the error is the context's.
var (
	// ErrInvalid: the handler is invalid and can never run.
	ErrInvalid = errors.New("invalid handler")
	// ErrNoAddress: an httpGet names no host and the pod has no address.
	ErrNoAddress = errors.New("the pod has no address")
	// ErrExitCode: the command ended with an exit code other than 0.
	ErrExitCode = errors.New("the command ended with exit code")
	// ErrNoAnswer: the endpoint of an httpGet could not be reached, or did not
	// answer in HTTP.
	ErrNoAnswer = errors.New("no answer")
)

// Error is a handler's failure. Its text contains no secrets; see the package documentation.
type Error struct {
	// Action is the action that failed, "" if the handler has none.
	Action Action
	// Container is the container's name.
	Container string
	// ExitCode is the exit code of an exec's command, if Err is ErrExitCode.
	ExitCode int32
	// Err is the cause.
	Err error
}

// Error names the action, the container and the cause.
func (e *Error) Error() string {
	action := e.Action
	if action == "" {
		action = "lifecycle"
	}
	return fmt.Sprintf("%s handler of container %q: %v", action, e.Container, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// exitError passes the exit code on to the Error.
type exitError int32

func (e exitError) Error() string { return fmt.Sprintf("%v %d", ErrExitCode, int32(e)) }
func (e exitError) Unwrap() error { return ErrExitCode }

// failed returns an Error for err, nil for nil.
func (req *Request) failed(action Action, err error) error {
	if err == nil {
		return nil
	}
	var code exitError
	errors.As(err, &code)
	return &Error{Action: action, Container: req.Container, ExitCode: int32(code), Err: err}
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

// actionOf returns the one action of a handler.
func actionOf(h *v1.LifecycleHandler) (Action, error) {
	if h == nil {
		return "", invalid("Request.Handler is required")
	}
	var set []Action
	add := func(action Action, isSet bool) {
		if isSet {
			set = append(set, action)
		}
	}
	add(Exec, h.Exec != nil)
	add(HTTPGet, h.HTTPGet != nil)
	add(TCPSocket, h.TCPSocket != nil)
	add(Sleep, h.Sleep != nil)
	switch {
	case len(set) == 0:
		return "", invalid("it has none of exec, httpGet and sleep")
	case len(set) > 1:
		return "", invalid("it has more than one of exec, httpGet, tcpSocket and sleep")
	case set[0] == TCPSocket:
		return TCPSocket, invalid("tcpSocket is not a lifecycle action, use exec, httpGet or sleep")
	}
	return set[0], nil
}
