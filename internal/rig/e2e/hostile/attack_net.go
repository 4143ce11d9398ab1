//go:build linux

package main

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"time"
)

// answers serves probes and handlers with endless responses, each at a port of its own: a body, headers, redirects, one of
// them to a port of the node, half a line, nothing, garbage, and a gRPC server's greeting followed by floods of frames.
func answers(port string) {
	const settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	block := bytes.Repeat([]byte("x"), 64<<10)
	endless := func(first string, block []byte) func(net.Conn) {
		return func(c net.Conn) {
			_, err := c.Write([]byte(first))
			for err == nil && len(block) > 0 {
				_, err = c.Write(block)
			}
		}
	}
	for at, answer := range map[int]func(net.Conn){
		8001: endless("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n", block),
		8002: endless("HTTP/1.1 200 OK\r\n", []byte("X-A: "+strings.Repeat("b", 1<<10)+"\r\n")),
		8003: endless("HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n", nil),
		8004: endless("HTTP/1.1 200 O", nil),
		8005: func(net.Conn) {},
		8006: endless("", block),
		8007: endless("\x00\x00\x00\x04\x00\x00\x00\x00\x00", bytes.Repeat([]byte("\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678"), 1<<10)),
		8009: endless("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:"+port+"/\r\nContent-Length: 0\r\n\r\n", nil),
		8010: endless("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", []byte("1;"+strings.Repeat("e", 4<<10)+"\r\nx\r\n")),
		8011: endless("HTTP/1.1 100 Continue\r\n\r\n", []byte("HTTP/1.1 100 Continue\r\nX-A: b\r\n\r\n")),
		8012: endless(settings, bytes.Repeat([]byte(settings), 1<<10)),
		8013: endless(settings+"\x00\x00\x01\x01\x00\x00\x00\x00\x01\x88", bytes.Repeat([]byte("\x00\x00\x05\x09\x00\x00\x00\x00\x01\x00\x01a\x01b"), 1<<10)),
		8014: endless(settings, bytes.Repeat([]byte("\x00\x00\x04\x08\x00\x00\x00\x00\x00\x7f\xff\xff\xff"), 1<<10)),
		8015: endless(settings, bytes.Repeat([]byte("\x00\x00\x08\x07\x00\x00\x00\x00\x00\x7f\xff\xff\xff\x00\x00\x00\x00"), 1<<10)),
		8016: endless(settings+"\x00\x00\x01\x01\x04\x00\x00\x00\x01\x88", bytes.Repeat(append([]byte("\x00\x40\x00\x00\x00\x00\x00\x00\x01"), block[:16<<10]...), 4)),
		8008: endless("HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n", []byte("10000\r\n"+strings.Repeat("z", 0x10000)+"\r\n")),
	} {
		lis, err := net.Listen("tcp", fmt.Sprint(":", at))
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
