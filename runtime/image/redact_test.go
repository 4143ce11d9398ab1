package image

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/image/keyring"
)

func TestRedact(t *testing.T) {
	bob := keyring.Of("bob", "hunter2")
	auth := base64.StdEncoding.EncodeToString([]byte("bob:hunter2"))
	for name, tc := range map[string]struct{ text, want string }{
		"password":   {"login bob:hunter2 refused", "login bob:[redacted] refused"},
		"basic auth": {"Authorization: Basic " + auth, "Authorization: Basic [redacted]"},
		"query":      {`Get "https://cdn.io/blob/1?sig=abc&exp=2": EOF`, `Get "https://cdn.io/blob/1?[redacted]": EOF`},
		"user info":  {"Get http://eve:pw@r.io/v2/: EOF", "Get http://[redacted]@r.io/v2/: EOF"},
		"nothing":    {"Head https://r.io/v2/a/manifests/v1: 404", "Head https://r.io/v2/a/manifests/v1: 404"},
	} {
		err := redact(status.Error(codes.Unavailable, tc.text), bob)
		if got := err.Error(); got != tc.want+" (Unavailable)" {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
		if !errors.Is(err, cri.ErrUnavailable) {
			t.Errorf("%s: the class is lost", name)
		}
		for ; err != nil; err = errors.Unwrap(err) {
			if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, "hunter2") || strings.Contains(text, auth) {
				t.Errorf("%s: prints a credential: %s", name, text)
			}
		}
	}
}

// Runtimes quote and escape the texts that they repeat, some more than once.
func TestRedactEscapedPasswords(t *testing.T) {
	for _, password := range []string{`hun"ter2`, "hun ter/2+", `hun\ter2`, "hun\x01ter2", "hun<ter>2", "hunter2"} {
		inJSON := must.Get(json.Marshal(password))(t)
		for _, written := range []string{
			password, strconv.Quote(password), string(inJSON), url.QueryEscape(password), url.PathEscape(password),
			url.UserPassword("bob", password).String(), base64.URLEncoding.EncodeToString([]byte("bob:" + password)),
		} {
			got := redact(status.Error(codes.Unknown, "login: "+written+" refused"), keyring.Of("bob", password)).Error()
			if strings.Contains(got, "hun") || !strings.Contains(got, "[redacted]") {
				t.Errorf("%s is printed: %s, want it redacted", written, got)
			}
		}
	}
}

// A bound on an error may cut a password or a URL in two.
func TestRedactCutTexts(t *testing.T) {
	const password = "hunter2-hunter2-hunter2"
	for shift := range 60 {
		for _, secret := range []string{"bob:" + password, "https://cdn.io/blob/1?sig=" + password, "https://bob:" + password + "@cdn.io/"} {
			text := strings.Repeat("x", 980-shift) + " " + secret + " " + strings.Repeat("x", 2000)
			got := redact(status.Error(codes.Unknown, text), keyring.Of("bob", password)).Error()
			if strings.Contains(got, "hunt") || strings.Contains(got, "nter2") {
				t.Fatalf("%d: %s", shift, got)
			}
		}
		signed := strings.Repeat("x", 980-shift) + " https://cdn.io/blob/1?sig=" + password + " " + strings.Repeat("x", 2000)
		if got := redact(status.Error(codes.Unknown, signed), keyring.Of("", "")).Error(); strings.Contains(got, "hunt") || strings.Contains(got, "nter2") {
			t.Fatalf("%d: %s", shift, got)
		}
	}
}
