package server

import (
	"context"
	"net/http"
)

// User is who asks.
type User struct {
	Name, UID string
	Groups    []string
	Extra     map[string][]string
}

// Attributes are what is asked for, in the terms of the Kubernetes API: those of a
// SubjectAccessReview.
type Attributes struct {
	User User
	// Verb is get, create, update, patch or delete.
	Verb string
	// APIVersion is v1, and Resource is nodes.
	APIVersion, Resource, Subresource string
	// Name is that of the node, and Path the path of the request.
	Name, Path string
}

// An Authenticator says who has sent a request: by its certificate, or by a token that
// a TokenReview is asked of. It is called by many requests at once.
type Authenticator interface {
	// AuthenticateRequest returns the user, and false if nobody is known by what is in
	// the request. An error means the same, and is logged.
	AuthenticateRequest(r *http.Request) (user User, ok bool, err error)
}

// An Authorizer decides what users may. It is called by many requests at once.
type Authorizer interface {
	// Authorize returns whether the user may. An error means that it cannot be told.
	Authorize(ctx context.Context, a Attributes) (allowed bool, reason string, err error)
}

// trusted marks requests that came by a way on which everybody may everything.
type trusted struct{}

// admit answers requests that may not go on, and reports whether this one may.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, route route) bool {
	if r.Context().Value(trusted{}) != nil {
		return true
	}
	if s.config.Authenticator == nil {
		if route.open {
			return true
		}
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return false
	}
	user, ok, err := s.config.Authenticator.AuthenticateRequest(r)
	if err != nil {
		s.config.Log.Error(err, "A request cannot be authenticated")
	}
	if err != nil || !ok {
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return false
	}
	return s.authorize(w, r, route, user)
}

// authorize asks for each of the subresources that suffice.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request, route route, user User) bool {
	a := Attributes{User: user, Verb: route.verb(r.Method), APIVersion: "v1", Resource: "nodes", Name: s.config.NodeName, Path: r.URL.Path}
	for _, subresource := range route.subresources {
		a.Subresource = subresource
		allowed, _, err := s.config.Authorizer.Authorize(r.Context(), a)
		if err != nil {
			s.config.Log.Error(err, "A request cannot be authorized", "user", user.Name, "verb", a.Verb, "subresource", subresource)
			http.Error(w, "Authorization error", http.StatusInternalServerError)
			return false
		}
		if allowed {
			return true
		}
	}
	http.Error(w, "Forbidden: "+a.Verb+" of nodes/"+a.Subresource, http.StatusForbidden)
	return false
}

// verb is what a request does, in the terms of the Kubernetes API.
func (r route) verb(method string) string {
	if r.acts {
		return "create"
	}
	switch method {
	case http.MethodGet, http.MethodHead:
		return "get"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	return ""
}
