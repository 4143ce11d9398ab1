package projections

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/api/certificates/v1alpha1"
	"k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const (
	// retryInterval is the interval between retries while the API server does not serve ClusterTrustBundles.
	retryInterval = 30 * time.Second
	// syncWait is how long a pod waits for the first ClusterTrustBundle list before its start is retried.
	syncWait = 10 * time.Second
	// maxMerged limits the selections whose certificates are cached.
	maxMerged = 256
)

// bundles watches all ClusterTrustBundles.
type bundles struct {
	store  cache.Store
	synced <-chan struct{}
	// cancel ends the watch.
	cancel context.CancelFunc
	// merged has each selection's certificates, until a bundle changes. Guarded by Projections' lock.
	merged map[string][]byte
}

// A bundle is a ClusterTrustBundle in any version.
type bundle struct {
	metav1.ObjectMeta
	signer, certificates string
}

// A version is an API version for ClusterTrustBundles.
type version struct {
	list  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error)
	watch func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
	kind  runtime.Object
}

// versionsOf returns the versions, the newest first.
func versionsOf(kube kubernetes.Interface) []version {
	stable, beta, alpha := kube.CertificatesV1().ClusterTrustBundles(), kube.CertificatesV1beta1().ClusterTrustBundles(), kube.CertificatesV1alpha1().ClusterTrustBundles()
	return []version{
		{func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return stable.List(ctx, o) }, stable.Watch, &certificatesv1.ClusterTrustBundle{}},
		{func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return beta.List(ctx, o) }, beta.Watch, &v1beta1.ClusterTrustBundle{}},
		{func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return alpha.List(ctx, o) }, alpha.Watch, &v1alpha1.ClusterTrustBundle{}},
	}
}

// bundleOf is a cache.TransformFunc that keeps only the fields that are read.
func bundleOf(object any) (any, error) {
	keep := func(o *metav1.ObjectMeta, signer, certificates string) (any, error) {
		return &bundle{metav1.ObjectMeta{Name: o.Name, Labels: o.Labels, ResourceVersion: o.ResourceVersion}, signer, certificates}, nil
	}
	switch o := object.(type) {
	case *certificatesv1.ClusterTrustBundle:
		return keep(&o.ObjectMeta, o.Spec.SignerName, o.Spec.TrustBundle)
	case *v1beta1.ClusterTrustBundle:
		return keep(&o.ObjectMeta, o.Spec.SignerName, o.Spec.TrustBundle)
	case *v1alpha1.ClusterTrustBundle:
		return keep(&o.ObjectMeta, o.Spec.SignerName, o.Spec.TrustBundle)
	}
	return object, nil // has been transformed already
}

// trustBundle returns the certificates that a source selects.
func (p *Projections) trustBundle(ctx context.Context, s *v1.ClusterTrustBundleProjection) ([]byte, error) {
	selected, err := selectorOf(s)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, syncWait)
	defer cancel()
	b, err := p.watched(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case <-b.synced:
	case <-ctx.Done():
		return nil, fmt.Errorf("ClusterTrustBundles are not known yet: %w", ctx.Err())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	text, ok := b.merged[selected.key]
	if !ok {
		text = b.merge(selected.matches)
		if len(b.merged) >= maxMerged {
			clear(b.merged)
		}
		b.merged[selected.key] = text
	}
	if len(text) == 0 && (s.Optional == nil || !*s.Optional) {
		return nil, selected.missing
	}
	return text, nil
}

// A selection selects a source's ClusterTrustBundles.
type selection struct {
	key     string
	matches func(*bundle) bool
	// missing is the error if there is no such bundle.
	missing error
}

