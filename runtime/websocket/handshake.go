package websocket

import (
	"bufio"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
)

// magic is the text that both ends hash with the key, by RFC 6455.
const magic = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

// A RefusedError is a response from a server that refuses the WebSocket.
type RefusedError struct {
	// Code is the HTTP status, Text the beginning of the body.
	Code int
	Text string
}

// Error returns the status and the text.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("%d %s: %s", e.Code, http.StatusText(e.Code), strings.TrimSpace(e.Text))
}

// Is reports whether a request is for a WebSocket.
func Is(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket") && hasToken(r.Header["Connection"], "upgrade")
}

func hasToken(values []string, token string) bool {
	for _, value := range values {
		for one := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(one), token) {
				return true
			}
		}
	}
	return false
}

// Check returns why a request is not a valid WebSocket request. Accept would return the same error.
func Check(r *http.Request) error {
	if r.Method != http.MethodGet && r.Method != http.MethodPost || !Is(r) ||
		r.Header.Get("Sec-WebSocket-Version") != "13" || r.Header.Get("Sec-WebSocket-Key") == "" {
		return errors.New("websocket: the request asks for no WebSocket of version 13")
	}
	return nil
}

// Accept upgrades a request's connection to a WebSocket. read is the reader that has read the request. The
// protocol is the first one of protocols that the client offers. On failure Accept answers the request with the
// error, and the caller keeps the connection.
func Accept(conn net.Conn, read *bufio.Reader, r *http.Request, protocols ...string) (ws *Conn, protocol string, err error) {
	protocol = choose(r.Header["Sec-Websocket-Protocol"], protocols)
	if err = Check(r); err == nil && protocol == "" {
		err = fmt.Errorf("websocket: none of the protocols %q is offered", protocols)
	}
	if err != nil {
		return nil, "", errors.Join(err, Refuse(conn, http.StatusBadRequest, err.Error()))
	}
	_, err = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Accept: %s\r\nSec-WebSocket-Protocol: %s\r\n\r\n", accept(r.Header.Get("Sec-WebSocket-Key")), protocol)
	if err != nil {
		return nil, "", err
	}
	return newConn(conn, read, false), protocol, nil
}

// Refuse answers a request that was read on a connection with a status and a text.
func Refuse(conn net.Conn, code int, text string) error {
	_, err := fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
		code, http.StatusText(code), len(text), text)
	return err
}

// choose returns the first of protocols that is in offers.
func choose(offers, protocols []string) string {
	for _, p := range protocols {
		if hasToken(offers, p) {
			return p
		}
	}
	return ""
}

// accept returns the Sec-WebSocket-Accept value for a key.
func accept(key string) string {
	sum := sha1.Sum([]byte(key + magic))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// maxRefusal limits the bytes read of a refusing response.
const maxRefusal = 64 << 10

// Dial sends a WebSocket request over a connection, and returns the WebSocket and the protocol that
// the server has chosen. If the server refuses, the error is a *RefusedError. Dial closes the
// connection after an error.
func Dial(conn net.Conn, r *http.Request, protocols ...string) (ws *Conn, protocol string, err error) {
	key := rand.Text()[:16]
	key = base64.StdEncoding.EncodeToString([]byte(key))
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "websocket")
	r.Header.Set("Sec-WebSocket-Version", "13")
	r.Header.Set("Sec-WebSocket-Key", key)
	r.Header.Set("Sec-WebSocket-Protocol", strings.Join(protocols, ", "))
	reader := bufio.NewReader(conn)
	protocol, err = ask(conn, reader, r, key, protocols)
	if err != nil {
		conn.Close()
		return nil, "", err
	}
	return newConn(conn, reader, true), protocol, nil
}

func ask(conn net.Conn, reader *bufio.Reader, r *http.Request, key string, protocols []string) (protocol string, err error) {
	if err := r.Write(conn); err != nil {
		return "", err
	}
	resp, err := http.ReadResponse(reader, r)
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // as much as can be read
		return "", &RefusedError{Code: resp.StatusCode, Text: string(text)}
	}
	protocol = resp.Header.Get("Sec-WebSocket-Protocol")
	if resp.Header.Get("Sec-WebSocket-Accept") != accept(key) || !slices.Contains(protocols, protocol) {
		return "", fmt.Errorf("websocket: the response accepts none of the protocols %q", protocols)
	}
	return protocol, nil
}
