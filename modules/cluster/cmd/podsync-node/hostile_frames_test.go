//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

// oddFrames makes each worker send another kind of frames, bodies, handshakes or paths.
func oddFrames(ctx context.Context, n *target, from string, worker int) {
	odd[worker%len(odd)](ctx, n, from, worker)
}

var odd = []attack{
	settingsFlood, pingFlood, windowOverflow, idleStreams, headerTables, resetOfIdleStreams,
	slowBodies, chunkExtensions, endlessTrailers, slowHandshakes, keyUpdates, hugeURLs,
	webSocketFragments, webSocketPings, spdyWindows, spdyPings, spdyStreams,
}

const (
	framePriority, framePing, frameWindowUpdate = 2, 6, 8
	// request and admitted are the beginnings of HTTP/1.1 requests: of a stranger, and of an admitted user.
	request  = " HTTP/1.1\r\nHost: n1\r\nAuthorization: Bearer bad\r\n"
	admitted = " HTTP/1.1\r\nHost: n1\r\nAuthorization: Bearer " + eve + "\r\n"
)

// settingsFlood and pingFlood send frames that the node must answer, and do not read the answers.
func settingsFlood(ctx context.Context, n *target, from string, _ int) {
	many := bytes.Repeat(frame(frameSettings, 0, 0, []byte{0, 1, 0xff, 0xff, 0xff, 0xff, 0, 3, 0, 0, 0, 0}), 500)
	n.talk(ctx, from, "h2", 0, preface(1<<16), func(int) []byte { return many })
}

func pingFlood(ctx context.Context, n *target, from string, _ int) {
	many := bytes.Repeat(frame(framePing, 0, 0, make([]byte, 8)), 500)
	n.talk(ctx, from, "h2", 0, preface(1<<16), func(int) []byte { return many })
}

// windowOverflow opens a stream, and raises its windows above the maximum.
func windowOverflow(ctx context.Context, n *target, from string, _ int) {
	begin := append(preface(1<<31-1), frame(frameHeaders, endStream|endHeaders, 1, getHeader())...)
	n.talk(ctx, from, "h2", time.Millisecond, begin, func(i int) []byte {
		return frame(frameWindowUpdate, 0, uint32(i%2), []byte{0x7f, 0xff, 0xff, 0xff})
	})
}

// idleStreams opens streams whose bodies never end.
func idleStreams(ctx context.Context, n *target, from string, _ int) {
	n.talk(ctx, from, "h2", 10*time.Millisecond, preface(1<<16), func(i int) []byte {
		return frame(frameHeaders, endHeaders, uint32(2*i+1), getHeader())
	})
}

// headerTables changes the size of the header table all the time, and fills the table.
func headerTables(ctx context.Context, n *target, from string, _ int) {
	n.talk(ctx, from, "h2", 0, preface(1<<16), func(i int) []byte {
		header := append([]byte{0x3f, 0xe1, 0x1f, 0x20, 0x3f, 0xe1, 0x1f}, getHeader()...)
		for j := range 50 {
			header = append(header, 0x40, 2, 'a', byte('a'+j%26), 60)
			header = append(header, strings.Repeat("x", 60)...)
		}
		return frame(frameHeaders, endStream|endHeaders, uint32(2*i+1), header)
	})
}

// resetOfIdleStreams resets and prioritizes streams that were never opened.
func resetOfIdleStreams(ctx context.Context, n *target, from string, _ int) {
	n.talk(ctx, from, "h2", 0, preface(1<<16), func(i int) []byte {
		if i%1000 == 999 {
			return frame(frameReset, 0, uint32(2*i+1), []byte{0, 0, 0, 8})
		}
		return bytes.Repeat(frame(framePriority, 0, uint32(2*i+1), []byte{0x80, 0, 0, 1, 255}), 100)
	})
}

// slowBodies announces a body, and sends it one byte at a time, with pauses.
func slowBodies(ctx context.Context, n *target, from string, _ int) {
	who := []string{request, admitted}[nextToken.Add(1)%2]
	n.talk(ctx, from, "http/1.1", 20*time.Millisecond, []byte("POST /run/default/web-n1/app?cmd=true"+who+"Content-Length: 60000\r\n\r\n"), func(int) []byte { return []byte("x") })
}

func chunkExtensions(ctx context.Context, n *target, from string, _ int) {
	chunk := []byte("1;" + strings.Repeat("e=", 2<<10) + "\r\nx\r\n")
	n.talk(ctx, from, "http/1.1", 0, []byte("POST /run/default/web-n1/app?cmd=true"+admitted+"Transfer-Encoding: chunked\r\n\r\n"), func(int) []byte { return chunk })
}

func endlessTrailers(ctx context.Context, n *target, from string, _ int) {
	n.talk(ctx, from, "http/1.1", 0, []byte("POST /run/default/web-n1/app?cmd=true"+admitted+"Transfer-Encoding: chunked\r\nTrailer: A\r\n\r\n0\r\n"),
		func(int) []byte { return []byte("A: " + strings.Repeat("x", 4<<10) + "\r\n") })
}

