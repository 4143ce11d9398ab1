package credentialprovider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/runtime/image/keyring"
	"github.com/podsync/podsync/syncpod/volume"
)

// Config is the configuration of a Provider.
type Config struct {
	// File is a CredentialProviderConfig (kubelet.config.k8s.io/v1) in YAML or JSON, or a folder of such files. Required.
	File string
	// BinDir is the absolute path of the folder of the plugins, programs with the providers' names. Required.
	BinDir string
	// Secrets returns the pull secrets that pods name. They take precedence over those of plugins. Default: none.
	Secrets Secrets
	// Tokens and ServiceAccounts are required if a provider has tokenAttributes.
	Tokens          volume.Tokens
	ServiceAccounts ServiceAccounts
	// Env are plugin variables, as "NAME=value"; the configuration adds to them. A kubelet passes its own
	// environment: os.Environ(). Default: none.
	Env []string
}

// Secrets returns pull secrets. If some are missing, it returns the others with an error that names the missing ones.
type Secrets interface {
	PullSecrets(ctx context.Context, pod *v1.Pod) ([]v1.Secret, error)
}

// ServiceAccounts returns service accounts.
type ServiceAccounts interface {
	ServiceAccount(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error)
}

// A Provider gets credentials from plugins. Its methods may be called concurrently.
type Provider struct {
	config  Config
	plugins []providerConfig
	cache   cache
	tokens  tokens
	// turns has a place for each run of a plugin, by the plugin's name.
	turns map[string]chan struct{}
	// timeout is the timeout for one run of a plugin, 1 min as in a kubelet. Tests replace
	// it.
	timeout time.Duration
	// kill kills a plugin with its group's processes. Tests replace it.
	kill func(*exec.Cmd) error
}

// New reads the configuration, and checks that the plugins exist. It starts no plugin.
func New(c Config) (*Provider, error) {
	switch {
	case c.File == "":
		return nil, errors.New("credentialprovider: Config.File is missing")
	case !filepath.IsAbs(c.BinDir):
		return nil, fmt.Errorf("credentialprovider: Config.BinDir is %q, want an absolute path", c.BinDir)
	}
	p := &Provider{config: c, kill: killGroup, timeout: time.Minute, turns: map[string]chan struct{}{}}
	var err error
	if p.plugins, err = load(c.File); err != nil {
		return nil, fmt.Errorf("credentialprovider: %w", err)
	}
	for _, plugin := range p.plugins {
		p.turns[plugin.Name] = make(chan struct{}, maxRuns)
		if _, err := program(c.BinDir, plugin.Name); err != nil {
			return nil, fmt.Errorf("credentialprovider: provider %q: %w", plugin.Name, err)
		}
		if plugin.TokenAttributes != nil && (c.Tokens == nil || c.ServiceAccounts == nil) {
			return nil, fmt.Errorf("credentialprovider: provider %q has tokenAttributes, and Config.Tokens or ServiceAccounts is missing", plugin.Name)
		}
	}
	return p, nil
}

// PullSecrets returns the secrets that the pod names, and one for each image of the pod for which a plugin has
// credentials. If a plugin fails, the error names it, and the other secrets are returned.
func (p *Provider) PullSecrets(ctx context.Context, pod *v1.Pod) ([]v1.Secret, error) {
	return p.secretsFor(ctx, pod, repositoriesOf(pod))
}

// PullSecretsFor is like PullSecrets, but calls plugins for one image of the pod only.
func (p *Provider) PullSecretsFor(ctx context.Context, pod *v1.Pod, image string) ([]v1.Secret, error) {
	repository, err := keyring.Repository(image)
	if err != nil { // the pull reports it
		return p.secretsFor(ctx, pod, nil)
	}
	return p.secretsFor(ctx, pod, []string{repository})
}

func (p *Provider) secretsFor(ctx context.Context, pod *v1.Pod, repositories []string) (secrets []v1.Secret, err error) {
	if pod == nil {
		return nil, errors.New("credentialprovider: the pod is missing; for an image alone call ImageSecrets")
	}
	if p.config.Secrets != nil {
		secrets, err = p.config.Secrets.PullSecrets(ctx, pod)
	}
	found, failed := p.fromPlugins(ctx, pod, repositories)
	return append(secrets, found...), errors.Join(err, failed)
}

// ImageSecrets returns the credentials of plugins for one image, for a caller that pulls an image without a pod, such as one that
// fills a node's cache. keyring.New reads them. Plugins that require a service account are left out, because it belongs to a pod.
// If a plugin fails, the error names it, and the other secrets are returned.
func (p *Provider) ImageSecrets(ctx context.Context, image string) ([]v1.Secret, error) {
	repository, err := keyring.Repository(image)
	if err != nil {
		return nil, fmt.Errorf("credentialprovider: %w", err)
	}
	return p.fromPlugins(ctx, &v1.Pod{}, []string{repository})
}

// fromPlugins returns the secrets of all plugins for the repositories.
func (p *Provider) fromPlugins(ctx context.Context, pod *v1.Pod, repositories []string) (secrets []v1.Secret, err error) {
	for i := range p.plugins {
		found, failed := p.secrets(ctx, pod, &p.plugins[i], repositories)
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("credential provider %q: %w", p.plugins[i].Name, failed))
		}
		secrets = append(secrets, found...)
	}
	return secrets, err
}

