package podspec_test

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/syncpod/podspec"
)

func TestReferences(t *testing.T) {
	name := func(n string) v1.LocalObjectReference { return v1.LocalObjectReference{Name: n} }
	variable := func(configMap, secret string) []v1.EnvVar {
		return []v1.EnvVar{
			{Name: "plain", Value: "x"},
			{Name: "node", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}},
			{Name: "c", ValueFrom: &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: name(configMap), Key: "k"}}},
			{Name: "s", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: name(secret), Key: "k"}}},
		}
	}
	pod := &v1.Pod{Spec: v1.PodSpec{
		ImagePullSecrets: []v1.LocalObjectReference{name("pull")},
		Volumes: []v1.Volume{
			{Name: "none", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
			{Name: "c", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: name("c-volume")}}},
			{Name: "s", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s-volume"}}},
			{Name: "p", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
				{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: name("c-projected")}},
				{Secret: &v1.SecretProjection{LocalObjectReference: name("s-projected")}},
				{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}},
			}}}},
		},
		InitContainers: []v1.Container{{Env: variable("c-init", "s-init")}},
		Containers: []v1.Container{{Env: variable("c-volume", "s-env"), EnvFrom: []v1.EnvFromSource{
			{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: name("c-from")}},
			{SecretRef: &v1.SecretEnvSource{LocalObjectReference: name("s-from")}},
		}}},
		EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Env: variable("c-debug", "s-debug")}}},
	}}
	configMaps, secrets := podspec.References(pod)
	if want := []string{"c-debug", "c-from", "c-init", "c-projected", "c-volume"}; !slices.Equal(configMaps, want) {
		t.Errorf("ConfigMaps %q, want %q", configMaps, want)
	}
	if want := []string{"pull", "s-debug", "s-env", "s-from", "s-init", "s-projected", "s-volume"}; !slices.Equal(secrets, want) {
		t.Errorf("Secrets %q, want %q", secrets, want)
	}
}
