package fleet

import (
	"context"
	"net/http"
	"strings"
	"sync"

	"github.com/podsync/podsync/syncpod/server"
)

// Handler answers the requests that an API server sends to the nodes, such as requests for logs and exec.
// Config.Authenticator and Config.Authorizer decide which requests are allowed. All nodes have one address, so the pod in
// the path of a request determines the node that answers it.
func (f *Fleet) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok, err := f.config.Authenticator.AuthenticateRequest(r); !ok || err != nil {
			http.Error(w, "Unauthorized", http.StatusUnauthorized) // before the response reveals anything about pods
			return
		}
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
		n.serve(w, r, func(run *agentRun) http.Handler { return run.remote })
	})
}

// Serve answers a request that an API server in this process has authorized.
func (n *Node) Serve(w http.ResponseWriter, r *http.Request) {
	n.serve(w, r, func(run *agentRun) http.Handler { return run.local })
}

func (n *Node) serve(w http.ResponseWriter, r *http.Request, handler func(*agentRun) http.Handler) {
	run := n.currentRun()
	if run == nil || n.partitioned() != nil {
		http.Error(w, "the agent does not run, or has no connection", http.StatusServiceUnavailable)
		return
	}
	handler(run).ServeHTTP(w, r)
}

// newServer returns the handler of the node's API. The first request creates it: its routes were a sixth of the memory of
// an idle node, and most nodes of a fleet get no request.
func (l *agentRun) newServer(authn server.Authenticator, authz server.Authorizer) http.Handler {
	create := sync.OnceValues(func() (http.Handler, error) {
		return server.New(server.Config{
			Agent: l.loop, Client: l.client, NodeName: l.node.Name, Authenticator: authn, Authorizer: authz, Log: l.node.fleet.config.Log,
			StreamTransport: &http.Transport{DialContext: l.node.Runtime.DialStream, DisableKeepAlives: true},
		})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, err := create()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// alwaysAllow authorizes all requests: the API server has authorized the caller.
type alwaysAllow struct{}

func (alwaysAllow) AuthenticateRequest(*http.Request) (server.User, bool, error) {
	return server.User{Name: "test"}, true, nil
}

func (alwaysAllow) Authorize(context.Context, server.Attributes) (bool, string, error) {
	return true, "", nil
}
