package fleet

import (
	"context"
	"net/http"
	"strings"

	"github.com/podsync/podsync/syncpod/server"
)

// Handler answers the requests that an API server sends to the nodes, such as those for logs and exec. All nodes have
// one address, so that the pod in the path of a request decides which node answers it.
func (f *Fleet) Handler(authenticator server.Authenticator, authorizer server.Authorizer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parts := strings.SplitN(strings.TrimPrefix(r.URL.Path, "/"), "/", 4) // CALL/NAMESPACE/POD/...
		if len(parts) < 3 {
			http.NotFound(w, r)
			return
		}
		n := f.Node(f.podWatch.NodeOf(parts[1], parts[2]))
		if n == nil {
			http.Error(w, "no node of the fleet has the pod", http.StatusNotFound)
			return
		}
		n.serve(w, r, authenticator, authorizer)
	})
}

// Serve answers a request that an API server in this process has authorized.
func (n *Node) Serve(w http.ResponseWriter, r *http.Request) {
	n.serve(w, r, alwaysAllow{}, alwaysAllow{})
}

func (n *Node) serve(w http.ResponseWriter, r *http.Request, authenticator server.Authenticator, authorizer server.Authorizer) {
	l := n.currentRun()
	if l == nil {
		http.Error(w, "the agent does not run", http.StatusServiceUnavailable)
		return
	}
	s, err := server.New(server.Config{
		Agent: l.loop, Client: l.client, NodeName: n.Name, Authenticator: authenticator, Authorizer: authorizer,
		StreamTransport: &http.Transport{DialContext: n.Runtime.DialStream, DisableKeepAlives: true},
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.ServeHTTP(w, r)
}

// alwaysAllow authorizes all requests: the API server has authorized the caller.
type alwaysAllow struct{}

func (alwaysAllow) AuthenticateRequest(*http.Request) (server.User, bool, error) {
	return server.User{Name: "test"}, true, nil
}

func (alwaysAllow) Authorize(context.Context, server.Attributes) (bool, string, error) {
	return true, "", nil
}
