package serve_test

import (
	"context"
	"fmt"
	"log"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/podsync/podsync/modules/cluster/serve"
	"github.com/podsync/podsync/syncpod/server"
)

// An Authorizer asks the API server whether a user may read the logs of the node, and caches the result.
func ExampleAuthorizer() {
	kube := fake.NewClientset()
	reviews := 0
	kube.PrependReactor("create", "subjectaccessreviews", func(a ktesting.Action) (bool, runtime.Object, error) {
		reviews++
		review := a.(ktesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		review.Status.Allowed = review.Spec.User == "alice"
		return true, review, nil
	})
	authorizer := serve.NewAuthorizer(kube, 5*time.Minute, 30*time.Second)

	for _, user := range []string{"alice", "alice", "bob"} {
		allowed, _, err := authorizer.Authorize(context.Background(), server.Attributes{
			User: server.User{Name: user}, Verb: "get", APIVersion: "v1", Resource: "nodes", Subresource: "log", Name: "edge-7",
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(user, allowed)
	}
	fmt.Println("reviews:", reviews)
	// Output:
	// alice true
	// alice true
	// bob false
	// reviews: 2
}
