package keyring

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/podsync/podsync/runtime/foreign"
)

// Credentials are a login for a registry. The zero Credentials are anonymous. The login is inside a closure: no fmt verb, no
// logger and no encoder prints it. Only Login returns it.
type Credentials struct {
	reveal func() login
	node   bool
}

type login struct{ username, password string }

// Of returns a login's credentials.
func Of(username, password string) Credentials {
	return Credentials{reveal: func() login { return login{username, password} }}
}

// Login returns the username and the password, both empty for anonymous Credentials.
func (c Credentials) Login() (username, password string) {
	l := c.login()
	return l.username, l.password
}

func (c Credentials) login() login {
	if c.reveal == nil {
		return login{}
	}
	return c.reveal()
}

// Anonymous reports whether c is the zero Credentials.
func (c Credentials) Anonymous() bool { return c.reveal == nil }

// Node reports whether the credentials are the node's, from a [SecretTypeNode] secret: all pods may use the images that they
// pull.
func (c Credentials) Node() bool { return c.node }

// Equal reports whether both have the same login.
func (c Credentials) Equal(other Credentials) bool { return c.login() == other.login() }

// String returns a placeholder.
func (Credentials) String() string { return "[registry credentials]" }

// GoString returns a placeholder.
func (c Credentials) GoString() string { return c.String() }

// redacted replaces a text's secret parts.
const redacted = "[redacted]"

// urlSecret matches the secret parts of a URL: the user information, and the query, in which registries sign redirects.
var urlSecret = regexp.MustCompile(`(https?://)([^\s"/@]+@)?([^\s"?]*)(\?[^\s"]+)?`)

// Redact returns a text, such as the error from a runtime that repeats a request, without the password in the forms in
// which errors contain it, and without the user information and the queries of its URLs.
func (c Credentials) Redact(text string) string {
	text = redactURLs(redactHalves(text, c.login()))
	for _, secret := range writtenForms(c.login()) {
		text = strings.ReplaceAll(text, secret, redacted)
	}
	return text
}

// cutWords matches the words that a bound on the text has cut: each may be half a URL or credential.
var cutWords = regexp.MustCompile(`[^\s"]*\.\.\.\[omitted ([0-9]+) bytes\]\.\.\.[^\s"]*`)

// redactHalves removes what a bound on the text has left from a secret.
func redactHalves(text string, l login) string {
	var secrets foreign.Secrets
	for _, secret := range writtenForms(l) {
		secrets.Add(secret)
	}
	return cutWords.ReplaceAllString(secrets.Redact(text), "...[omitted $1 bytes]...")
}

// writtenForms returns the encodings for a password that occur in errors, the longest first,
// because one may contain another.
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
