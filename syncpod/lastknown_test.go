package syncpod_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/volume"
)

// outside is everything that a pod needs from outside the node. If fail is set, each call returns its result.
type outside struct {
	mu        sync.Mutex // images are pulled beside other work
	fail      func(ctx context.Context) error
	asked     map[string]int
	published bool
}

func (o *outside) call(ctx context.Context, what string) error {
	o.mu.Lock()
	if o.asked == nil {
		o.asked = map[string]int{}
	}
	o.asked[what]++
	fail := o.fail
	o.mu.Unlock()
	if fail == nil {
		return nil
	}
	return fail(ctx)
}

// setFail makes each call return the result of fail, or succeed if it is nil.
func (o *outside) setFail(fail func(ctx context.Context) error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fail = fail
}

func (o *outside) ConfigMap(ctx context.Context, _, name string) (*v1.ConfigMap, error) {
	if err := o.call(ctx, "configMap"); err != nil {
		return nil, err
	}
	if name == "none" {
		return nil, env.ErrNotFound
	}
	return &v1.ConfigMap{Data: map[string]string{"key": "value"}}, nil
}

func (o *outside) Secret(ctx context.Context, _, name string) (*v1.Secret, error) {
	if err := o.call(ctx, "secret"); err != nil {
		return nil, err
	}
	if name == "none" {
		return nil, env.ErrNotFound
	}
	return &v1.Secret{Data: map[string][]byte{"key": []byte("value")}}, nil
}

func (o *outside) Services(ctx context.Context, _ string) ([]*v1.Service, error) {
	return nil, o.call(ctx, "services")
}

func (o *outside) RuntimeHandler(ctx context.Context, _ string) (string, error) {
	return "runc", o.call(ctx, "class")
}

func (o *outside) PullSecrets(ctx context.Context, _ *v1.Pod) ([]v1.Secret, error) {
	return nil, o.call(ctx, "pull secrets")
}

func (o *outside) Provides(vol *v1.Volume) bool { return vol.PersistentVolumeClaim != nil }

func (o *outside) SetUp(ctx context.Context, _ *v1.Pod, _ *v1.Volume, _ string) error {
	err := o.call(ctx, "claim")
	o.published = o.published || err == nil
	return err
}

func (o *outside) Locate(*v1.Pod, *v1.Volume, string) (volume.Location, error) {
	if !o.published {
		return volume.Location{}, errors.New("it is not mounted")
	}
	return volume.Location{Path: os.TempDir()}, nil
}

func (o *outside) TearDown(context.Context, types.UID, string) error { return nil }

func (o *outside) EnsureCgroup(ctx context.Context, _ *v1.Pod) (string, error) {
	return "/pod", o.call(ctx, "cgroup")
}

func (o *outside) RaiseCgroup(ctx context.Context, pod *v1.Pod) (string, error) {
	return o.EnsureCgroup(ctx, pod)
}

func (o *outside) PodsCgroup() string { return "" }

func (o *outside) RemovePod(context.Context, types.UID) error { return nil }

func (o *outside) serve(c *syncpod.Config) {
	c.Objects = syncpod.Objects{Sources: env.Sources{ConfigMaps: o, Secrets: o, Services: o}, RuntimeClasses: o, PullSecrets: o}
	c.Extensions.Volumes, c.Extensions.Cgroups = o, o
}

// needy names something of each kind, in variables and volumes.
func needy(p *v1.Pod) {
	yes := true
	by := func(name string) v1.LocalObjectReference { return v1.LocalObjectReference{Name: name} }
	p.Spec.RuntimeClassName = new("class")
	p.Spec.ImagePullSecrets = []v1.LocalObjectReference{by("registry")}
	p.Spec.Volumes = []v1.Volume{
		{Name: "conf", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: by("conf")}}},
		{Name: "none", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: by("none"), Optional: &yes}}},
		{Name: "both", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: by("conf")}}, {ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: by("none"), Optional: &yes}},
		}}}},
		{Name: "claim", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}},
	}
	app := &p.Spec.Containers[0]
	for _, vol := range p.Spec.Volumes {
		app.VolumeMounts = append(app.VolumeMounts, v1.VolumeMount{Name: vol.Name, MountPath: "/" + vol.Name})
	}
	app.EnvFrom = []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: by("none"), Optional: &yes}}}
	app.Env = []v1.EnvVar{
		{Name: "A", ValueFrom: &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: by("conf"), Key: "key"}}},
		{Name: "B", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: by("secret"), Key: "key"}}},
		{Name: "C", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: by("none"), Key: "key", Optional: &yes}}},
		{Name: "D", ValueFrom: &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: by("conf"), Key: "other", Optional: &yes}}},
	}
}

