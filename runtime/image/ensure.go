package image

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/internal/lastknown"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/foreign"
	"github.com/podsync/podsync/runtime/image/keyring"
)

// Request requests one image for one pod. EnsureImageExists does not modify it.
type Request struct {
	// Image is the name in the container's spec. Required.
	Image string
	// Policy is the pull policy in the container's spec. Default: the API's, that
	// is Always for the tag latest and IfNotPresent otherwise.
	Policy v1.PullPolicy
	// PodUID is the pod whose back-off applies. Requests without a UID share one back-off.
	PodUID types.UID
	// PodAnnotations are passed to the runtime with the image's name.
	PodAnnotations map[string]string
	// Secrets are the pod's pull secrets, in its order.
	Secrets []v1.Secret
	// FetchSecrets, if set, returns more. It is called only if the result depends on them, so that a credential plugin or an
	// API server that is unavailable delays no container whose image is present and usable (kubernetes #133079). With an
	// error it returns those that it has. If it then fails to pull an image that the pod has used, the pod uses it again.
	FetchSecrets func(ctx context.Context) ([]v1.Secret, error)
	// Used are the identifiers of the images with which the runtime has run the same container before. The pod may
	// use them again without credentials.
	Used []string
	// Sandbox is the pod's sandbox, which some runtimes need for the pull.
	Sandbox *runtimeapi.PodSandboxConfig
	// RuntimeHandler is the handler the image is for, empty for the default one.
	RuntimeHandler string
	// OnPull, if set, is called once before a pull is begun or joined: the moment
	// for an event to the pod.
	OnPull func()
}

// String describes the request, with a count but not the secrets.
func (r Request) String() string {
	return fmt.Sprintf("{image %q, policy %q, pod %q, [%d pull secrets]}", r.Image, r.Policy, r.PodUID, len(r.Secrets))
}

// Format prints String under every verb, so that no secret is printed.
func (r Request) Format(w fmt.State, _ rune) { fmt.Fprint(w, r.String()) }

// Image is a present image, protected by a lease.
type Image struct {
	// ID is the runtime's identifier for the image. Create containers from it, with the name in
	// the pod's spec as ImageSpec.UserSpecifiedImage (CRI-O requires that).
	ID string
	// UID and Username are the default user for the image's containers. UID is nil if the image has
	// a name or no user.
	UID      *int64
	Username string
	// Size is in bytes, as reported by the runtime.
	Size uint64
	// Pulled reports whether the image was pulled for this request. PullTook is how long this request waited for the
	// pull, and PullRan how long the runtime took for it.
	Pulled   bool
	PullTook time.Duration
	PullRan  time.Duration

	names []string // all its names, in full
	lease *Lease
}

// Release ends the lease, so that the image may be removed when no container uses it. Call it when the
// container is listed, or will not be created.
func (i *Image) Release() { i.lease.Release() }

// EnsureImageExists returns the image once it is present, after a pull if the policy requires one. It
// returns an *Error if the image cannot be used, and ctx's error, wrapped, as soon as ctx ends. A
// cancelled request causes no back-off, because it says nothing about the image; neither does
// waiting for other pulls.
//
// The matching credentials in the secrets are tried in turn, the most specific first; without any,
// the pull is anonymous. Concurrent requests for the same image with the same credential share one
// pull, which is cancelled when the last one has left.
func (m *Manager) EnsureImageExists(ctx context.Context, req Request) (*Image, error) {
	ref, err := parseReference(req.Image)
	if err != nil {
		return nil, &Error{Reason: ErrInvalidImageName, Image: req.Image, Err: err}
	}
	lease, err := m.leases.Acquire(ctx, ref.full)
	if err != nil {
		return nil, fmt.Errorf("image %q: wait for its removal: %w", req.Image, err)
	}
	img, err := m.ensure(ctx, &request{Request: req, ref: ref}, lease)
	if err != nil {
		lease.Release()
		return nil, err
	}
	m.access.use(req.PodUID, ref.repository, img.ID)
	return img, nil
}

