package projections

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// issueWait is the time after the first call for a source during which calls wait for the signer. Later calls return an
	// error immediately, and Config.Changed retries the pod: a waiting call delays the other volumes of the pod.
	issueWait = 3 * time.Second
	// grantWait is the time after the creation of a PodCertificateRequest during which Forbidden does not mean that it was
	// deleted: the Node authorizer of the API server does not know a new object yet.
	grantWait = time.Minute
	// callTimeout is a request's timeout to the API server.
	callTimeout = 10 * time.Second
	// minPoll and maxPoll are the interval's limits at which a PodCertificateRequest is read: a quarter of its age.
	minPoll, maxPoll = 250 * time.Millisecond, 30 * time.Second
	// maxJitter is the maximum random delay of a renewal, so that certificates issued together are not renewed together.
	maxJitter = 5 * time.Minute
	// minLife is the minimum time between the issue of a certificate and its renewal.
	minLife = 10 * time.Minute
	// overdueAfter is how long a renewal may take before it is reported as an error.
	overdueAfter = 10 * time.Minute
	// maxMessage limits the bytes of a signer's message in an error.
	maxMessage = 1024
)

// retries is the back-off between PodCertificateRequests for one certificate after errors.
var retries = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 20, Cap: time.Minute}

// credentialKey identifies a source of a projected volume.
type credentialKey struct {
	pod    types.UID
	volume string
	index  int
}

// A credential is a source's private key and certificate. The lock of Projections guards all fields but cancel and
// began.
type credential struct {
	// cancel ends the renewal.
	cancel context.CancelFunc
	// began is the time of the first call for the certificate.
	began time.Time
	// issued is the newest certificate, nil before the first.
	issued *issued
	// pending is the name of the PodCertificateRequest that has no result yet.
	pending string
	// err is the last attempt's error, nil after a success.
	err error
	// settled is closed when there is the first certificate or error.
	settled chan struct{}
}

// issued is a certificate and its key, as PEM. It is never printed.
type issued struct {
	key, chain          []byte
	refreshAt, notAfter time.Time
}

// A refusal is a final answer from the signer: the pod gets no certificate.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

// podCertificate returns a source's files.
func (p *Projections) podCertificate(ctx context.Context, pod *v1.Pod, vol *v1.Volume, index int) (map[string][]byte, error) {
	if p.config.Node == nil {
		return nil, errors.New("this node does not request certificates for pods")
	}
	s := vol.Projected.Sources[index].PodCertificate
	c, err := p.credentialOf(credentialKey{pod.UID, vol.Name, index}, pod, s)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithDeadline(ctx, c.began.Add(issueWait))
	defer cancel()
	select {
	case <-c.settled:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := c.problem(); err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for path, data := range map[string][]byte{s.CertificateChainPath: c.issued.chain, s.KeyPath: c.issued.key, s.CredentialBundlePath: slices.Concat(c.issued.key, c.issued.chain)} {
		if path != "" {
			files[path] = data
		}
	}
	return files, nil
}

// problem returns an error if there is no certificate, or if it should have been renewed. The caller holds the lock.
func (c *credential) problem() error {
	err := c.err
	if c.pending != "" {
		err = fmt.Errorf("PodCertificateRequest %s has no result yet", c.pending)
	}
	var refused *refusal
	switch {
	case c.issued == nil && err == nil:
		return errors.New("the certificate has not been requested yet")
	case c.issued == nil:
		return err
	case errors.As(err, &refused) || err != nil && time.Since(c.issued.refreshAt) > overdueAfter:
		return fmt.Errorf("the certificate, which expires at %s, was not renewed: %w", c.issued.notAfter.UTC().Format(time.RFC3339), err)
	}
	return nil
}

// credentialOf returns a source's credential. The first call for it starts to request certificates.
func (p *Projections) credentialOf(key credentialKey, pod *v1.Pod, s *v1.PodCertificateProjection) (*credential, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return nil, errStopped
	}
	c := p.credentials[key]
	if c == nil {
		ctx, cancel := context.WithCancel(context.Background())
		c = &credential{cancel: cancel, began: time.Now(), settled: make(chan struct{})}
		p.credentials[key] = c
		ask := &certificatesv1.PodCertificateRequest{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: pod.Namespace, GenerateName: "req-",
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
			},
			Spec: certificatesv1.PodCertificateRequestSpec{
				SignerName: s.SignerName, PodName: pod.Name, PodUID: pod.UID, ServiceAccountName: pod.Spec.ServiceAccountName,
				MaxExpirationSeconds: s.MaxExpirationSeconds, UnverifiedUserAnnotations: s.UserAnnotations,
			},
		}
		p.running.Go(func() { p.renew(ctx, c, ask, s.KeyType) })
	}
	return c, nil
}

