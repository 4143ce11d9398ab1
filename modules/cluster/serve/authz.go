package serve

import (
	"context"
	"encoding/json"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/podsync/podsync/syncpod/server"
)

// Authorizer authorizes requests by SubjectAccessReviews. It is a server.Authorizer.
type Authorizer struct {
	kube    kubernetes.Interface
	results *resultCache[string, string]
	reviews *reviews[string, string]
}

// NewAuthorizer returns an Authorizer that caches grants for allowed and denials for denied. At
// most 16 reviews run at a time, each for at most ten seconds.
func NewAuthorizer(kube kubernetes.Interface, allowed, denied time.Duration) *Authorizer {
	return &Authorizer{kube: kube, results: newResultCache[string, string](allowed, denied), reviews: newReviews[string, string]()}
}

// Authorize implements server.Authorizer.
func (a *Authorizer) Authorize(ctx context.Context, ask server.Attributes) (allowed bool, reason string, err error) {
	ask.Path = "" // not part of the review
	key, err := json.Marshal(ask)
	if err != nil {
		return false, "", err
	}
	reason, allowed, found := a.results.get(string(key))
	if !found {
		reason, allowed, err = a.reviews.do(ctx, string(key), func(ctx context.Context) (string, bool, error) { return a.review(ctx, string(key), ask) })
	}
	if err == nil && allowed && !admitted(ctx, ask.User.Name) {
		return false, "", server.ErrBusy
	}
	return allowed, reason, err
}

// review sends a SubjectAccessReview to the API server.
func (a *Authorizer) review(ctx context.Context, key string, ask server.Attributes) (reason string, allowed bool, err error) {
	answer, err := a.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, reviewOf(ask), metav1.CreateOptions{})
	if err != nil {
		return "", false, err
	}
	allowed = answer.Status.Allowed && !answer.Status.Denied
	a.results.put(key, answer.Status.Reason, allowed)
	return answer.Status.Reason, allowed, nil
}

func reviewOf(a server.Attributes) *authorizationv1.SubjectAccessReview {
	extra := map[string]authorizationv1.ExtraValue{}
	for k, v := range a.User.Extra {
		extra[k] = v
	}
	return &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: a.User.Name, UID: a.User.UID, Groups: a.User.Groups, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: a.Verb, Version: a.APIVersion, Resource: a.Resource, Subresource: a.Subresource, Name: a.Name,
		},
	}}
}