// request is a Request for an image, with the credentials that were found for it.
type request struct {
	Request
	ref     imageRef
	fetched bool
	found   []keyring.Credentials
	failed  error
	// unfetched is why FetchSecrets may lack some, nil if it lacks none.
	unfetched error
}

// fetchPatience is how long a request for an image that the pod has used waits for its credentials.
const fetchPatience = 10 * time.Second

// credentials returns the credentials in the pod's secrets that match the image. It fetches them once. If the pod has used
// the image, it does not wait for them for long.
func (r *request) credentials(ctx context.Context, used bool) ([]keyring.Credentials, error) {
	if r.fetched {
		return r.found, r.failed
	}
	secrets := r.Secrets
	if r.FetchSecrets != nil {
		fetching := ctx
		if used {
			var cancel context.CancelFunc
			fetching, cancel = context.WithTimeout(ctx, fetchPatience)
			defer cancel()
		}
		var more []v1.Secret
		more, r.unfetched = r.FetchSecrets(fetching)
		secrets = append(slices.Clone(secrets), more...)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("image %q: get credentials: %w", r.Image, err)
	}
	k, err := keyring.New(secrets)
	if err != nil {
		err = &Error{Reason: ErrImagePull, Image: r.Image, Err: err}
	}
	r.fetched, r.found, r.failed = true, k.Lookup(r.ref.repository), err
	return r.found, r.failed
}

func (m *Manager) ensure(ctx context.Context, req *request, lease *Lease) (*Image, error) {
	img, err := m.inspect(ctx, req.Request, req.ref, lease)
	if err != nil {
		return nil, err
	}
	pull, err := m.mustPull(ctx, req, img)
	switch {
	case err != nil:
		return nil, err
	case !pull:
		return img, nil
	}
	w := want{req: req.Request, ref: req.ref}
	if img != nil {
		w.present = img.ID
	}
	used := m.hasUsed(req, img)
	credentials, err := req.credentials(ctx, used)
	if err != nil {
		return nil, err
	}
	got, err := m.pullAndInspect(ctx, w, credentials, lease)
	if err != nil && used && (suffices(ctx, req.unfetched) || isUnavailable(err) && suffices(ctx, err)) {
		return img, nil
	}
	return got, err
}

// suffices reports whether an image that the pod has used suffices, because err, if it is not nil, is why the registry or a
// source of credentials did not answer.
func suffices(ctx context.Context, err error) bool {
	return err != nil && lastknown.Suffices(ctx, lastknown.Answer, err)
}

func (m *Manager) pullAndInspect(ctx context.Context, w want, credentials []keyring.Credentials, lease *Lease) (*Image, error) {
	began := time.Now()
	got, err := m.pull(ctx, w, credentials)
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	img, err := m.inspect(ctx, w.req, w.ref, lease)
	if err != nil {
		return nil, err
	}
	if img == nil {
		return nil, &Error{Reason: ErrImageInspect, Image: w.req.Image, Err: errors.New("it is not there after its pull")}
	}
	m.access.pulled(img.ID, w.ref, got.with)
	img.Pulled, img.PullTook, img.PullRan = true, took, got.ran
	return img, nil
}

// mustPull applies the policy. An image that is present and that the pod may not use counts as
// absent.
func (m *Manager) mustPull(ctx context.Context, req *request, img *Image) (bool, error) {
	policy := effectivePolicy(req.Policy, req.ref)
	if policy == v1.PullAlways {
		return true, nil
	}
	usable, err := m.mayUse(ctx, req, img)
	if err != nil {
		return false, err
	}
	pull, reason := shouldPull(policy, usable)
	switch {
	case reason == "":
		return pull, nil
	case img != nil:
		err = errors.New("it is there, but was pulled with credentials that the pod does not have")
	}
	return false, &Error{Reason: reason, Image: req.Image, Err: err}
}

// mayUse gets the credentials only if the result depends on them.
func (m *Manager) mayUse(ctx context.Context, req *request, img *Image) (bool, error) {
	if img == nil || m.config.ShareImages || m.hasUsed(req, img) || m.access.allows(img, req.ref, nil) {
		return img != nil, nil
	}
	credentials, err := req.credentials(ctx, false)
	return err == nil && m.access.allows(img, req.ref, credentials), err
}