// renew requests certificates until ctx ends or the signer refuses one.
func (p *Projections) renew(ctx context.Context, c *credential, ask *certificatesv1.PodCertificateRequest, keyType string) {
	for failed := retries; ; {
		got, err := p.issue(ctx, c, ask, keyType)
		if ctx.Err() != nil {
			return
		}
		p.settle(c, got, err)
		p.config.Changed()
		var refused *refusal
		if errors.As(err, &refused) {
			return
		}
		var pause time.Duration
		if err != nil {
			pause = failed.Step()
		} else {
			failed, pause = retries, time.Until(got.refreshAt)
		}
		if !sleep(ctx, pause) {
			return
		}
	}
}

// settle records the result of a PodCertificateRequest. After an error, the earlier certificate stays.
func (p *Projections) settle(c *credential, got *issued, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.issued == nil && c.err == nil {
		close(c.settled)
	}
	if err == nil {
		c.issued = got
	}
	c.err, c.pending = err, ""
}

// issue makes a key, requests a certificate for it, and waits for the signer.
func (p *Projections) issue(ctx context.Context, c *credential, ask *certificatesv1.PodCertificateRequest, keyType string) (*issued, error) {
	node := p.config.Node()
	if node.UID == "" {
		return nil, errors.New("the Node is not registered yet")
	}
	api, err := p.requestsServed(ctx, node.Name)
	if err != nil {
		return nil, err
	}
	ask = ask.DeepCopy()
	ask.Spec.NodeName, ask.Spec.NodeUID = types.NodeName(node.Name), node.UID
	if ask.Spec.ServiceAccountUID, err = p.accountUID(ctx, ask.Namespace, ask.Spec.ServiceAccountName); err != nil {
		return nil, err
	}
	key, err := p.generateKey(ctx, keyType)
	if err != nil {
		return nil, err
	}
	text, request, err := encoded(key)
	if err != nil {
		return nil, err
	}
	ask.Spec.StubPKCS10Request = request
	name, err := bounded(ctx, func(ctx context.Context) (string, error) { return api.create(ctx, ask, key) })
	if err != nil {
		p.forgetMissing(err)
		return nil, fmt.Errorf("create a PodCertificateRequest: %w", err)
	}
	p.mu.Lock()
	c.pending = ask.Namespace + "/" + name
	p.mu.Unlock()
	status, err := await(ctx, api, ask.Namespace, name)
	if err != nil {
		return nil, err
	}
	chain := chainOf(status.CertificateChain)
	if len(chain) == 0 || status.NotAfter == nil || status.BeginRefreshAt == nil {
		return nil, fmt.Errorf("PodCertificateRequest %s/%s was issued without a certificate, notAfter or beginRefreshAt", ask.Namespace, name)
	}
	return &issued{key: text, chain: chain, refreshAt: refreshAt(status.BeginRefreshAt.Time, status.NotAfter.Time), notAfter: status.NotAfter.Time}, nil
}

