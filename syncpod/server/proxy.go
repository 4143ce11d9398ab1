package server

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/podsync/podsync/runtime/foreign"
)

// maxRefusal is the maximum size of the runtime's error response that is forwarded.
const maxRefusal = 64 << 10

// secretHeaders are headers of the caller that the runtime must not receive.
var secretHeaders = []string{"Authorization", "Cookie", "Proxy-Authorization"}

const (
	// frontProxy is the headers' prefix in which a front proxy passes the user.
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

// proxy connects the caller to the runtime's URL until the request's context ends or either side closes. Everyone who has the
// URL may use it, so it is in no log and no error.
func (s *streamer) proxy(w http.ResponseWriter, r *http.Request, location string) error {
	target, err := streamURL(location)
	if err != nil {
		return err
	}
	var failed error
	proxy := httputil.ReverseProxy{
		Transport: s.transport,
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

// streamURL parses the runtime's URL of a stream.
func streamURL(location string) (*url.URL, error) {
	target, err := url.Parse(location)
	if err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
		return nil, &statusError{http.StatusBadGateway, errors.New("the runtime gave no URL for the stream")}
	}
	return target, nil
}

// unreachable logs why there is no stream, and returns an error without the reason.
func (s *streamer) unreachable(r *http.Request, err error) error {
	s.line(userOf(r), "unreachable").Error(err, "A stream of the runtime cannot be handed on", "pod", r.PathValue("namespace")+"/"+r.PathValue("pod"))
	return &statusError{http.StatusBadGateway, errors.New("the runtime's streaming server cannot be reached")}
}

// errNoStream means that the runtime's response is neither a stream nor an error. A redirect is never followed or
// forwarded, because it could lead the caller anywhere.
var errNoStream = errors.New("the runtime answers with neither a stream nor an error")

// reachTime bounds how long it may take to reach the runtime's streaming server.
const reachTime = 10 * time.Second

// holdRefusal reads the runtime's error response completely, so that it cannot break off in the middle.
func holdRefusal(resp *http.Response) error {
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols:
		return nil
	case resp.StatusCode < http.StatusBadRequest:
		return errNoStream
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	err = errors.Join(err, resp.Body.Close())
	text := foreign.CutText(string(body), maxRefusal)
	resp.Body = io.NopCloser(strings.NewReader(text))
	resp.ContentLength = int64(len(text))
	resp.Header = http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "X-Content-Type-Options": {"nosniff"}}
	return err
}

// A streamWriter hands its connection over so that it ends with the request's context, even if the caller does not
// read, and as soon as either end has disconnected.
type streamWriter struct {
	http.ResponseWriter
	hold  func(net.Conn) net.Conn
	taken bool
}

// Hijack hands the connection over.
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

// errGone is the error of a stream whose caller has disconnected.
var errGone = errors.New("the caller has gone")

// oneEnd is a connection that closes in both directions at once: streams are closed by messages on
// it, and waiting for the other direction could hang.
type oneEnd struct{ net.Conn }

// Read reads from the caller.
func (c oneEnd) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if errors.Is(err, io.EOF) {
		err = errGone
	}
	return n, err
}
