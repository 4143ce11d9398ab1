package volumes

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/modules/csi"
	"github.com/podsync/podsync/syncpod/volume"
)

// tokens caches issued tokens until they must be renewed.
type tokens struct {
	mu   sync.Mutex
	kept map[string]token
}

type token struct {
	status authenticationv1.TokenRequestStatus
	until  time.Time
}

// token returns the tokens that a driver requests, in the form of its volume attribute.
func (v *Volumes) token(ctx context.Context, pod csi.Pod, requests []storagev1.TokenRequest) (string, error) {
	all := map[string]authenticationv1.TokenRequestStatus{}
	for _, r := range requests {
		status, err := v.issue(ctx, pod, r)
		if err != nil {
			return "", err
		}
		all[r.Audience] = status
	}
	text, err := json.Marshal(all)
	return string(text), err
}

// issue returns a cached token, or requests one.
func (v *Volumes) issue(ctx context.Context, pod csi.Pod, r storagev1.TokenRequest) (authenticationv1.TokenRequestStatus, error) {
	key := fmt.Sprint(pod.UID, " ", pod.ServiceAccount, " ", r.Audience)
	now := time.Now()
	v.tokens.mu.Lock()
	for k, t := range v.tokens.kept {
		if !now.Before(t.until) {
			delete(v.tokens.kept, k)
		}
	}
	kept, ok := v.tokens.kept[key]
	v.tokens.mu.Unlock()
	if ok {
		return kept.status, nil
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: r.ExpirationSeconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: types.UID(pod.UID)},
	}}
	if r.Audience != "" {
		request.Spec.Audiences = []string{r.Audience}
	}
	answer, err := v.config.Kube.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, pod.ServiceAccount, request, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.TokenRequestStatus{}, err
	}
	v.tokens.mu.Lock()
	defer v.tokens.mu.Unlock()
	v.tokens.kept[key] = token{answer.Status, now.Add(volume.TokenRenewal(answer.Status.ExpirationTimestamp.Sub(now)))}
	return answer.Status, nil
}
