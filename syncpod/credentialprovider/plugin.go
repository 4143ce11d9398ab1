package credentialprovider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxAuths limits the credentials in a plugin's output.
const maxAuths = 1024

// request is a CredentialProviderRequest.
type request struct {
	Kind                      string            `json:"kind"`
	APIVersion                string            `json:"apiVersion"`
	Image                     string            `json:"image"`
	ServiceAccountToken       string            `json:"serviceAccountToken,omitempty"`
	ServiceAccountAnnotations map[string]string `json:"serviceAccountAnnotations,omitempty"`
}

// response is a CredentialProviderResponse. It is never printed.
type response struct {
	metav1.TypeMeta `json:""`
	CacheKeyType    cacheKeyType     `json:"cacheKeyType"`
	CacheDuration   *metav1.Duration `json:"cacheDuration"`
	Auth            map[string]auth  `json:"auth"`
}

type auth struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

// A cacheKeyType determines for which images credentials are valid.
type cacheKeyType string

const (
	perImage    cacheKeyType = "Image"
	perRegistry cacheKeyType = "Registry"
	perPlugin   cacheKeyType = "Global"
)

// program returns a plugin's path. Neither the name nor a link may lead out of the folder.
func program(dir, name string) (string, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	path, err := filepath.EvalSymlinks(filepath.Join(dir, name))
	if err != nil {
		return "", err
	}
	if within, err := filepath.Rel(dir, path); err != nil || !filepath.IsLocal(within) {
		return "", fmt.Errorf("%s is a link out of %s", name, dir)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", path)
	}
	return path, nil
}

// run runs a plugin. Its errors contain nothing of the plugin's output.
func (p *Provider) run(ctx context.Context, plugin *providerConfig, r request) (*response, error) {
	r.Kind, r.APIVersion = "CredentialProviderRequest", plugin.APIVersion
	input, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	path, err := program(p.config.BinDir, plugin.Name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.timeout, fmt.Errorf("it has not ended in %v", p.timeout))
	defer cancel()
	command := exec.Command(path, plugin.Args...)
	command.Env = slices.Clone(p.config.Env)
	for _, e := range plugin.Env {
		command.Env = append(command.Env, e.Name+"="+e.Value)
	}
	output, err := p.execute(ctx, command, input)
	if err != nil {
		return nil, err
	}
	return parse(output, plugin.APIVersion)
}

// parse parses a plugin's output. Its errors contain nothing of the output except the kind.
func parse(text []byte, apiVersion string) (*response, error) {
	var r response
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, errors.New("its output is not a CredentialProviderResponse in JSON")
	}
	switch {
	case r.Kind != "CredentialProviderResponse" || r.APIVersion != apiVersion:
		return nil, fmt.Errorf("its output is not a CredentialProviderResponse of %s", apiVersion)
	case r.CacheKeyType != perImage && r.CacheKeyType != perRegistry && r.CacheKeyType != perPlugin:
		return nil, fmt.Errorf("its cacheKeyType is not %q, %q or %q", perImage, perRegistry, perPlugin)
	case len(r.Auth) > maxAuths:
		return nil, fmt.Errorf("its auth has %d items, want %d at most", len(r.Auth), maxAuths)
	}
	for pattern := range r.Auth {
		if pattern == "" || strings.ContainsAny(pattern, " \t\r\n") {
			return nil, errors.New("its auth has a key that is no registry")
		}
	}
	return &r, nil
}
