package volume

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"time"
)

const (
	// The API's default lifetime of a token, the minimum that can be requested, and the maximum age before a token is
	// renewed.
	defaultLife = time.Hour
	minLife     = 10 * time.Minute
	maxAge      = 24 * time.Hour
	// maxSeconds is the maximum lifetime.
	maxSeconds = 1 << 32
)

// Of returns a token's lifetime: the requested one in seconds, nil for the API's default, or a shorter one in the token
// itself. The issuer may grant less than requested.
func TokenLifetime(asked *int64, token []byte) time.Duration {
	life := defaultLife
	if asked != nil {
		life = max(time.Duration(*asked)*time.Second, minLife)
	}
	if granted := granted(token); granted > 0 {
		life = min(life, granted)
	}
	return life
}

// TokenRenewal returns the age at which a token with that lifetime is renewed.
func TokenRenewal(life time.Duration) time.Duration { return min(life*8/10, maxAge) }

// granted returns the time between the issue of a JSON Web Token and its expiry (RFC 7519), zero if the token is not one or
// has no expiry. The caller counts it from the time of receipt, so that a difference to the issuer's clock does not matter;
// the next agent can compute it, too.
func granted(token []byte) time.Duration {
	_, rest, _ := bytes.Cut(token, []byte("."))
	payload, _, signed := bytes.Cut(rest, []byte("."))
	text, err := base64.RawURLEncoding.DecodeString(string(payload))
	if err != nil || !signed {
		return 0
	}
	var claims struct {
		IssuedAt float64 `json:"iat"`
		Expires  float64 `json:"exp"`
	}
	if err := json.Unmarshal(text, &claims); err != nil {
		return 0
	}
	seconds := claims.Expires - claims.IssuedAt
	if claims.IssuedAt <= 0 || seconds < 1 || seconds > maxSeconds {
		return 0
	}
	return time.Duration(seconds) * time.Second
}
