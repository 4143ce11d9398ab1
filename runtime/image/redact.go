package image

import (
	"encoding/base64"
	"errors"
	"regexp"
	"strings"

	"github.com/podsync/podsync/runtime/cri"
)

// redacted stands for what must not be seen.
const redacted = "[redacted]"

// urlSecret finds what a URL carries besides the place: user information, and
// the query, in which registries sign the addresses they redirect to.
var urlSecret = regexp.MustCompile(`(https?://)([^\s"/@]+@)?([^\s"?]*)(\?[^\s"]+)?`)

// redact returns a pull's error with its class, but of its text only what does
// not repeat a credential. The error beneath is not kept, since it would still
// print everything.
func redact(err error, c Credential) error {
	var e *cri.Error
	if !errors.As(cri.Classify(err), &e) {
		return nil
	}
	text := redactURLs(e.Error())
	l := c.login()
	for _, secret := range []string{base64.StdEncoding.EncodeToString([]byte(l.username + ":" + l.password)), l.password} {
		if l.password != "" {
			text = strings.ReplaceAll(text, secret, redacted)
		}
	}
	return &cri.Error{Class: e.Class, Err: errors.New(text)}
}

func redactURLs(text string) string {
	return urlSecret.ReplaceAllStringFunc(text, func(u string) string {
		part := urlSecret.FindStringSubmatch(u)
		if part[2] != "" {
			part[2] = redacted + "@"
		}
		if part[4] != "" {
			part[4] = "?" + redacted
		}
		return strings.Join(part[1:], "")
	})
}
