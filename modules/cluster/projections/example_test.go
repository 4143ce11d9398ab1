package projections_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"log"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/podsync/podsync/modules/cluster/projections"
)

// A projected volume has the certificates of a ClusterTrustBundle in a file. An agent has Projections as
// syncpod.Objects.Projections.
func Example() {
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("a root")})
	kube := fake.NewClientset(&certificatesv1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: "roots"}, Spec: certificatesv1.ClusterTrustBundleSpec{TrustBundle: string(certificate)},
	})
	p, err := projections.New(projections.Config{Kube: kube})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); p.Run(ctx) }()

	vol := v1.Volume{VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
		{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Name: new("roots"), Path: "ca.pem"}},
	}}}}
	files, err := p.Project(ctx, &v1.Pod{}, &vol, 0)
	if err != nil {
		log.Fatal(err)
	}
	block, _ := pem.Decode(files.Files["ca.pem"])
	fmt.Printf("%s\n", block.Bytes)
	stop()
	<-ended
	// Output: a root
}
