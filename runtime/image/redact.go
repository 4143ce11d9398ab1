package image

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/podsync/podsync/runtime/cri"
)

// redacted replaces secret parts of a text.
const redacted = "[redacted]"

// urlSecret matches the secret parts of a URL: the user information, and the query, in which
// registries sign redirects.
var urlSecret = regexp.MustCompile(`(https?://)([^\s"/@]+@)?([^\s"?]*)(\?[^\s"]+)?`)

// redact returns a pull's error with its class, and with credentials removed from its text. It does
// not wrap the original error, which would still print them.
func redact(err error, c credential) error {
	var e *cri.Error
	if !errors.As(cri.Classify(err), &e) {
		return nil
	}
	text := redactURLs(e.Error())
	for _, secret := range writtenForms(c.login()) {
		text = strings.ReplaceAll(text, secret, redacted)
	}
	return &cri.Error{Class: e.Class, Err: errors.New(text)}
}

// writtenForms returns the encodings of a password that occur in errors, the longest first, because
// one may contain another.
func writtenForms(l login) []string {
	if l.password == "" {
		return nil
	}
	quoted := strconv.Quote(l.password)
	inJSON, err := json.Marshal(l.password)
	if err != nil {
		inJSON = []byte(quoted)
	}
	forms := []string{
		base64.StdEncoding.EncodeToString([]byte(l.username + ":" + l.password)),
		base64.URLEncoding.EncodeToString([]byte(l.username + ":" + l.password)),
		l.password, quoted[1 : len(quoted)-1], string(inJSON[1 : len(inJSON)-1]),
		url.QueryEscape(l.password), url.PathEscape(l.password), url.UserPassword("", l.password).String()[1:],
	}
	slices.SortFunc(forms, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return forms
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
