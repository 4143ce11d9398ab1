package image

import (
	"errors"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/image/keyring"
)

// redact returns a pull's error with its class, and with credentials removed from its text. It does
// not wrap the original error, which would still print them.
func redact(err error, c keyring.Credentials) error {
	var e *cri.Error
	if !errors.As(cri.Classify(err), &e) {
		return nil
	}
	return &cri.Error{Class: e.Class, Err: errors.New(c.Redact(e.Error()))}
}
