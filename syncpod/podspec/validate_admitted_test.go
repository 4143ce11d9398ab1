package podspec_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/syncpod/podspec"
)

// Values that become a path or a label are checked even if an API server has admitted the pod.
func TestValidateAdmitted(t *testing.T) {
	if err := podspec.ValidateAdmitted(nil); err == nil {
		t.Error("nil is valid")
	}
	items := []v1.KeyToPath{{Key: "a", Path: "../a"}}
	files := []v1.DownwardAPIVolumeFile{{Path: "/a"}}
	projection := func(p v1.VolumeProjection) func(*v1.Pod) {
		return volume(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{p}}})
	}
	for want, change := range map[string]func(*v1.Pod){
		"":                        func(*v1.Pod) {},
		"metadata.name":           func(p *v1.Pod) { p.Name = "../a" },
		"metadata.namespace":      func(p *v1.Pod) { p.Namespace = "a/b" },
		"metadata.uid":            func(p *v1.Pod) { p.UID = "../a" },
		"spec.containers[0].name": func(p *v1.Pod) { p.Spec.Containers[0].Name = ".." },
		"spec.containers[0].name: Duplicate": func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{}}
			p.Spec.InitContainers[0].Name = p.Spec.Containers[0].Name
		},
		"spec.containers[0].volumeMounts[0].subPath": func(p *v1.Pod) {
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{SubPath: "a/../../b"}}
		},
		"spec.volumes[0].name":                                               func(p *v1.Pod) { p.Spec.Volumes = []v1.Volume{{Name: "../a"}} },
		"spec.volumes[1].name: Duplicate":                                    func(p *v1.Pod) { p.Spec.Volumes = []v1.Volume{{Name: "a"}, {Name: "a"}} },
		"spec.volumes[0].secret.items[0].path":                               volume(v1.VolumeSource{Secret: &v1.SecretVolumeSource{Items: items}}),
		"spec.volumes[0].configMap.items[0].path":                            volume(v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{Items: items}}),
		"spec.volumes[0].downwardAPI.items[0].path":                          volume(v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: files}}),
		"spec.volumes[0].projected.sources[0].secret.items[0].path":          projection(v1.VolumeProjection{Secret: &v1.SecretProjection{Items: items}}),
		"spec.volumes[0].projected.sources[0].configMap.items[0].path":       projection(v1.VolumeProjection{ConfigMap: &v1.ConfigMapProjection{Items: items}}),
		"spec.volumes[0].projected.sources[0].downwardAPI.items[0].path":     projection(v1.VolumeProjection{DownwardAPI: &v1.DownwardAPIProjection{Items: files}}),
		"spec.volumes[0].projected.sources[0].serviceAccountToken.path: Inv": projection(v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "..x"}}),
	} {
		pod := good(t)
		pod.Spec.Volumes = nil
		for i := range pod.Spec.Containers {
			pod.Spec.Containers[i].VolumeMounts = nil
		}
		pod.Spec.InitContainers = nil
		change(pod)
		err := podspec.ValidateAdmitted(pod)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}

func volume(s v1.VolumeSource) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Volumes = []v1.Volume{{Name: "a", VolumeSource: s}} }
}
