package server

import (
	"errors"
	"net/http"
)

var errOtherSite = errors.New("a page of another site made this request")

// isolate keeps browsers from running what an answer repeats, such as a log with a script that a container has printed:
// the script could do all that the browser's user may. No page of another site may include an answer either. Handlers of
// pages replace the policy.
func isolate(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// checkOrigin rejects a request that a browser makes for a page of another site: the browser adds its user's client
// certificate, whichever page asks. A WebSocket counts although its method is GET, because no browser asks the server
// before it opens one.
//
// Only browsers send the headers that decide. A request with X-Forwarded-For comes from a proxy, such as an API server,
// which passes the headers of browsers on and has authenticated its own user; a page cannot add this header unless the
// server agrees, which this one never does.
func (s *streamer) checkOrigin(r *http.Request, acts bool) error {
	if r.Header.Get("X-Forwarded-For") != "" {
		return nil
	}
	asked := *r
	if acts {
		asked.Method = http.MethodPost
	}
	if err := new(http.CrossOriginProtection).Check(&asked); err != nil {
		s.line(userOf(r), "origin").Error(err, "A request for a page of another site is rejected", userValues(r, callerOf(r))...)
		return &statusError{http.StatusForbidden, errOtherSite}
	}
	return nil
}