// slowHandshakes starts a TLS handshake with a large message, and sends it one byte at a time, with pauses.
func slowHandshakes(ctx context.Context, n *target, from string, _ int) {
	n.talk(ctx, from, "", 20*time.Millisecond, []byte{22, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc}, func(int) []byte { return []byte{3} })
}

// keyUpdates sends records that make the node decrypt without any request.
func keyUpdates(ctx context.Context, n *target, from string, _ int) {
	conn := n.connect(ctx, from, "http/1.1")
	if conn == nil {
		return
	}
	defer conn.Close()
	raw := conn.(*tls.Conn).NetConn()
	for ctx.Err() == nil {
		if _, err := raw.Write(append([]byte{23, 3, 3, 0x40, 0}, make([]byte, 16<<10)...)); err != nil {
			return
		}
	}
}

// hugeURLs requests paths that are long, encoded twice, or contain "..".
func hugeURLs(ctx context.Context, n *target, from string, worker int) {
	for i, path := range []string{
		"/" + strings.Repeat("a", 200<<10), "/logs/" + strings.Repeat("..%2f", 1000) + "etc/shadow", "/logs/" + strings.Repeat("../", 1000) + "etc/shadow",
		"/containerLogs/default/web-n1/..%2f..%2f..%2fetc%2fshadow", "/containerLogs/default/..%2f..%2fweb-n1/app", "/metrics/..%2frun/default/web-n1/app?cmd=id",
		"//run/default/web-n1/app?cmd=id", "/run/default/web-n1/app%00?cmd=id", "/healthz/%2e%2e/pods", "*", "/logs/%00", "/pods?" + strings.Repeat("a=b&", 50<<10),
	} {
		who := []string{request, admitted}[(worker+i)%2]
		conn := n.connect(ctx, from, "http/1.1")
		if conn == nil {
			return
		}
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		_, _ = fmt.Fprint(conn, "GET "+path+who+"Connection: close\r\n\r\n")
		answer := make([]byte, 4<<10)
		size, _ := conn.Read(answer)
		if text := string(answer[:size]); strings.Contains(text, "root:") || strings.Contains(text, "uid=") || strings.HasPrefix(text, "HTTP/1.1 200") && !strings.HasPrefix(path, "/pods") {
			n.Errorf("%.100q is answered %.300q", path, text)
		}
		conn.Close()
	}
}

// upgrade returns the request of an admitted user that starts a stream.
func upgrade(to string) []byte {
	return []byte("POST /exec/default/web-n1/app?command=cat&input=1&output=1" + admitted + "Connection: Upgrade\r\n" + to + "\r\n")
}

const (
	webSocket = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n"
	spdy      = "Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n"
)

// webSocketFragments sends a fragmented message that never ends. webSocketPings sends pings and does not read the
// answers.
func webSocketFragments(ctx context.Context, n *target, from string, _ int) {
	begin := append(upgrade(webSocket), 0x02, 0x81, 0, 0, 0, 0, 0)
	more := bytes.Repeat(append([]byte{0x00, 0xfe, 0x10, 0x00, 0, 0, 0, 0}, make([]byte, 4<<10)...), 4)
	n.talk(ctx, from, "http/1.1", 0, bytes.Replace(begin, []byte("POST "), []byte("GET "), 1), func(int) []byte { return more })
}

func webSocketPings(ctx context.Context, n *target, from string, _ int) {
	many := bytes.Repeat(append([]byte{0x89, 0xfd, 0, 0, 0, 0}, make([]byte, 125)...), 100)
	n.talk(ctx, from, "http/1.1", 0, bytes.Replace(upgrade(webSocket), []byte("POST "), []byte("GET "), 1), func(int) []byte { return many })
}

// spdyFrame returns a control frame of SPDY/3.1.
func spdyFrame(kind uint16, body ...uint32) []byte {
	out := binary.BigEndian.AppendUint16([]byte{0x80, 3}, kind)
	out = binary.BigEndian.AppendUint32(out, uint32(4*len(body)))
	for _, word := range body {
		out = binary.BigEndian.AppendUint32(out, word)
	}
	return out
}

func spdyWindows(ctx context.Context, n *target, from string, _ int) {
	many := bytes.Repeat(spdyFrame(9, 1, 0x7fffffff), 500)
	n.talk(ctx, from, "http/1.1", 0, upgrade(spdy), func(int) []byte { return many })
}

func spdyPings(ctx context.Context, n *target, from string, _ int) {
	many := bytes.Repeat(spdyFrame(6, 1), 500)
	n.talk(ctx, from, "http/1.1", 0, upgrade(spdy), func(int) []byte { return many })
}

// spdyStreams opens streams without headers, and resets them.
func spdyStreams(ctx context.Context, n *target, from string, _ int) {
	n.talk(ctx, from, "http/1.1", 0, upgrade(spdy), func(i int) (all []byte) {
		for j := range 100 {
			id := uint32(2*(100*i+j) + 1)
			all = append(all, spdyFrame(1, id, 0, 0)...)
			all = append(all, spdyFrame(3, id, 5)...)
		}
		return all
	})
}
