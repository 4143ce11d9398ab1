package image

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/image/keyring"
)

// want is an image that must be pulled.
type want struct {
	req Request
	ref imageRef
	// present identifies the image that has the name, empty for none.
	present string
}

// pulled records how an image was pulled: the credential, and how long the runtime took.
type pulled struct {
	with keyring.Credentials
	ran  time.Duration
}

// pull pulls the image, unless an earlier failure still backs off.
func (m *Manager) pull(ctx context.Context, w want, credentials []keyring.Credentials) (got pulled, err error) {
	req := w.req
	key := retryKey{req.PodUID, w.ref.pull, fingerprintOf(credentials...)}
	if at, wait, cause := m.retries.check(key, time.Now()); wait {
		return pulled{}, &Error{Reason: ErrImagePullBackOff, Image: req.Image, RetryAt: at, Err: cause}
	}
	if req.OnPull != nil {
		req.OnPull()
	}
	got, err = m.tryAll(ctx, w, credentials)
	switch {
	case err == nil:
		m.retries.succeeded(key)
		return got, nil
	case ctx.Err() != nil:
		return pulled{}, fmt.Errorf("image %q: pull: %w", req.Image, ctx.Err())
	}
	at := m.retries.failed(key, err, time.Now())
	return pulled{}, &Error{Reason: pullReason(err), Image: req.Image, RetryAt: at, Err: err}
}

// tryAll pulls with each credential until a pull succeeds. Without credentials it pulls anonymously.
func (m *Manager) tryAll(ctx context.Context, w want, credentials []keyring.Credentials) (got pulled, err error) {
	if len(credentials) == 0 {
		credentials = []keyring.Credentials{{}}
	}
	var failed []error
	for _, c := range credentials {
		key := flightKey{w.ref.pull, w.req.RuntimeHandler, fingerprintOf(c)}
		ran, err := m.flights.join(ctx, key, func(ctx context.Context) (time.Duration, error) {
			return m.pullOnce(ctx, w, c)
		})
		if err == nil {
			return pulled{with: c, ran: ran}, nil
		}
		failed = append(failed, err)
		if ctx.Err() != nil {
			break
		}
	}
	return pulled{}, errors.Join(failed...)
}

// pullOnce waits for a slot and pulls the image. It returns how long the pull took. Requests for
// the same image share one call.
func (m *Manager) pullOnce(ctx context.Context, w want, c keyring.Credentials) (ran time.Duration, err error) {
	arrived := time.Now()
	done, err := m.takeSlot(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	began := time.Now()
	p := Pull{Image: w.ref.pull, Waited: began.Sub(arrived)}
	end, err := m.access.begin(w, c)
	if err != nil {
		return 0, err
	}
	m.config.Observer.PullStarted(p)
	err = m.askToPull(ctx, p, &runtimeapi.PullImageRequest{Image: w.req.spec(w.ref), Auth: authOf(c), SandboxConfig: w.req.Sandbox})
	end(err)
	if err != nil {
		err = redact(err, c)
	}
	ran = time.Since(began)
	m.config.Observer.PullFinished(p, ran, err)
	return ran, err
}

// slowPull is how long a pull counts. A registry that sends a byte now and then would otherwise keep all others waiting.
const slowPull = 2 * time.Minute

// takeSlot waits until fewer than MaxParallelPulls run, without those that have run for long.
func (m *Manager) takeSlot(ctx context.Context) (done func(), err error) {
	if m.slots == nil {
		return func() {}, nil
	}
	select {
	case m.slots <- struct{}{}:
		free := sync.OnceFunc(func() { <-m.slots })
		slow := time.AfterFunc(slowPull, free)
		return func() { slow.Stop(); free() }, nil
	case <-ctx.Done():
		return nil, cri.Classify(ctx.Err())
	}
}

// askToPull reports progress while the runtime pulls.
func (m *Manager) askToPull(ctx context.Context, p Pull, req *runtimeapi.PullImageRequest) error {
	began, stop, stopped := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				m.config.Observer.PullProgress(p, time.Since(began))
			case <-stop:
				return
			}
		}
	}()
	_, err := m.config.Runtime.PullImage(ctx, req)
	close(stop)
	<-stopped
	return err
}

// pullReason returns the reason for a pull's error.
func pullReason(err error) Reason {
	switch {
	case errors.Is(err, cri.ErrRegistryUnavailable):
		return ErrRegistryUnavailable
	case errors.Is(err, cri.ErrSignature):
		return ErrSignatureValidation
	}
	return ErrImagePull
}
