package simulation

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod/container/env"
)

// objects are what pods need from outside the node: the API objects that their variables name, and
// pull secrets. Their draws are apart from those of the life, so that a life of a seed differs by their failures alone.
type objects struct {
	rng *rand.Rand
	// mountsImages is whether the runtime mounts images.
	mountsImages bool
	mu           sync.Mutex
	// until is when the source is available again, and hangs whether it does not answer until then.
	until time.Time
	hangs bool
	// plugin is when the plugin of the devices is unavailable.
	plugin outage
}

var errUnavailable = errors.New("simulation: connection refused")

// fail makes the source unavailable for a time.
func (o *objects) fail(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.until, o.hangs = time.Now().Add(d), o.rng.IntN(2) == 0
}

// err returns why the source does not answer, nil if it does.
func (o *objects) err(ctx context.Context) error {
	o.mu.Lock()
	left, hangs := time.Until(o.until), o.hangs
	o.mu.Unlock()
	switch {
	case left <= 0:
		return nil
	case !hangs:
		return errUnavailable
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(left):
		return errUnavailable
	}
}

// available returns why the source does not answer now, nil if it does.
func (o *objects) available() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Now().Before(o.until) {
		return errUnavailable
	}
	return nil
}

// PullSecrets returns none, which suffices while the registry is available. It does not hang: the other containers of the pod would
// wait in a sync.Once, which stops virtual time.
func (o *objects) PullSecrets(context.Context, *v1.Pod) ([]v1.Secret, error) {
	return nil, o.available()
}

func (o *objects) sources() env.Sources {
	return env.Sources{
		ConfigMaps: env.ConfigMapsFunc(func(ctx context.Context, _, name string) (*v1.ConfigMap, error) {
			if err := o.err(ctx); err != nil {
				return nil, err
			}
			if name == "none" {
				return nil, env.ErrNotFound
			}
			return &v1.ConfigMap{Data: map[string]string{"key": "value"}}, nil
		}),
		Secrets: env.SecretsFunc(func(ctx context.Context, _, _ string) (*v1.Secret, error) {
			if err := o.err(ctx); err != nil {
				return nil, err
			}
			return &v1.Secret{Data: map[string][]byte{"key": []byte("value")}}, nil
		}),
	}
}

// need makes the containers of some pods need objects, one of which does not exist, and the registry at each start.
func (o *objects) need(p *v1.Pod) bool {
	if o.rng.IntN(100) < 30 {
		p.Annotations[annotationDevices] = "some"
	}
	if o.rng.IntN(100) >= 40 {
		return false
	}
	optional, always := true, o.rng.IntN(2) == 0
	for _, containers := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			if always {
				containers[i].ImagePullPolicy = v1.PullAlways
			}
			by := func(name string) v1.LocalObjectReference { return v1.LocalObjectReference{Name: name} }
			containers[i].EnvFrom = []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: by("none"), Optional: &optional}}}
			containers[i].Env = []v1.EnvVar{
				{Name: "A", ValueFrom: &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: by("some"), Key: "key"}}},
				{Name: "B", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: by("some"), Key: "key"}}},
			}
		}
	}
	return true
}

// hook gives some of the pods that crash a container beside the one that crashes, whose postStart handler hangs.
func (o *objects) hook(p *v1.Pod) bool {
	if !strings.HasPrefix(string(p.UID), "crash-") || o.rng.IntN(100) >= 40 {
		return false
	}
	beside := containers("", polite)[1]
	beside.Image = image(p, beside.Name, 1)
	beside.Lifecycle = &v1.Lifecycle{PostStart: handler("sleep", "infinity")}
	p.Spec.Containers = append(p.Spec.Containers, beside)
	return true
}

