package objects

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	nodelisters "k8s.io/client-go/listers/node/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/podsync/podsync/modules/cluster/internal/cached"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/source"
)

// Config configures Objects.
type Config struct {
	// Kube is the API server. Required.
	Kube kubernetes.Interface
	// Pods returns the node's pods: the watches of objects that no pod names are ended. Required.
	Pods func() []*v1.Pod
	// Changed is called when a watched ConfigMap or Secret has changed. It must return quickly.
	// Default: none.
	Changed func()
}

// Objects reads objects. Its methods may be called concurrently.
type Objects struct {
	config     Config
	configMaps *watches[*v1.ConfigMap]
	secrets    *watches[*v1.Secret]
	shared     informers.SharedInformerFactory

	services       corelisters.ServiceLister
	servicesSynced cache.DoneChecker
	classes        nodelisters.RuntimeClassLister
	classesSynced  cache.DoneChecker
}

// New returns Objects, which make no request before the first call or Run.
func New(c Config) (*Objects, error) {
	switch {
	case c.Kube == nil:
		return nil, errors.New("objects: Config.Kube is missing")
	case c.Pods == nil:
		return nil, errors.New("objects: Config.Pods is missing")
	}
	if c.Changed == nil {
		c.Changed = func() {}
	}
	o := &Objects{config: c, shared: informers.NewSharedInformerFactoryWithOptions(c.Kube, 0, informers.WithTransform(cached.WithoutManagedFields))}
	services, classes := o.shared.Core().V1().Services(), o.shared.Node().V1().RuntimeClasses()
	o.services, o.servicesSynced = services.Lister(), services.Informer().HasSyncedChecker()
	o.classes, o.classesSynced = classes.Lister(), classes.Informer().HasSyncedChecker()
	o.configMaps = newWatches(c.Kube, c.Changed, &v1.ConfigMap{}, func(namespace string) client[*v1.ConfigMap, *v1.ConfigMapList] {
		return c.Kube.CoreV1().ConfigMaps(namespace)
	})
	o.secrets = newWatches(c.Kube, c.Changed, &v1.Secret{}, func(namespace string) client[*v1.Secret, *v1.SecretList] {
		return c.Kube.CoreV1().Secrets(namespace)
	})
	return o, nil
}

// Supply returns the Objects in the form that a Syncer requires.
func (o *Objects) Supply() syncpod.Objects {
	return syncpod.Objects{
		Sources: env.Sources{ConfigMaps: o, Secrets: o, Services: o},
		Tokens:  o, PullSecrets: PullSecrets{o}, RuntimeClasses: o,
	}
}

// SupplyCheckpoint is like Supply, but reads through m, which returns the last known objects while
// the API server is unavailable.
func SupplyCheckpoint(m *source.Checkpoint) syncpod.Objects {
	return syncpod.Objects{
		Sources: env.Sources{ConfigMaps: m, Secrets: m, Services: m},
		Tokens:  m, PullSecrets: PullSecrets{m}, RuntimeClasses: m,
	}
}

// keepInterval is the interval of checks for watches that no pod needs: a request may have started
// a watch for a pod that was about to be deleted.
const keepInterval = time.Minute

// Run watches Services and RuntimeClasses until ctx ends, and then ends all watches. It returns
// when they have ended.
func (o *Objects) Run(ctx context.Context) {
	o.shared.StartWithContext(ctx)
	for look := time.NewTicker(keepInterval); ctx.Err() == nil; {
		select {
		case <-look.C:
			o.keep()
		case <-ctx.Done():
			look.Stop()
		}
	}
	o.shared.Shutdown()
	o.configMaps.stop()
	o.secrets.stop()
}

// PodChanged ends the watches that only a deleted pod needed. Register it with Watch of a pods.Source.
func (o *Objects) PodChanged(_ *v1.Pod, gone bool) {
	if gone {
		o.keep()
	}
}

