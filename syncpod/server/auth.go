package server

import (
	"context"
	"errors"
	"net/http"
)

// User is a request's user.
type User struct {
	Name, UID string
	Groups    []string
	Extra     map[string][]string
}

// Attributes describe a request in the terms of the Kubernetes API: those of a SubjectAccessReview.
type Attributes struct {
	User User
	// Verb is get, create, update, patch or delete.
	Verb string
	// APIVersion is v1, Resource is nodes, and Subresource is the part of the server, such as proxy, log or stats.
	APIVersion, Resource, Subresource string
	// Name is the node's name, Path the request's path.
	Name, Path string
}

// An Authenticator identifies a request's user: by its certificate, or by a token that a TokenReview checks. It is
// called concurrently.
type Authenticator interface {
	// AuthenticateRequest returns the user, and false if the request does not identify a user. An
	// error means the same, and is logged.
	AuthenticateRequest(r *http.Request) (user User, ok bool, err error)
}

// An Authorizer decides which requests a user may make. It is called concurrently.
type Authorizer interface {
	// Authorize reports whether the user is allowed. An error means that this is unknown.
	Authorize(ctx context.Context, a Attributes) (allowed bool, reason string, err error)
}

// ErrBusy means that an Authenticator or an Authorizer cannot decide now, because it has too many requests. The
// response is 429, and nothing is logged.
var ErrBusy = errors.New("too many requests are waiting to be authenticated or authorized")

// trusted marks requests on a connection whose users may do everything.
type trusted struct{}

// userKey is the key of the User in a request's context.
type userKey struct{}

// callerOf returns the user of a request that was admitted, and userOf its name.
func callerOf(r *http.Request) User {
	user, _ := r.Context().Value(userKey{}).(User)
	return user
}

func userOf(r *http.Request) string { return callerOf(r).Name }

// admit answers requests that are rejected. It returns admitted requests, with their user in the
// context.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, route route) (admitted *http.Request, ok bool) {
	if r.Context().Value(trusted{}) != nil {
		return r, true
	}
	if s.config.Authenticator == nil {
		if route.open {
			return r, true
		}
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return r, false
	}
	user, ok, err := s.config.Authenticator.AuthenticateRequest(r)
	switch {
	case errors.Is(err, ErrBusy):
		busy(w)
		return r, false
	case err != nil && r.Context().Err() == nil: // if the caller has disconnected, its review has ended, too
		s.line("", "review").Error(err, "A request cannot be authenticated", "address", r.RemoteAddr)
	case err == nil && !ok:
		s.line("", "unauthorized").Info("Request is not authenticated", "address", r.RemoteAddr)
	}
	if err != nil || !ok {
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return r, false
	}
	return r.WithContext(context.WithValue(r.Context(), userKey{}, user)), s.authorize(w, r, route, user)
}

// busy rejects a request with a response that allows a retry.
func busy(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, "Too Many Requests", http.StatusTooManyRequests)
}

// authorize checks a route's subresources; permission for one of them suffices.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request, route route, user User) bool {
	a := Attributes{User: user, Verb: route.verb(r.Method), APIVersion: "v1", Resource: "nodes", Name: s.config.NodeName, Path: r.URL.Path}
	for _, subresource := range route.subresources {
		a.Subresource = subresource
		allowed, _, err := s.config.Authorizer.Authorize(r.Context(), a)
		if errors.Is(err, ErrBusy) {
			busy(w)
			return false
		}
		if err != nil {
			s.line("", "review").Error(err, "A request cannot be authorized", append(userValues(r, user), "verb", a.Verb, "subresource", subresource)...)
			http.Error(w, "Authorization error", http.StatusInternalServerError)
			return false
		}
		if allowed {
			return true
		}
	}
	s.line(user.Name, "forbidden").Info("Request is forbidden", append(userValues(r, user), "verb", a.Verb, "subresource", a.Subresource)...)
	http.Error(w, "Forbidden: "+a.Verb+" of nodes/"+a.Subresource, http.StatusForbidden)
	return false
}

// verb returns a request's verb, as the Kubernetes API names it.
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
