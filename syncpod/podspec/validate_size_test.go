package podspec_test

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/syncpod/podspec"
)

// A pod of 1.5 MB may have 50,000 containers. A node refuses it with one short error, wherever the pod is from.
func TestListsOfAPodAreBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		limit int
		add   func(spec *v1.PodSpec, name string)
	}{
		"spec.containers": {1024 - 1, func(s *v1.PodSpec, name string) {
			s.InitContainers = append(s.InitContainers, v1.Container{Name: name, Image: "i"})
		}},
		"spec.volumes": {4096, func(s *v1.PodSpec, name string) { s.Volumes = append(s.Volumes, v1.Volume{Name: name}) }},
		"spec.containers[0].volumeMounts": {4096, func(s *v1.PodSpec, name string) {
			s.Containers[0].VolumeMounts = append(s.Containers[0].VolumeMounts, v1.VolumeMount{Name: "v", MountPath: "/" + name})
		}},
		"spec.containers[0].volumeDevices": {4096, func(s *v1.PodSpec, name string) {
			s.Containers[0].VolumeDevices = append(s.Containers[0].VolumeDevices, v1.VolumeDevice{Name: "v", DevicePath: "/" + name})
		}},
		"spec.containers[0].ports": {4096, func(s *v1.PodSpec, name string) {
			s.Containers[0].Ports = append(s.Containers[0].Ports, v1.ContainerPort{ContainerPort: 1})
		}},
	} {
		for n, refused := range map[int]bool{tt.limit: false, tt.limit + 1: true, 50_000: true} {
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i"}}}}
			for i := range n {
				tt.add(&pod.Spec, fmt.Sprint("n", i))
			}
			pod = podspec.Default(pod)
			for validate, err := range map[string]error{"Validate": podspec.Validate(pod), "ValidateAdmitted": podspec.ValidateAdmitted(pod)} {
				said := err != nil && strings.Contains(err.Error(), name+": Too many")
				if said != refused || refused && len(err.Error()) > 200 {
					t.Errorf("%s of %d %s: %.300v", validate, n, name, err)
				}
			}
		}
	}
}