func selectorOf(s *v1.ClusterTrustBundleProjection) (selection, error) {
	switch {
	case s.Name != nil && s.SignerName != nil:
		return selection{}, errors.New("name and signerName are both set")
	case s.Name != nil:
		return selection{"name " + *s.Name, func(b *bundle) bool { return b.Name == *s.Name }, fmt.Errorf("ClusterTrustBundle %q not found", *s.Name)}, nil
	case s.SignerName == nil:
		return selection{}, errors.New("one of name and signerName is required")
	}
	selector, err := metav1.LabelSelectorAsSelector(s.LabelSelector)
	if err != nil {
		return selection{}, fmt.Errorf("labelSelector: %w", err)
	}
	return selection{
		fmt.Sprintf("signer %q %t %s", *s.SignerName, s.LabelSelector == nil, selector),
		func(b *bundle) bool { return b.signer == *s.SignerName && selector.Matches(labels.Set(b.Labels)) },
		fmt.Errorf("no ClusterTrustBundle of signer %q matches the labelSelector", *s.SignerName),
	}, nil
}

// merge returns the certificates of the bundles that match, each once, ordered by their bytes. Text and headers
// around them are dropped.
func (b *bundles) merge(matches func(*bundle) bool) (text []byte) {
	found := map[string]bool{}
	for _, object := range b.store.List() {
		one := object.(*bundle)
		if !matches(one) {
			continue
		}
		for der := range certificatesIn(one.certificates) {
			found[der] = true
		}
	}
	for _, der := range slices.Sorted(maps.Keys(found)) {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: []byte(der)})...)
	}
	return text
}

// certificateBlock is the PEM block type for certificates.
const certificateBlock = "CERTIFICATE"

// certificatesIn returns the certificates in a PEM text as DER, without other blocks.
func certificatesIn(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
			if block.Type == certificateBlock && !yield(string(block.Bytes)) {
				return
			}
		}
	}
}

// errStopped is the error after Run has returned.
var errStopped = errors.New("the agent is stopping")

// watched returns the watch on all bundles, and starts it at the first call.
func (p *Projections) watched(ctx context.Context) (*bundles, error) {
	select {
	case p.starting <- struct{}{}:
		defer func() { <-p.starting }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	p.mu.Lock()
	b, stopped, missing, retry := p.bundles, p.stopped, p.missing, p.retry
	p.mu.Unlock()
	switch {
	case stopped:
		return nil, errStopped
	case b != nil:
		return b, nil
	case missing != nil && time.Now().Before(retry):
		return nil, missing
	}
	served, err := newestServed("ClusterTrustBundles", versionsOf(p.config.Kube), func(v version) error {
		_, err := v.list(ctx, metav1.ListOptions{Limit: 1, ResourceVersion: "0"})
		return err
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil {
			p.missing, p.retry = err, time.Now().Add(retryInterval)
		}
		return nil, err
	}
	if p.stopped {
		return nil, errStopped
	}
	p.bundles, p.missing = p.start(served), nil
	return p.bundles, nil
}

// newestServed returns the first version that the API server serves. list returns a NotFound error for a version that is not
// served. Errors contain what, the objects' name.
func newestServed[V any](what string, versions []V, list func(V) error) (newest V, err error) {
	for _, v := range versions {
		err := list(v)
		if err == nil {
			return v, nil
		}
		if !apierrors.IsNotFound(err) {
			return newest, fmt.Errorf("list %s: %w", what, err)
		}
	}
	return newest, fmt.Errorf("the API server does not serve %s (certificates.k8s.io)", what)
}

// start watches all bundles. The caller holds the lock.
func (p *Projections) start(v version) *bundles {
	ctx, cancel := context.WithCancel(context.Background())
	b := &bundles{cancel: cancel, merged: map[string][]byte{}}
	changed := func() {
		p.mu.Lock()
		clear(b.merged)
		p.mu.Unlock()
		p.config.Changed()
	}
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{ListWithContextFunc: v.list, WatchFuncWithContext: v.watch}, p.config.Kube),
		ObjectType:    v.kind, Transform: bundleOf,
		Handler: cache.ResourceEventHandlerFuncs{AddFunc: func(any) { changed() }, UpdateFunc: func(any, any) { changed() }, DeleteFunc: func(any) { changed() }},
	})
	b.store, b.synced = store, informer.HasSyncedChecker().Done()
	p.running.Go(func() { informer.RunWithContext(ctx) })
	return b
}