// mount gives some pods a volume, and an image that all their containers mount if the runtime can.
func (o *objects) mount(p *v1.Pod) bool {
	if o.rng.IntN(100) >= 30 {
		return false
	}
	policy := []v1.PullPolicy{v1.PullIfNotPresent, v1.PullAlways}[o.rng.IntN(2)]
	p.Annotations[annotationMounts] = "some"
	if !o.mountsImages {
		return true
	}
	p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: image(p, "data", 1), PullPolicy: policy}}}}
	for _, containers := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			containers[i].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
		}
	}
	return true
}

// drawOutages makes the source of objects fail now and then.
func (w *world) drawOutages() {
	for range w.objects.rng.IntN(3) {
		at, d := time.Duration(w.objects.rng.Int64N(int64(3*time.Minute))), time.Duration(w.objects.rng.Int64N(int64(time.Minute)))
		w.after(at, func() {
			w.say("objects are unavailable for %v", d)
			w.objects.fail(d)
		})
	}
	o := w.owners[w.objects.rng.IntN(len(w.owners))]
	for _, out := range []struct {
		what string
		*outage
	}{
		{"the plugin of devices", &w.objects.plugin}, {"unmounting", o.directories.stuck}, {"removal of cgroups", o.cgroups.stuck}, {"release of devices", o.devices.stuck},
		{"mounting", o.away}, {"unmounting of volumes", o.volumes.stuck}, {pinsStuck, o.pins.stuck},
	} {
		if w.objects.rng.IntN(2) == 0 {
			continue
		}
		at, d := time.Duration(w.objects.rng.Int64N(int64(3*time.Minute))), time.Duration(w.objects.rng.Int64N(int64(time.Minute)))
		w.after(at, func() {
			w.trace.met[out.what]++
			w.failFor(out.what, out.outage, d)
		})
	}
}

// darken makes the sources of objects and credentials, and in half of the lives the registry, too, unavailable for the rest of a
// life, in half of the lives in which the current agents have started each container of the pods that need them: what the agents
// have suffices then. The registry stays if a pod has yet to start, or has not started since an image was taken from the node.
func (w *world) darken() {
	if w.objects.rng.IntN(2) == 0 {
		return
	}
	all := true
	for _, p := range w.wantedPods(sources...) {
		if known := w.trace.pods[p.UID]; known.needs && !w.hasStarted(p, known.owner.agent.span.from) {
			return
		}
		all = all && w.hasStarted(p, w.imageTaken)
	}
	w.say("objects are unavailable for ever")
	w.trace.met["objects unavailable"]++
	w.trace.dark = time.Now()
	w.objects.fail(24 * time.Hour)
	if all && w.objects.rng.IntN(2) == 0 {
		w.say("the registry is unavailable for ever")
		w.trace.met["registry unavailable"]++
		for _, p := range w.wantedPods(sources...) {
			images := map[string]bool{}
			for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
				images[c.Image] = true
			}
			for _, vol := range p.Spec.Volumes {
				images[vol.Image.Reference] = true
			}
			for _, name := range slices.Sorted(maps.Keys(images)) {
				_, err := w.rt.Inject(faults.Fault{
					Match: faults.Match{Method: critest.PullImage, Image: name}, Times: faults.Always,
					Err: status.Error(codes.Unknown, "failed to do request: dial tcp: i/o timeout"),
				})
				w.check(err)
			}
		}
	}
}

// hasStarted reports whether each container of a pod has been started after a time.
func (w *world) hasStarted(p *v1.Pod, after time.Time) bool {
	started := w.rt.Processes()
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		if !slices.ContainsFunc(started, func(s critest.Process) bool {
			return s.PodUID == string(p.UID) && s.Container == c.Name && s.Started.After(after)
		}) {
			return false
		}
	}
	return true
}

// briefly removes some pods after a second or two.
func (w *world) briefly(p *v1.Pod) {
	if w.objects.rng.IntN(100) >= 15 {
		return
	}
	w.after(time.Second+time.Duration(w.objects.rng.Int64N(int64(2*time.Second))), func() {
		if w.trace.pods[p.UID].removed.IsZero() {
			w.drop(p.UID)
		}
	})
}
