package syncpod_test

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/volume/local"
)

const dataImage = "registry.example/data:v2"

// withImageVolume has app mount a directory of an image, and another container nothing.
func withImageVolume(p *v1.Pod) {
	p.Spec.Volumes = append(p.Spec.Volumes,
		v1.Volume{Name: "unused", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "registry.example/unused:v1"}}},
		v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: dataImage, PullPolicy: v1.PullIfNotPresent}}})
	p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: "data", MountPath: "/data", SubPath: "models"})
	p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "other", Image: p.Spec.Containers[0].Image})
}

// withModels has the images of withImageVolume, whose subPath the runtime requires.
func withModels(c *critest.Config) {
	c.Registry = []critest.RemoteImage{
		{Image: critest.Image{Name: "registry.test/app:1"}},
		{Image: critest.Image{Name: dataImage, Files: map[string]string{"/models/weights": "w"}}},
	}
}

// mountingImages makes agents whose containers get the mounts of their volumes.
func mountingImages(t *testing.T) func(*syncpod.Config) {
	volumes, err := local.New(local.Config{Unprivileged: true})
	must(t, err)
	root := t.TempDir()
	return func(c *syncpod.Config) { c.Root, c.Parts.Volumes = root, volumes }
}

// created is the configuration that a container was last made with.
func (n *node) created(container string) *runtimeapi.ContainerConfig {
	n.Helper()
	var config *runtimeapi.ContainerConfig
	for _, call := range n.Journal().Of(critest.CreateContainer) {
		if req := call.Request().(*runtimeapi.CreateContainerRequest); req.GetConfig().GetMetadata().GetName() == container {
			config = req.GetConfig()
		}
	}
	if config == nil {
		n.Fatalf("%s was not made\n%v", container, n.Journal())
	}
	return config
}

// An image volume is pulled with the pod's secrets, mounted read-only, and
// reported to the image collector as in use (KEP-4639).
func TestImageVolume(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		secret := v1.Secret{Type: v1.SecretTypeDockerConfigJson, Data: map[string][]byte{
			v1.DockerConfigJsonKey: []byte(`{"auths":{"registry.example":{"username":"me","password":"hush"}}}`),
		}}
		n.restart(mountingImages(t), func(c *syncpod.Config) {
			c.Objects.PullSecrets = secretFunc(func() []v1.Secret { return []v1.Secret{secret} })
		})
		n.settle(testPod(withImageVolume), time.Minute)
		pulled := map[string]string{}
		for _, call := range n.Journal().Of(critest.PullImage) {
			req := call.Request().(*runtimeapi.PullImageRequest)
			pulled[req.GetImage().GetImage()] = req.GetAuth().GetUsername() // the journal hides which
		}
		if user := pulled[dataImage]; user == "" || pulled["registry.example/unused:v1"] != "" {
			t.Errorf("pulled %v, want the mounted image with a user, and not the unused one", pulled)
		}
		config := n.created("app")
		var mount *runtimeapi.Mount
		for _, m := range config.GetMounts() {
			if m.GetContainerPath() == "/data" {
				mount = m
			}
		}
		id := mount.GetImage().GetImage()
		if id == "" || mount.GetHostPath() != "" || !mount.GetReadonly() || mount.GetImageSubPath() != "models" || mount.GetImage().GetUserSpecifiedImage() != dataImage {
			t.Errorf("mount %v, want a read-only mount of %q in image %v, without a path of the host", mount, "models", dataImage)
		}
		if got := config.GetAnnotations()[runtime.AnnotationImageVolumes]; got != id {
			t.Errorf("annotation %q, want %q", got, id)
		}
		if got, ok := n.created("other").GetAnnotations()[runtime.AnnotationImageVolumes]; ok {
			t.Errorf("other mounts %q", got)
		}
		if k := n.report.container("app"); len(k.VolumeMounts) != 1 || k.VolumeMounts[0].Name != "data" || k.VolumeMounts[0].MountPath != "/data" {
			t.Errorf("reported mounts %+v", k.VolumeMounts)
		}
		if n.events.count("Pulling spec.containers{app} Pulling image \""+dataImage) != 1 || n.events.count("Pulled spec.containers{app} Successfully pulled image \""+dataImage) != 1 {
			t.Errorf("events %q, want 1 and 1", n.events.all)
		}
	}, withModels)
}

// A container whose image volume cannot be pulled waits for it as for its own image. Other containers
// do not wait. The container runs once the image is available.
func TestImageVolumeThatIsMissing(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.restart(mountingImages(t))
		fault := n.Fault(faults.Fault{
			Match: faults.Match{Method: critest.PullImage, Image: dataImage}, Times: faults.Always, Err: errBroken,
		})
		pod := testPod(withImageVolume)
		r, err := n.SyncPod(t.Context(), pod, nil)
		if err == nil || !strings.Contains(err.Error(), dataImage) {
			t.Errorf("error %v, want an error and %v in it", err, dataImage)
		}
		if w := n.report.container("app").State.Waiting; w == nil || w.Reason != string(image.ErrImagePull) || !strings.Contains(w.Message, dataImage) {
			t.Errorf("app is reported as %+v", w)
		}
		if n.report.container("other").State.Running == nil && n.current("other").State != runtime.ContainerRunning {
			t.Errorf("other does not run: %+v", n.report.container("other").State)
		}
		time.Sleep(time.Until(r.NextTry))
		_, _ = n.SyncPod(t.Context(), pod, nil)
		if w := n.report.container("app").State.Waiting; w == nil || w.Reason != string(image.ErrImagePullBackOff) {
			t.Errorf("app is reported as %+v", w)
		}
		fault.Remove()
		n.settle(pod, 10*time.Minute)
		n.wantStates("app 0 running", "other 0 running")
	}, withModels)
}

// After a failure, the images of a container are no longer marked as in use.
func TestImagesAreGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.restart(mountingImages(t))
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.CreateContainer}, Err: errBroken})
		_, _ = n.SyncPod(t.Context(), testPod(withImageVolume), nil)
		for _, name := range []string{dataImage, testPod().Spec.Containers[0].Image} {
			img := &runtimeapi.Image{RepoTags: []string{name}}
			if n.images.Leases().Held(img) {
				t.Errorf("%s is held", name)
			}
		}
	}, withModels)
}
