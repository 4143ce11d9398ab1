package image

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/image/keyring"
)

// authOf returns credentials as CRI's AuthConfig, nil for anonymous ones.
func authOf(c keyring.Credentials) *runtimeapi.AuthConfig {
	if c.Anonymous() {
		return nil
	}
	username, password := c.Login()
	return &runtimeapi.AuthConfig{Username: username, Password: password}
}

// forAll reports whether all pods may use the images that are pulled with the credentials.
func forAll(c keyring.Credentials) bool { return c.Anonymous() || c.Node() }

// fingerprint identifies credentials without containing them.
type fingerprint [sha256.Size]byte

func fingerprintOf(credentials ...keyring.Credentials) fingerprint {
	h := sha256.New()
	for _, c := range credentials {
		username, password := c.Login()
		for _, s := range []string{username, password} {
			h.Write(binary.AppendUvarint(nil, uint64(len(s))))
			h.Write([]byte(s))
		}
	}
	return fingerprint(h.Sum(nil))
}

// redact returns a pull's error with its class, and with credentials removed from its text. It does
// not wrap the original error, which would still print them.
func redact(err error, c keyring.Credentials) error {
	var e *cri.Error
	if !errors.As(cri.Classify(err), &e) {
		return nil
	}
	return &cri.Error{Class: e.Class, Err: errors.New(c.Redact(e.Error()))}
}