// repositoriesOf returns the repositories of a pod's images in full, in order and each once.
func repositoriesOf(pod *v1.Pod) (all []string) {
	if pod == nil {
		return nil
	}
	seen := map[string]bool{}
	add := func(name string) {
		repository, err := keyring.Repository(name)
		if err == nil && !seen[repository] { // the pull reports a name that is wrong
			seen[repository] = true
			all = append(all, repository)
		}
	}
	for i := range pod.Spec.InitContainers {
		add(pod.Spec.InitContainers[i].Image)
	}
	for i := range pod.Spec.Containers {
		add(pod.Spec.Containers[i].Image)
	}
	for i := range pod.Spec.EphemeralContainers {
		add(pod.Spec.EphemeralContainers[i].Image)
	}
	for i := range pod.Spec.Volumes {
		if source := pod.Spec.Volumes[i].Image; source != nil {
			add(source.Reference)
		}
	}
	return all
}

// secrets returns a plugin's credentials, with one secret for each repository for which it was called. A response for
// one image is not used for other images, even if its keys name the whole registry.
func (p *Provider) secrets(ctx context.Context, pod *v1.Pod, plugin *providerConfig, repositories []string) (secrets []v1.Secret, err error) {
	repositories = slices.DeleteFunc(slices.Clone(repositories), func(r string) bool {
		return !slices.ContainsFunc(plugin.MatchImages, func(pattern string) bool { return keyring.Matches(pattern, r) })
	})
	if len(repositories) == 0 {
		return nil, nil
	}
	acc, use, err := p.accountOf(ctx, pod, plugin.TokenAttributes)
	if err != nil || !use {
		return nil, err
	}
	for _, repository := range repositories {
		auths, failed := p.credentials(ctx, plugin, acc, repository)
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("image %s: %w", repository, failed))
		}
		if len(auths) == 0 {
			continue
		}
		secret, failed := secretOf(plugin.Name, repository, auths)
		if failed != nil {
			return nil, failed
		}
		if acc.key != "" { // other service accounts may not use the image that it pulls
			secret.Namespace, secret.Type = pod.Namespace, v1.SecretTypeDockerConfigJson
		}
		secrets = append(secrets, secret)
	}
	return secrets, err
}

// secretOf returns credentials for a repository as a pull secret of the node.
func secretOf(plugin, repository string, auths map[string]auth) (v1.Secret, error) {
	text, err := json.Marshal(map[string]any{"auths": auths})
	if err != nil {
		return v1.Secret{}, err
	}
	return v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "credential-provider." + plugin, Annotations: map[string]string{keyring.AnnotationRepository: repository}},
		Type:       keyring.SecretTypeNode,
		Data:       map[string][]byte{v1.DockerConfigJsonKey: text},
	}, nil
}

// credentials returns the credentials from a plugin for a repository, from the cache or from a run. Concurrent calls
// for the same credentials share one run and its error, because a plugin that hangs would delay them one after the
// other.
func (p *Provider) credentials(ctx context.Context, plugin *providerConfig, acc account, repository string) (map[string]auth, error) {
	for {
		if found, ok := p.cache.find(plugin.Name, acc.key, repository, time.Now()); ok {
			return found, nil
		}
		key := cacheKey{plugin.Name, acc.key, repository}
		if err := p.cache.failure(key, time.Now()); err != nil {
			return nil, err
		}
		r, first := p.cache.begin(key)
		if first {
			defer p.cache.end(key, r)
			r.auth, r.err = p.askInTurn(ctx, plugin, acc, repository)
			r.abandoned = ctx.Err() != nil
			p.cache.note(key, r, time.Now())
			return r.auth, r.err
		}
		select {
		case <-r.done:
			if !r.abandoned {
				return r.auth, r.err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// maxRuns limits one plugin's processes at a time. Their memory counts against the agent's limit: with
// one process for each pod of a node that starts, the kernel would kill the agent.
const maxRuns = 8

// askInTurn waits until fewer than maxRuns processes of the plugin run. If no response in the cache fits by then, it calls ask.
func (p *Provider) askInTurn(ctx context.Context, plugin *providerConfig, acc account, repository string) (map[string]auth, error) {
	turns := p.turns[plugin.Name]
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if found, ok := p.cache.find(plugin.Name, acc.key, repository, time.Now()); ok {
		return found, nil
	}
	return p.ask(ctx, plugin, acc, repository)
}

// ask runs a plugin and caches its response.
func (p *Provider) ask(ctx context.Context, plugin *providerConfig, acc account, repository string) (map[string]auth, error) {
	r, err := p.run(ctx, plugin, request{Image: repository, ServiceAccountToken: acc.token, ServiceAccountAnnotations: acc.annotations})
	if err != nil {
		return nil, err
	}
	if acc.token != "" && plugin.TokenAttributes.CacheType != perToken {
		for _, a := range r.Auth {
			if a.Password == acc.token {
				return nil, fmt.Errorf("it returns the token of the pod as a password, which needs the cacheType %q", perToken)
			}
		}
	}
	hold := plugin.DefaultCacheDuration.Duration
	if r.CacheDuration != nil {
		hold = r.CacheDuration.Duration
	}
	p.cache.keep(plugin.Name, acc.key, repository, r, hold, time.Now())
	return r.Auth, nil
}
