package server

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"
)

// maxRefusal is how much of what the runtime says instead of a stream is handed on.
const maxRefusal = 64 << 10

// secretHeaders are the caller's and not for the runtime.
var secretHeaders = []string{"Authorization", "Cookie", "Proxy-Authorization"}

const (
	// frontProxy is the prefix of the headers in which a front proxy passes the user.
	frontProxy = "X-Remote-"
	// bearerProtocol is the prefix of a WebSocket protocol that is in fact the caller's token.
	bearerProtocol = "base64url.bearer.authorization.k8s.io."
)

// withoutSecrets removes the caller's credentials from headers.
func withoutSecrets(h http.Header) {
	for _, name := range secretHeaders {
		h.Del(name)
	}
	for name := range h {
		if strings.HasPrefix(name, frontProxy) {
			delete(h, name)
		}
	}
	const protocols = "Sec-Websocket-Protocol"
	var kept []string
	for _, offer := range strings.Split(strings.Join(h[protocols], ","), ",") {
		if offer = strings.TrimSpace(offer); offer != "" && !strings.HasPrefix(offer, bearerProtocol) {
			kept = append(kept, offer)
		}
	}
	if h.Del(protocols); len(kept) > 0 {
		h.Set(protocols, strings.Join(kept, ", "))
	}
}

// proxy connects the caller to the URL that the runtime gave, for as long as the
// request's context and both ends last. Who knows the URL may use it, so that it is
// in no log and no error.
func (s *Server) proxy(w http.ResponseWriter, r *http.Request, location string) error {
	target, err := streamURL(location)
	if err != nil {
		return err
	}
	var failed error
	proxy := httputil.ReverseProxy{
		Transport: s.config.StreamTransport,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL, p.Out.Host = target, target.Host
			withoutSecrets(p.Out.Header)
		},
		ModifyResponse: holdRefusal,
		ErrorHandler:   func(_ http.ResponseWriter, _ *http.Request, err error) { failed = err },
	}
	stream := &streamWriter{ResponseWriter: w, hold: func(conn net.Conn) net.Conn { return s.hold(r.Context(), conn) }}
	proxy.ServeHTTP(stream, r)
	if failed == nil || stream.taken {
		return nil
	}
	return s.unreachable(r, failed)
}

// streamURL is where the runtime says that a stream is.
func streamURL(location string) (*url.URL, error) {
	target, err := url.Parse(location)
	if err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
		return nil, &statusError{http.StatusBadGateway, errors.New("the runtime gave no URL for the stream")}
	}
	return target, nil
}

// unreachable notes why there is no stream, and says that there is none.
func (s *Server) unreachable(r *http.Request, err error) error {
	s.line(userOf(r), "unreachable").Error(err, "A stream of the runtime cannot be handed on", "pod", r.PathValue("namespace")+"/"+r.PathValue("pod"))
	return &statusError{http.StatusBadGateway, errors.New("the runtime's streaming server cannot be reached")}
}

// errNoStream is what a runtime answers that neither serves a stream nor says why it does not. A
// redirect is never followed and never handed on: it could lead the caller anywhere.
var errNoStream = errors.New("the runtime answers with neither a stream nor an error")

// reachTime bounds how long it may take to reach the runtime's streaming server.
const reachTime = 10 * time.Second

// holdRefusal reads what the runtime answers instead of a stream, so that it cannot
// break off in the middle.
func holdRefusal(resp *http.Response) error {
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols:
		return nil
	case resp.StatusCode < http.StatusBadRequest:
		return errNoStream
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	err = errors.Join(err, resp.Body.Close())
	resp.Body = io.NopCloser(bytes.NewReader(text))
	resp.ContentLength = int64(len(text))
	resp.Header = http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "X-Content-Type-Options": {"nosniff"}}
	return err
}

// A streamWriter gives its connection away so that it ends with the request's context,
// whether or not the caller reads, and as soon as one of its ends has.
type streamWriter struct {
	http.ResponseWriter
	hold  func(net.Conn) net.Conn
	taken bool
}

// Hijack gives the connection away.
func (w *streamWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.taken = true
	return oneEnd{w.hold(conn)}, buffered, nil
}

// Unwrap returns the underlying writer.
func (w *streamWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// errGone ends a stream whose caller has disconnected.
var errGone = errors.New("the caller has gone")

// oneEnd is a connection that closes in both directions at once: streams are closed by messages on
// it, and waiting for the other direction could hang.
type oneEnd struct{ net.Conn }

// Read reads what the caller sends.
func (c oneEnd) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if errors.Is(err, io.EOF) {
		err = errGone
	}
	return n, err
}
