//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// eve is the token of a user who may use the node's API and does not read the answers. Honest requests have another
// user's token.
const eve = "good-eve"

// fillLog writes a log of a container that is larger than the buffers of a connection.
func (n *target) fillLog() {
	n.Helper()
	logs, err := filepath.Glob(filepath.Join(n.logs, "default_web-n1_*", "quiet", "0.log"))
	if err != nil || len(logs) != 1 {
		n.Fatalf("logs of the container: %q, %v", logs, err)
	}
	file := must.Get(os.OpenFile(logs[0], os.O_WRONLY|os.O_APPEND, 0))(n)
	defer file.Close()
	line := "2026-01-01T00:00:00.000000000Z stdout F " + strings.Repeat("x", 984) + "\n"
	must.Get(file.WriteString(strings.Repeat(line, 8<<10)))(n)
}

// slowAnswers sends requests as an admitted user, and reads the answers one byte at a time, with pauses.
func slowAnswers(ctx context.Context, n *target, from string, worker int) {
	request := []string{
		"GET /containerLogs/default/web-n1/quiet",
		"GET /containerLogs/default/web-n1/quiet?follow=true",
		"GET /pods",
		"POST /run/default/web-n1/app?cmd=" + url.QueryEscape("sh -c 'while true; do echo "+strings.Repeat("x", 1000)+"; done'"),
	}[worker%4]
	n.readSlowly(ctx, from, request+" HTTP/1.1\r\nHost: n1\r\nAuthorization: Bearer "+eve+"\r\n\r\n", 50*time.Millisecond)
}

// idleConnections sends one request as an admitted user, and then nothing.
func idleConnections(ctx context.Context, n *target, from string, _ int) {
	conn := n.connect(ctx, from, "http/1.1")
	if conn == nil {
		return
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("GET /configz HTTP/1.1\r\nHost: n1\r\nAuthorization: Bearer " + eve + "\r\n\r\n")); err == nil {
		_, _ = io.Copy(io.Discard, conn) // until the node closes it
	}
}

// healthy returns an error unless /healthz answers 200 on the health port and on the API port.
func (n *target) healthy() error {
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + n.healthz + "/healthz")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10)); err != nil || resp.StatusCode != http.StatusOK {
		return errors.Join(fmt.Errorf("port of its own: %d %s", resp.StatusCode, text), err)
	}
	if code, text, err := n.ask("127.0.0.2", "good-ann", "/healthz"); err != nil || code != http.StatusOK {
		return errors.Join(fmt.Errorf("port of the API: %d %.100s", code, text), err)
	}
	return nil
}

// goroutines returns how many goroutines the node has.
func (n *target) goroutines() int {
	n.Helper()
	code, text, err := n.ask("127.0.0.2", "good-ann", "/metrics")
	_, rest, _ := strings.Cut(text, "\ngo_goroutines ")
	number, _, _ := strings.Cut(rest, "\n")
	count, wrong := strconv.Atoi(number)
	if err := errors.Join(err, wrong); err != nil || code != http.StatusOK {
		n.Fatalf("/metrics: %d %v", code, err)
	}
	return count
}

// calm waits until the node has at most so many goroutines.
func (n *target) calm(most int) {
	n.Helper()
	count := 0
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if count = n.goroutines(); count <= most {
			return
		}
	}
	n.Errorf("the node has %d goroutines after the attacks, want at most %d", count, most)
}

// deafStreams runs commands that print without end, and does not read their output.
func deafStreams(ctx context.Context, n *target, from string, worker int) {
	command := url.Values{"output": {"1"}, "error": {"1"}, "command": {"sh", "-c", "while true; do echo " + strings.Repeat("x", 1000) + "; done"}}
	protocol := []string{"v5.channel.k8s.io", "v4.channel.k8s.io"}[worker%2]
	n.readSlowly(ctx, from, "GET /exec/default/web-n1/app?"+command.Encode()+" HTTP/1.1\r\nHost: n1\r\nAuthorization: Bearer "+eve+"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: "+protocol+"\r\n\r\n", time.Hour)
}

// readSlowly sends a request, and reads one byte of the answer after each pause. Its receive buffer is small.
func (n *target) readSlowly(ctx context.Context, from, request string, pause time.Duration) {
	conn := n.connect(ctx, from, "")
	if conn == nil {
		return
	}
	defer conn.Close()
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	c := anyServer.Clone()
	c.NextProtos = []string{"http/1.1"}
	secure := tls.Client(conn, c)
	if secure.HandshakeContext(ctx) != nil {
		return
	}
	if _, err := secure.Write([]byte(request)); err != nil {
		return
	}
	status := make([]byte, len("HTTP/1.1 200"))
	if _, err := secure.Read(status); err != nil {
		return
	}
	if text := string(status); strings.HasSuffix(text, " 200") || strings.HasSuffix(text, " 101") {
		n.admitted.Add(1)
	}
	for one := make([]byte, 1); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if _, err := secure.Read(one); err != nil {
			return
		}
	}
}

// zeroWindowOfAUser requests logs over HTTP/2 as an admitted user, with windows of size 0 for the answers.
func zeroWindowOfAUser(ctx context.Context, n *target, from string, _ int) {
	const path, token = "/containerLogs/default/web-n1/quiet", "Bearer " + eve
	header := append([]byte{0x82, 0x87, 0x04, byte(len(path))}, path...)
	header = append(append(header, 0x41, 2, 'n', '1', 0x0f, 0x08, byte(len(token))), token...)
	n.talk(ctx, from, "h2", 10*time.Millisecond, preface(0), func(i int) (all []byte) {
		for j := range 10 {
			all = append(all, frame(frameHeaders, endStream|endHeaders, uint32(2*(10*i+j)+1), header)...)
		}
		return all
	})
}
