package handler

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

const (
	maxRedirects = 10
	// maxHeader limits the part of a response before its body.
	maxHeader = 64 << 10
)

// errPlainHTTP is an answer in plain HTTP to a TLS handshake.
var errPlainHTTP = errors.New("the endpoint of an https handler speaks plain HTTP")

func (r *Runner) runHTTPGet(ctx context.Context, req Request) (Result, error) {
	get, err := r.newGet(ctx, req)
	if err != nil {
		return Result{}, err
	}
	result, err := r.follow(ctx, get)
	if !req.HTTPFallback || !errors.Is(err, errPlainHTTP) {
		return result, err
	}
	if get, err = r.newGet(ctx, req); err != nil {
		return Result{}, err
	}
	downgrade(get)
	result, err = r.follow(ctx, get)
	result.HTTPFallback = true
	return result, err
}

// downgrade converts a request to plain HTTP, without the credentials that were meant for an
// encrypted connection.
func downgrade(get *http.Request) {
	get.URL.Scheme = "http"
	dropCredentials(get.Header)
}

// dropCredentials removes the headers that net/http does not send to another host either.
func dropCredentials(h http.Header) {
	for _, name := range []string{"Authorization", "Proxy-Authorization", "Cookie", "Cookie2", "Www-Authenticate", "Proxy-Authenticate"} {
		h.Del(name)
	}
}

// follow sends a request, and follows redirects.
func (r *Runner) follow(ctx context.Context, get *http.Request) (Result, error) {
	for range maxRedirects {
		result, location, err := r.send(ctx, get)
		if err != nil || location == "" {
			return result, err
		}
		next, err := get.URL.Parse(location)
		if err != nil {
			return result, fmt.Errorf("%w: a redirect to an invalid URL", ErrNoAnswer)
		}
		if !followed(get.URL, next) {
			result.OtherHost = get.URL.Hostname() != next.Hostname()
			return result, nil // the redirect is the answer
		}
		redirect(get, next)
	}
	return Result{}, fmt.Errorf("%w: stopped after %d redirects", ErrNoAnswer, maxRedirects)
}

// followed reports whether a redirect leads to the host of the first request. Otherwise a container could
// direct the node anywhere.
func followed(from, to *url.URL) bool {
	return from.Hostname() == to.Hostname() && (to.Scheme == "http" || to.Scheme == "https")
}

func redirect(get *http.Request, next *url.URL) {
	if next.Host != get.URL.Host {
		get.Host = next.Host
	}
	if addressOf(next) != addressOf(get.URL) {
		dropCredentials(get.Header) // another port may belong to another program
	}
	if get.URL.Scheme == "https" && next.Scheme == "http" {
		downgrade(get)
	}
	get.URL = next
}

// send sends a request on its own connection. It does not use an http.Transport, whose dialing
// goroutines can outlive a cancelled call.
func (r *Runner) send(ctx context.Context, get *http.Request) (result Result, location string, err error) {
	conn, err := r.dial(ctx, "tcp", addressOf(get.URL))
	if err != nil {
		return Result{}, "", fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	defer conn.Close()
	defer endWith(ctx, conn)()
	if get.URL.Scheme == "https" {
		secure := tls.Client(conn, &tls.Config{ServerName: get.URL.Hostname(), InsecureSkipVerify: true})
		if err := secure.HandshakeContext(ctx); err != nil {
			return Result{}, "", handshakeError(err)
		}
		conn = secure
	}
	if err := get.Write(conn); err != nil {
		return Result{}, "", fmt.Errorf("%w: the request could not be sent", ErrNoAnswer)
	}
	return r.receive(conn, get)
}

func addressOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// endWith makes every use of conn fail when ctx ends, until the returned function is called.
func endWith(ctx context.Context, conn net.Conn) (release func()) {
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = conn.SetDeadline(time.Unix(1, 0)) // fails only on a closed one
	})
	return func() {
		if !stop() {
			<-ended
		}
	}
}

func handshakeError(err error) error {
	var record tls.RecordHeaderError
	if errors.As(err, &record) && string(record.RecordHeader[:]) == "HTTP/" {
		return fmt.Errorf("%w: %w", ErrNoAnswer, errPlainHTTP)
	}
	return fmt.Errorf("%w: %w", ErrNoAnswer, systemError(err, "the TLS handshake failed")) // other errors repeat certificates
}

// receive reads a response. Its errors do not repeat its contents.
func (r *Runner) receive(conn io.Reader, get *http.Request) (result Result, location string, err error) {
	in := bufio.NewReader(io.LimitReader(conn, int64(maxHeader+r.maxOutput)))
	resp, err := http.ReadResponse(in, get)
	for err == nil && resp.StatusCode < http.StatusOK && resp.StatusCode != http.StatusSwitchingProtocols {
		resp, err = http.ReadResponse(in, get)
	}
	if err != nil {
		return Result{}, "", fmt.Errorf("%w: %w", ErrNoAnswer, readError(err))
	}
	result.StatusCode = resp.StatusCode
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(r.maxOutput)+1))
	if timedOut(err) {
		return result, "", fmt.Errorf("%w: the body did not come to its end", ErrNoAnswer)
	}
	result.Truncated = len(body) > r.maxOutput || err != nil
	result.Output = body[:min(len(body), r.maxOutput)]
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		location = resp.Header.Get("Location")
	}
	return result, location, nil
}

func readError(err error) error { return systemError(err, "what came is not HTTP") }

// systemError returns the system's error, or one with a fixed text, because others have text from the endpoint.
func systemError(err error, other string) error {
	var system *net.OpError
	switch {
	case errors.As(err, &system):
		return system
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return io.ErrUnexpectedEOF
	}
	return errors.New(other)
}

func timedOut(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}