// hasUsed reports whether containers in the pod have run with an image: then the node's copy suffices for a restart.
func (m *Manager) hasUsed(req *request, img *Image) bool {
	return img != nil && (slices.Contains(req.Used, img.ID) || m.access.hasUsed(req.PodUID, req.ref.repository, img.ID))
}

// isUnavailable reports whether a pull failed because the registry or the runtime is unavailable. A runtime cancels a pull
// that makes no progress.
func isUnavailable(err error) bool {
	return errors.Is(err, cri.ErrRegistryUnavailable) || errors.Is(err, cri.ErrUnavailable) || errors.Is(err, cri.ErrDeadline) ||
		errors.Is(err, cri.ErrCanceled) || errors.Is(err, cri.ErrUnknown) && saysUnavailable(err.Error())
}

// noAnswer are texts about a registry that cannot be reached, or does not serve now. Runtimes report them as unknown errors.
var noAnswer = []string{
	"dial tcp", "no such host", "server misbehaving", "connection refused", "connection reset", "connection timed out", "i/o timeout",
	"tls handshake timeout", "client.timeout", "network is unreachable", "no route to host", "unexpected eof", ": eof", "toomanyrequests",
	"429 too many requests", "500 internal server error", "502 bad gateway", "503 service unavailable", "504 gateway timeout",
}

func saysUnavailable(text string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(noAnswer, func(part string) bool { return strings.Contains(text, part) })
}

// inspect returns the image from the runtime, nil if the runtime does not have it.
func (m *Manager) inspect(ctx context.Context, req Request, ref imageRef, lease *Lease) (*Image, error) {
	for {
		img, err := m.status(ctx, req, ref)
		if err != nil || img == nil {
			return nil, err
		}
		waited, err := lease.extend(ctx, normal(img.GetId()))
		if err != nil {
			return nil, fmt.Errorf("image %q: wait for its removal: %w", req.Image, err)
		}
		if !waited {
			i := newImage(img, lease)
			i.names = namesOf(img, ref)
			return i, nil
		}
	}
}

func (m *Manager) status(ctx context.Context, req Request, ref imageRef) (*runtimeapi.Image, error) {
	resp, err := m.config.Runtime.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: req.spec(ref)})
	switch err = cri.Classify(err); {
	case err == nil:
		return resp.GetImage(), nil
	case errors.Is(err, cri.ErrNotFound):
		return nil, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("image %q: inspect: %w", req.Image, ctx.Err())
	}
	return nil, &Error{Reason: ErrImageInspect, Image: req.Image, Err: err}
}

func (r Request) spec(ref imageRef) *runtimeapi.ImageSpec {
	return &runtimeapi.ImageSpec{
		Image:              ref.pull,
		Annotations:        maps.Clone(r.PodAnnotations),
		UserSpecifiedImage: r.Image,
		RuntimeHandler:     r.RuntimeHandler,
	}
}

func newImage(img *runtimeapi.Image, lease *Lease) *Image {
	i := &Image{
		ID:       img.GetId(),
		Username: foreign.Line(img.GetUsername()),
		Size:     img.GetSize(),
		lease:    lease,
	}
	if uid := img.GetUid(); uid != nil {
		i.UID = &uid.Value
	}
	return i
}

// effectivePolicy returns the policy that applies: the given one or, if no API server has set one, the API's default.
func effectivePolicy(p v1.PullPolicy, ref imageRef) v1.PullPolicy {
	switch {
	case p != "":
		return p
	case ref.isLatest():
		return v1.PullAlways
	}
	return v1.PullIfNotPresent
}

// shouldPull reports whether the image must be pulled. If reason is not empty, the image cannot be used.
func shouldPull(p v1.PullPolicy, present bool) (pull bool, reason Reason) {
	switch {
	case p == v1.PullAlways:
		return true, ""
	case present:
		return false, ""
	case p == v1.PullNever:
		return false, ErrImageNeverPull
	}
	return true, ""
}