// keep ends the watches of objects that no pod names.
func (o *Objects) keep() {
	configMaps, secrets := references(o.config.Pods())
	o.configMaps.keepOnly(configMaps)
	o.secrets.keepOnly(secrets)
}

// ConfigMap returns a ConfigMap.
func (o *Objects) ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
	return o.configMaps.get(ctx, key{Namespace: namespace, Name: name})
}

// Secret returns a Secret.
func (o *Objects) Secret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	return o.secrets.get(ctx, key{Namespace: namespace, Name: name})
}

// PullSecrets reads the pull secrets of pods through Secrets.
type PullSecrets struct{ env.Secrets }

// maxPullSecrets is the maximum number of Secrets that are read for one pod. maxPullBytes is the maximum size of their
// data, in bytes. More are an error about the pod: its author must not make the API server appear unavailable, because a container
// may then keep an image without credentials.
const maxPullSecrets, maxPullBytes = 256, 8 << 20

// PullSecrets returns the Secrets for a pod's image pulls, each once.
func (p PullSecrets) PullSecrets(ctx context.Context, pod *v1.Pod) ([]v1.Secret, error) {
	var secrets []v1.Secret
	var errs []error
	seen, bytes := map[string]bool{}, 0
	for _, ref := range pod.Spec.ImagePullSecrets {
		if ref.Name == "" || seen[ref.Name] {
			continue
		}
		if len(seen) == maxPullSecrets || bytes > maxPullBytes {
			errs = append(errs, fmt.Errorf("imagePullSecrets name more than %d secrets or %d bytes: secret %q and those after it count as %w", maxPullSecrets, maxPullBytes, ref.Name, env.ErrNotFound))
			break
		}
		seen[ref.Name] = true
		secret, err := p.Secret(ctx, pod.Namespace, ref.Name)
		if err != nil {
			errs = append(errs, fmt.Errorf("secret %q: %w", ref.Name, err))
			continue
		}
		if bytes += bytesOf(secret); bytes <= maxPullBytes {
			secrets = append(secrets, *secret)
		}
	}
	return secrets, errors.Join(errs...)
}

// Services returns the Services of a namespace. If they are not listed yet, it waits a moment, and then returns an
// error. A static pod then starts without them; other pods are retried.
func (o *Objects) Services(ctx context.Context, namespace string) ([]*v1.Service, error) {
	wait, cancel := context.WithTimeout(ctx, firstWait)
	defer cancel()
	if !isDone(wait, o.servicesSynced) {
		return nil, fmt.Errorf("services are not known yet: %w", wait.Err())
	}
	return o.services.Services(namespace).List(labels.Everything())
}

// isDone waits for c, and reports whether it is done before ctx ends.
func isDone(ctx context.Context, c cache.DoneChecker) bool {
	select {
	case <-c.Done():
		return true
	case <-ctx.Done():
		return false
	}
}

// RuntimeHandler returns the handler for a runtime class. If the classes are not listed yet, it waits a moment, and
// then returns an error.
func (o *Objects) RuntimeHandler(ctx context.Context, class string) (string, error) {
	wait, cancel := context.WithTimeout(ctx, firstWait)
	defer cancel()
	if !isDone(wait, o.classesSynced) {
		return "", fmt.Errorf("runtime classes are not known yet: %w", wait.Err())
	}
	found, err := o.classes.Get(class)
	if err != nil {
		return "", err
	}
	return found.Handler, nil
}

// Token requests a token for the pod's service account that is bound to the
// pod.
func (o *Objects) Token(ctx context.Context, pod *v1.Pod, ask *v1.ServiceAccountTokenProjection) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: ask.ExpirationSeconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if ask.Audience != "" {
		request.Spec.Audiences = []string{ask.Audience}
	}
	answer, err := o.config.Kube.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("token of service account %q: %w", pod.Spec.ServiceAccountName, err)
	}
	return answer.Status.Token, nil
}
