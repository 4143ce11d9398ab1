package server_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/server"
	"github.com/podsync/podsync/syncpod/source"
)

// tokens authenticates bearer tokens, and authorizes only read requests.
type tokens map[string]string

func (t tokens) AuthenticateRequest(r *http.Request) (server.User, bool, error) {
	name, ok := t[r.Header.Get("Authorization")]
	return server.User{Name: name}, ok, nil
}

func (t tokens) Authorize(_ context.Context, a server.Attributes) (bool, string, error) {
	return a.Verb == "get", "", nil
}

// A server of an agent, for callers with a token. With an API server, use a TokenReview
// and a SubjectAccessReview instead.
func Example() {
	rt, err := critest.New(critest.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	conn, err := rt.Dial()
	if err != nil {
		log.Fatal(err)
	}
	client := cri.NewClient(conn)
	defer client.Close()
	agent, err := agent.New(agent.Config{Client: client, Sources: []source.Source{source.NewPush()}, Sync: syncpod.Config{RuntimeName: "critest"}})
	if err != nil {
		log.Fatal(err)
	}
	known := tokens{"Bearer of-ann": "ann"}
	s, err := server.New(server.Config{Agent: agent, Client: client, NodeName: "node1", Authenticator: known, Authorizer: known})
	if err != nil {
		log.Fatal(err)
	}
	web := httptest.NewServer(s) // http.Server.ServeTLS, with the node's certificate
	defer web.Close()

	for _, request := range []struct{ token, method, path string }{
		{"", "GET", "/pods"},
		{"Bearer of-ann", "GET", "/pods"},
		{"Bearer of-ann", "POST", "/run/default/web/app?cmd=reboot"},
	} {
		req, err := http.NewRequest(request.method, web.URL+request.path, nil)
		if err != nil {
			log.Fatal(err)
		}
		req.Header.Set("Authorization", request.token)
		resp, err := web.Client().Do(req)
		if err != nil {
			log.Fatal(err)
		}
		resp.Body.Close()
		fmt.Println(request.method, request.path, resp.Status)
	}
	// Output:
	// GET /pods 401 Unauthorized
	// GET /pods 200 OK
	// POST /run/default/web/app?cmd=reboot 403 Forbidden
}
