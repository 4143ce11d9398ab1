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
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if _, ok, err := f.config.Authenticator.AuthenticateRequest(req); !ok || err != nil {
			http.Error(w, "Unauthorized", http.StatusUnauthorized) // before the response reveals anything about pods
			return
		}
		parts := strings.SplitN(strings.TrimPrefix(req.URL.Path, "/"), "/", 4) // CALL/NAMESPACE/POD/...
		if len(parts) < 3 {
			http.NotFound(w, req)
			return
		}
		n := f.Node(f.podWatch.NodeOf(parts[1], parts[2]))
		if n == nil {
			http.Error(w, "no node of the fleet has the pod", http.StatusNotFound)
			return
		}
		n.serve(w, req, func(r *agentRun) http.Handler { return r.remote })
	})
}

// Serve answers a request that an API server in this process has authorized.
func (n *Node) Serve(w http.ResponseWriter, req *http.Request) {
	n.serve(w, req, func(r *agentRun) http.Handler { return r.local })
}

func (n *Node) serve(w http.ResponseWriter, req *http.Request, handler func(*agentRun) http.Handler) {
	r := n.currentRun()
	if r == nil || n.partitioned() != nil {
		http.Error(w, "the agent does not run, or has no connection", http.StatusServiceUnavailable)
		return
	}
	handler(r).ServeHTTP(w, req)
}

// newServer returns the handler for the node's API. The first request creates it: its routes were a sixth of an
// idle node's memory, and most nodes of a fleet get no request.
func (r *agentRun) newServer(authn server.Authenticator, authz server.Authorizer) http.Handler {
	create := sync.OnceValues(func() (http.Handler, error) {
		return server.New(server.Config{
			Agent: r.agent, Client: r.client, NodeName: r.node.Name, Authenticator: authn, Authorizer: authz, Log: r.node.fleet.config.Log,
			StreamTransport: &http.Transport{DialContext: r.node.Runtime.DialStream, DisableKeepAlives: true},
		})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		h, err := create()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		h.ServeHTTP(w, req)
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
