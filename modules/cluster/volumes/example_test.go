package volumes_test

import (
	"context"
	"fmt"
	"log"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/podsync/podsync/modules/cluster/objects"
	"github.com/podsync/podsync/modules/cluster/volumes"
)

// Objects are the Objects of a csi.Manager: they read claims and volumes from the API server.
func Example() {
	kube := fake.NewClientset(&v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"}, Spec: v1.PersistentVolumeClaimSpec{VolumeName: "disk-1"},
	})
	secrets, err := objects.New(objects.Config{Kube: kube, Pods: func() []*v1.Pod { return nil }})
	if err != nil {
		log.Fatal(err)
	}
	v, err := volumes.New(volumes.Config{
		Kube: kube, NodeName: "edge-7", Secrets: secrets,
		Node:   func() *v1.Node { return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge-7"}} },
		Report: func() {},
	})
	if err != nil {
		log.Fatal(err)
	}

	claim, err := v.Objects().Claim(context.Background(), "default", "data")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(claim.Spec.VolumeName)
	// Output: disk-1
}
