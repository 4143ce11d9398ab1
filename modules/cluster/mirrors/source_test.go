package mirrors

import (
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/syncpod/source"
)

// TestStaticPodsHaveNoObjectsOfTheAPI: a static pod that refers to an API object is rejected with an error that names the
// object, and other pods run.
func TestStaticPodsHaveNoObjectsOfTheAPI(t *testing.T) {
	by := v1.LocalObjectReference{Name: "x"}
	volume := func(v v1.VolumeSource) v1.PodSpec {
		return v1.PodSpec{Volumes: []v1.Volume{{Name: "v", VolumeSource: v}}}
	}
	env := func(c v1.Container) v1.PodSpec { return v1.PodSpec{InitContainers: []v1.Container{c}} }
	projected := func(p v1.VolumeProjection) v1.PodSpec {
		return volume(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{p}}})
	}
	for what, spec := range map[string]v1.PodSpec{
		"a ConfigMap of variables": env(v1.Container{EnvFrom: []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: by}}}}),
		"a Secret of variables":    env(v1.Container{EnvFrom: []v1.EnvFromSource{{SecretRef: &v1.SecretEnvSource{LocalObjectReference: by}}}}),
		"a variable":               env(v1.Container{Env: []v1.EnvVar{{Name: "A", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: by, Key: "k"}}}}}),
		"a Secret volume":          volume(v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "x"}}),
		"a ConfigMap volume":       volume(v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: by}}),
		"a claim":                  volume(v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "x"}}),
		"a projected Secret":       projected(v1.VolumeProjection{Secret: &v1.SecretProjection{LocalObjectReference: by}}),
		"a token":                  projected(v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "t"}}),
		"a bundle":                 projected(v1.VolumeProjection{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Path: "t"}}),
		"an account":               {ServiceAccountName: "x"},
		"a pull secret":            {ImagePullSecrets: []v1.LocalObjectReference{by}},
		"a device claim":           {ResourceClaims: []v1.PodResourceClaim{{Name: "x"}}},
	} {
		bad := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bad"}, Spec: spec}
		good := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "good"}}
		earlier := errors.New("earlier")
		got := withoutReferences(source.Snapshot{Pods: []*v1.Pod{bad, good}, Errors: []error{earlier}})
		if len(got.Pods) != 1 || got.Pods[0] != good || len(got.Errors) != 2 || got.Errors[0] != earlier || !strings.Contains(got.Errors[1].Error(), "static pod default/bad refers to") {
			t.Errorf("%s: %v, errors %v, want the other pod and an error for this one", what, got.Pods, got.Errors)
		}
	}
}
