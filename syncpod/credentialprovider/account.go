package credentialprovider

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// An account has the facts about a pod's service account that a plugin receives. The zero account means none.
type account struct {
	token       string
	annotations map[string]string
	// key identifies the account in the cache.
	key string
}

// accountOf returns the account of a pod for a plugin; use is false if the plugin is not for the pod.
func (p *Provider) accountOf(ctx context.Context, pod *v1.Pod, a *tokenAttributes) (acc account, use bool, err error) {
	name := pod.Spec.ServiceAccountName
	if a == nil {
		return account{}, true, nil
	}
	if name == "" {
		return account{}, !*a.Require, nil
	}
	object, err := p.config.ServiceAccounts.ServiceAccount(ctx, pod.Namespace, name)
	if err != nil {
		return account{}, false, fmt.Errorf("service account %s/%s: %w", pod.Namespace, name, err)
	}
	acc.annotations = map[string]string{}
	for _, key := range a.RequiredKeys {
		value, ok := object.Annotations[key]
		if !ok { // workloads request the plugin with this annotation
			return account{}, false, nil
		}
		acc.annotations[key] = value
	}
	for _, key := range a.OptionalKeys {
		if value, ok := object.Annotations[key]; ok {
			acc.annotations[key] = value
		}
	}
	acc.token, err = p.tokens.get(ctx, p.config.Tokens, pod, object.UID, a.Audience)
	if err != nil {
		return account{}, false, fmt.Errorf("token of service account %s/%s: %w", pod.Namespace, name, err)
	}
	of := []any{pod.Namespace, name, object.UID, acc.annotations} // a map is encoded in its keys' order
	if a.CacheType == perToken {
		of = append(of, pod.Name, pod.UID, acc.token)
	}
	text, err := json.Marshal(of)
	if err != nil {
		return account{}, false, err
	}
	hash := sha256.Sum256(text)
	acc.key = hex.EncodeToString(hash[:])
	return acc, true, nil
}