// If any source outside the node is unavailable, refuses or hangs, a container restarts with the node's copies (kubeedge #4817,
// kubernetes #46920).
func TestR1_RestartWithWhatTheNodeHas(t *testing.T) {
	for name, fail := range map[string]func(context.Context) error{
		"refuses": func(context.Context) error { return errors.New("connection refused") },
		"hangs": func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			bubble(t, func(t *testing.T, n *node) {
				o := &outside{}
				n.restart(o.serve, func(c *syncpod.Config) { c.Root = root })
				pod := testPod(needy)
				n.settle(pod, time.Minute)
				var envs []*runtimeapi.KeyValue
				for round := range uint32(3) {
					n.exit("app", 1)
					o.setFail(nil)
					if round > 0 {
						o.setFail(fail)
					}
					began := time.Now()
					for n.current("app").Attempt != round+1 || n.current("app").State != runtime.ContainerRunning {
						if time.Since(began) > time.Minute {
							t.Fatalf("no restart within a minute: %q\n%v", n.states(), n.events.all)
						}
						n.SyncPod(t.Context(), pod, nil)
						synctest.Wait()
						time.Sleep(time.Second)
					}
					if backOff := 10 * time.Second << round; time.Since(began) > backOff+20*time.Second {
						t.Errorf("restart %d took %v", round+1, time.Since(began))
					}
					created := n.created("app")
					if round == 0 {
						envs = created.GetEnvs()
					} else if len(created.GetEnvs()) != len(envs) || len(created.GetMounts()) < 4 {
						t.Errorf("restart %d has %d variables and %d mounts, want %d and 4 at least", round+1, len(created.GetEnvs()), len(created.GetMounts()), len(envs))
					}
				}
			}, func(c *critest.Config) { c.Handlers = []string{"runc"} })
		})
	}
}

// A ConfigMap that was deleted stops neither the containers that mount it, whose files the node has, nor others (kubernetes
// #46920). A volume that is lost stops only those that mount it.
func TestR2_DeletedOrLostVolume(t *testing.T) {
	root := t.TempDir()
	bubble(t, func(t *testing.T, n *node) {
		o := &outside{}
		n.restart(o.serve, func(c *syncpod.Config) { c.Root, c.Extensions.Cgroups, c.Objects.Services = root, nil, nil })
		pod := testPod(containers(ctr("app"), ctr("other")), func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{Name: "conf", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "conf"}}}}}
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "conf", MountPath: "/conf"}}
		})
		n.settle(pod, time.Minute)
		for _, err := range []error{env.ErrNotFound, errors.New("forbidden")} {
			o.setFail(func(context.Context) error { return err })
			n.exit("app", 1)
			n.exit("other", 1)
			n.drive(pod, time.Minute)
			if n.current("app").State != runtime.ContainerRunning || n.current("other").State != runtime.ContainerRunning {
				t.Fatalf("%v: %q\n%q", err, n.states(), n.events.all)
			}
		}
		if n.events.count("FailedMount") == 0 {
			t.Errorf("nothing reports the ConfigMap: %q", n.events.all)
		}
		must(t, os.RemoveAll(filepath.Join(root, "pods", podUID, "volumes/kubernetes.io~configmap")))
		n.exit("app", 1)
		n.exit("other", 1)
		n.drive(pod, 3*time.Minute)
		if n.current("app").State == runtime.ContainerRunning || n.current("other").State != runtime.ContainerRunning {
			t.Errorf("the files are lost: %q, want only the other container", n.states())
		}
	})
}

// No credentials are looked up for an image that is present and usable by the pod (kubernetes #133079).
func TestR3_NoCredentialsForPresentImages(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		o := &outside{fail: func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}}
		n.settle(testPod(), time.Minute)
		n.restart(func(c *syncpod.Config) { c.Objects.PullSecrets = o })
		n.exit("app", 1)
		n.drive(testPod(), time.Minute)
		another := testPod(func(p *v1.Pod) { p.Name, p.UID = "another", "another" })
		n.sync(another)
		if n.current("app").Attempt != 1 || len(n.Status("another").Containers) != 1 || o.asked["pull secrets"] > 0 {
			t.Errorf("%q after %d look-ups, want a restart and another pod without any", n.states(), o.asked["pull secrets"])
		}
	})
}

// An image that was pulled with credentials is verified once for each pod: a restart does not depend on who has them.
func TestR3_ImageThatThePodHasUsed(t *testing.T) {
	for name, newAgent := range map[string]bool{"the same agent": false, "another agent": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				password, asked := "right", 0
				must(t, n.SetCredentials("registry.test/app:1", &runtimeapi.AuthConfig{Username: "me", Password: "right"}))
				secrets := secretOf(&password)
				n.restart(func(c *syncpod.Config) {
					c.Objects.PullSecrets = secretFunc(func() []v1.Secret {
						asked++
						return secrets()
					})
				})
				pod := testPod()
				n.settle(pod, time.Minute)
				if newAgent {
					n.restart(func(c *syncpod.Config) {
						c.Objects.PullSecrets = secretFunc(func() []v1.Secret {
							asked++
							return nil
						})
					})
				}
				before := asked
				n.exit("app", 1)
				n.drive(pod, time.Minute)
				if n.current("app").Attempt != 1 || asked != before || n.Journal().Count(critest.PullImage) != 1 {
					t.Errorf("%q after %d look-ups and %d pulls, want a restart without more", n.states(), asked-before, n.Journal().Count(critest.PullImage))
				}
			}, func(c *critest.Config) {
				c.Registry = []critest.RemoteImage{{Image: critest.Image{Name: "registry.test/app:1"}}}
			})
		})
	}
}
