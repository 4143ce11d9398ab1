//go:build linux

package main

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"time"
)

// answers serves probes and handlers with answers that never end, each at a port of its own:
// a body, headers, redirects, half a line, nothing, garbage, and a gRPC server's greeting.
func answers() {
	block := bytes.Repeat([]byte("x"), 64<<10)
	endless := func(first string, block []byte) func(net.Conn) {
		return func(c net.Conn) {
			_, err := c.Write([]byte(first))
			for err == nil && len(block) > 0 {
				_, err = c.Write(block)
			}
		}
	}
	for port, answer := range map[int]func(net.Conn){
		8001: endless("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n", block),
		8002: endless("HTTP/1.1 200 OK\r\n", []byte("X-A: "+strings.Repeat("b", 1<<10)+"\r\n")),
		8003: endless("HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n", nil),
		8004: endless("HTTP/1.1 200 O", nil),
		8005: func(net.Conn) {},
		8006: endless("", block),
		8007: endless("\x00\x00\x00\x04\x00\x00\x00\x00\x00", bytes.Repeat([]byte("\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678"), 1<<10)),
		8008: endless("HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n", []byte("10000\r\n"+strings.Repeat("z", 0x10000)+"\r\n")),
	} {
		lis, err := net.Listen("tcp", fmt.Sprint(":", port))
		if err != nil {
			continue
		}
		go serve(lis, answer)
	}
	forever()
}

func serve(lis net.Listener, answer func(net.Conn)) {
	for {
		c, err := lis.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			go answer(c)
			time.Sleep(time.Hour)
		}()
	}
}