// generateKey makes a key. It makes one at a time, because RSA keys take seconds of CPU.
func (p *Projections) generateKey(ctx context.Context, keyType string) (crypto.Signer, error) {
	select {
	case p.generating <- struct{}{}:
		defer func() { <-p.generating }()
		return newKey(keyType)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *Projections) accountUID(ctx context.Context, namespace, name string) (types.UID, error) {
	account, err := bounded(ctx, func(ctx context.Context) (*v1.ServiceAccount, error) {
		return p.config.Kube.CoreV1().ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{})
	})
	if err != nil {
		return "", fmt.Errorf("get ServiceAccount %s/%s: %w", namespace, name, err)
	}
	return account.UID, nil
}

// requestsServed returns the newest version that the API server serves. Nodes may list only their own requests.
func (p *Projections) requestsServed(ctx context.Context, node string) (requests, error) {
	p.mu.Lock()
	known := p.requests
	p.mu.Unlock()
	if known != nil {
		return known, nil
	}
	own := metav1.ListOptions{Limit: 1, ResourceVersion: "0", FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()}
	api, err := newestServed("PodCertificateRequests", requestsOf(p.config.Kube), func(r requests) error {
		_, err := bounded(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, r.served(ctx, own) })
		return err
	})
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.requests = api
	p.mu.Unlock()
	return api, nil
}

// forgetMissing clears the version if the API server no longer serves it; the next request looks for another.
func (p *Projections) forgetMissing(err error) {
	if apierrors.IsNotFound(err) {
		p.mu.Lock()
		p.requests = nil
		p.mu.Unlock()
	}
}

// await reads a PodCertificateRequest until the signer has issued or refused the certificate, the request is deleted, or
// ctx ends. Other errors from the API server do not end the wait. The API server returns Forbidden for an object that
// was deleted.
func await(ctx context.Context, api requests, namespace, name string) (*certificatesv1.PodCertificateRequestStatus, error) {
	known := false
	for began := time.Now(); sleep(ctx, min(max(time.Since(began)/4, minPoll), maxPoll)); {
		status, err := bounded(ctx, func(ctx context.Context) (*certificatesv1.PodCertificateRequestStatus, error) {
			return api.get(ctx, namespace, name)
		})
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) && (known || time.Since(began) > grantWait) {
			return nil, fmt.Errorf("PodCertificateRequest %s/%s was deleted before it had a result: %w", namespace, name, err)
		}
		if err != nil {
			continue
		}
		known = true
		for i := range status.Conditions {
			switch cond := &status.Conditions[i]; cond.Type {
			case certificatesv1.PodCertificateRequestConditionTypeIssued:
				return status, nil
			case certificatesv1.PodCertificateRequestConditionTypeDenied, certificatesv1.PodCertificateRequestConditionTypeFailed:
				return nil, &refusal{fmt.Sprintf("PodCertificateRequest %s/%s is %s: %.*s: %.*s", namespace, name, cond.Type, maxMessage, cond.Reason, maxMessage, cond.Message)}
			}
		}
	}
	return nil, ctx.Err()
}

// refreshAt returns the time of the renewal: soon after begin, and not before minLife.
func refreshAt(begin, notAfter time.Time) time.Time {
	at := begin.Add(rand.N(min(maxJitter, max(0, notAfter.Sub(begin)/2)) + 1))
	if earliest := time.Now().Add(minLife); at.Before(earliest) {
		return earliest
	}
	return at
}

// bounded calls do with a context that ends after callTimeout.
func bounded[T any](ctx context.Context, do func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return do(ctx)
}

// sleep returns false if ctx ends before the duration.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// releaseOrphaned ends the renewal for pods that are not on the node any more, and deletes their keys.
func (p *Projections) releaseOrphaned() {
	active := map[types.UID]bool{}
	for _, pod := range p.config.Pods() {
		active[pod.UID] = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, c := range p.credentials {
		if !active[key.pod] {
			c.cancel()
			delete(p.credentials, key)
		}
	}
}
