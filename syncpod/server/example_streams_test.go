package server_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/podsync/podsync/syncpod/server"
)

// Exec, attach and port-forward for a backend of one's own. The caller authenticates users.
func ExampleStreams() {
	own := &ownBackend{url: "http://127.0.0.1:10010/exec/1"} // the URL of a streaming server
	streams, err := server.NewStreams(server.StreamsConfig{Runtime: own, Pods: own})
	if err != nil {
		log.Fatal(err)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		streams.ServeHTTP(w, server.WithUser(r, server.User{Name: "ann"}))
	}))
	defer web.Close()
	resp, err := http.Post(web.URL+"/exec/shop/web/app?command=date&output=1", "", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status) // kubectl requests an upgrade
	// Output: 400 Bad Request
}
