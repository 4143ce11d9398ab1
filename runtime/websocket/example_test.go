package websocket_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"

	"github.com/podsync/podsync/runtime/websocket"
)

// A server sends back the first message of a client.
func Example() {
	client, server := net.Pipe()
	go func() {
		read := bufio.NewReader(server)
		r, err := http.ReadRequest(read)
		if err != nil {
			return
		}
		ws, _, err := websocket.Accept(server, read, r, "v5.channel.k8s.io")
		if err != nil {
			return
		}
		defer ws.Close()
		if message, err := ws.Read(); err == nil {
			_ = ws.Write([]byte("echo: "), message)
		}
	}()
	r, err := http.NewRequest(http.MethodGet, "http://node/exec", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ws, protocol, err := websocket.Dial(client, r, "v5.channel.k8s.io", "v4.channel.k8s.io")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ws.Close()
	if err := ws.Write([]byte("hello")); err != nil {
		fmt.Println(err)
		return
	}
	message, err := ws.Read()
	fmt.Println(protocol, string(message), err)
	// Output: v5.channel.k8s.io echo: hello <nil>
}
