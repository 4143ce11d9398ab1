package csi_test

import (
	"context"
	"fmt"
	"log"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/modules/csi"
)

// Without an API server a program provides the volumes and claims itself. A claim with a volume name is bound to it.
func ExampleStatic() {
	objects := csi.Static(
		[]*v1.PersistentVolume{{ObjectMeta: metav1.ObjectMeta{Name: "disk-1"}}},
		[]*v1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"}, Spec: v1.PersistentVolumeClaimSpec{VolumeName: "disk-1"},
		}},
	)
	claim, err := objects.Claim(context.Background(), "default", "data")
	if err != nil {
		log.Fatal(err)
	}
	volume, err := objects.Volume(context.Background(), claim.Spec.VolumeName)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(claim.Status.Phase, volume.Spec.ClaimRef.Namespace, volume.Spec.ClaimRef.Name)
	// Output: Bound default data
}
