package credentialprovider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// maxOutput bounds what a plugin prints, in bytes, and maxAuths the credentials in it.
	maxOutput, maxAuths = 1 << 20, 1024
	// leaveDelay is the time that other processes of a plugin that has ended, or was killed, have to close its output.
	leaveDelay = 2 * time.Second
)

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

// A cacheKeyType says for which images credentials hold.
type cacheKeyType string

const (
	perImage    cacheKeyType = "Image"
	perRegistry cacheKeyType = "Registry"
	perPlugin   cacheKeyType = "Global"
)

// errOutput is the error of a plugin that prints too much.
var errOutput = errors.New("it prints more than 1 MiB")

// bounded keeps what a program prints, up to a limit.
type bounded struct {
	text []byte
	full bool
}

// Write returns an error once the limit is passed.
func (b *bounded) Write(text []byte) (int, error) {
	if b.full = b.full || len(b.text)+len(text) > maxOutput; b.full {
		return 0, errOutput
	}
	b.text = append(b.text, text...)
	return len(text), nil
}

// program returns the path of a plugin. It must not lead out of the folder, not by a link either.
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

// run runs a plugin. An error has nothing of what the plugin has printed.
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
	ctx, cancel := context.WithTimeoutCause(ctx, p.config.Timeout, fmt.Errorf("it has not ended in %v", p.config.Timeout))
	defer cancel()
	var output bounded
	command := exec.CommandContext(ctx, path, plugin.Args...)
	command.Stdin, command.Stdout, command.WaitDelay = bytes.NewReader(input), &output, leaveDelay
	ownGroup(command)
	command.Cancel = func() error { return killGroup(command) }
	command.Env = slices.Clone(p.config.Env)
	for _, e := range plugin.Env {
		command.Env = append(command.Env, e.Name+"="+e.Value)
	}
	if err := command.Run(); err != nil {
		if errors.Is(err, exec.ErrWaitDelay) {
			_ = killGroup(command) // what the plugin has left; it fails if that is in no group of the plugin
		}
		switch {
		case output.full: // the plugin may have ended because its output is no longer read
			err = errOutput
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		}
		return nil, err
	}
	return parse(output.text, plugin.APIVersion)
}

// parse reads what a plugin has printed. An error quotes none of it but the kind.
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
