package credentialprovider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podsync/podsync/runtime/hostfs"
	"github.com/podsync/podsync/syncpod/source"
)

const (
	configKind = "CredentialProviderConfig"
	group      = "credentialprovider.kubelet.k8s.io/"
	// maxFile limits a file of the configuration in bytes, maxFiles a folder's files, and maxProviders the providers.
	maxFile, maxFiles, maxProviders = 1 << 20, 64, 64
)

// configVersions are the accepted versions of a CredentialProviderConfig, and apiVersions those of requests to plugins.
var (
	configVersions = []string{"kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/v1beta1", "kubelet.config.k8s.io/v1alpha1"}
	apiVersions    = []string{group + "v1", group + "v1beta1", group + "v1alpha1"}
)

// configFile is a CredentialProviderConfig.
type configFile struct {
	metav1.TypeMeta `json:""`
	Providers       []providerConfig `json:"providers"`
}

// providerConfig is one of its providers.
type providerConfig struct {
	Name                 string           `json:"name"`
	MatchImages          []string         `json:"matchImages"`
	DefaultCacheDuration *metav1.Duration `json:"defaultCacheDuration"`
	APIVersion           string           `json:"apiVersion"`
	Args                 []string         `json:"args"`
	Env                  []envVar         `json:"env"`
	TokenAttributes      *tokenAttributes `json:"tokenAttributes"`
}

type envVar struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type tokenAttributes struct {
	Audience     string    `json:"serviceAccountTokenAudience"`
	CacheType    cacheType `json:"cacheType"`
	Require      *bool     `json:"requireServiceAccount"`
	RequiredKeys []string  `json:"requiredServiceAccountAnnotationKeys"`
	OptionalKeys []string  `json:"optionalServiceAccountAnnotationKeys"`
}

// A cacheType determines which pods may use the credentials that a plugin has returned for a token.
type cacheType string

const (
	perToken   cacheType = "Token"
	perAccount cacheType = "ServiceAccount"
)

// load reads a file, or the files in a folder that end with .json, .yaml or .yml, sorted by name.
func load(path string) (providers []providerConfig, err error) {
	paths, err := files(path)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		some, err := loadFile(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		providers = append(providers, some...)
	}
	switch {
	case len(providers) == 0:
		return nil, fmt.Errorf("%s: providers has no item", path)
	case len(providers) > maxProviders:
		return nil, fmt.Errorf("%s: providers has %d items, want %d at most", path, len(providers), maxProviders)
	}
	names := map[string]bool{}
	for i := range providers {
		p := &providers[i]
		if names[p.Name] {
			return nil, fmt.Errorf("%s: two providers have the name %q", path, p.Name)
		}
		names[p.Name] = true
	}
	return providers, nil
}

func files(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		return e.IsDir() || !slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(e.Name()))
	})
	if len(entries) > maxFiles {
		return nil, fmt.Errorf("%s has %d files, want %d at most", path, len(entries), maxFiles)
	}
	var paths []string
	for _, e := range entries {
		paths = append(paths, filepath.Join(path, e.Name()))
	}
	return paths, nil
}

func loadFile(path string) ([]providerConfig, error) {
	text, err := hostfs.ReadPath(path, maxFile)
	if err != nil {
		return nil, err
	}
	text, duplicates, err := source.YAMLToJSON(text)
	if err = errors.Join(err, duplicates); err != nil {
		return nil, err
	}
	var c configFile
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return nil, err
	}
	if c.Kind != configKind || !slices.Contains(configVersions, c.APIVersion) {
		return nil, fmt.Errorf("apiVersion %q, kind %q: want %q and %q", c.APIVersion, c.Kind, configVersions[0], configKind)
	}
	for i := range c.Providers {
		if err := c.Providers[i].check(); err != nil {
			return nil, fmt.Errorf("providers[%d].%w", i, err)
		}
	}
	return c.Providers, nil
}

// check returns an error that begins with the field's name.
func (p *providerConfig) check() error {
	switch {
	case p.Name == "" || p.Name == "." || p.Name == ".." || strings.ContainsAny(p.Name, "/\\ \x00"):
		return fmt.Errorf("name is %q, want the name of a program", p.Name)
	case !slices.Contains(apiVersions, p.APIVersion):
		return fmt.Errorf("apiVersion is %q, want %q", p.APIVersion, apiVersions[0])
	case len(p.MatchImages) == 0:
		return errors.New("matchImages has no item")
	case p.DefaultCacheDuration == nil:
		return errors.New("defaultCacheDuration is missing")
	case p.DefaultCacheDuration.Duration < 0:
		return fmt.Errorf("defaultCacheDuration is %v, want 0 or more", p.DefaultCacheDuration.Duration)
	}
	for i, pattern := range p.MatchImages {
		if pattern == "" || strings.ContainsAny(pattern, " \t\r\n") || strings.Contains(pattern, "://") {
			return fmt.Errorf("matchImages[%d] is %q, want a registry and a path, without a scheme", i, pattern)
		}
	}
	for i, e := range p.Env {
		if e.Name == "" || strings.ContainsAny(e.Name, "=\x00") || strings.Contains(e.Value, "\x00") {
			return fmt.Errorf("env[%d].name is %q, want the name of a variable", i, e.Name)
		}
	}
	if p.TokenAttributes == nil {
		return nil
	}
	if p.APIVersion != apiVersions[0] {
		return fmt.Errorf("tokenAttributes is set, and apiVersion is %q, want %q", p.APIVersion, apiVersions[0])
	}
	if err := p.TokenAttributes.check(); err != nil {
		return fmt.Errorf("tokenAttributes.%w", err)
	}
	return nil
}

func (a *tokenAttributes) check() error {
	switch {
	case a.Audience == "":
		return errors.New("serviceAccountTokenAudience is missing")
	case a.CacheType != perToken && a.CacheType != perAccount:
		return fmt.Errorf("cacheType is %q, want %q or %q", a.CacheType, perToken, perAccount)
	case a.Require == nil:
		return errors.New("requireServiceAccount is missing")
	case !*a.Require && len(a.RequiredKeys) > 0:
		return errors.New("requiredServiceAccountAnnotationKeys is set, and requireServiceAccount is false")
	}
	seen := map[string]bool{}
	for _, key := range slices.Concat(a.RequiredKeys, a.OptionalKeys) {
		if problems := validation.IsQualifiedName(strings.ToLower(key)); len(problems) > 0 {
			return fmt.Errorf("requiredServiceAccountAnnotationKeys and optionalServiceAccountAnnotationKeys: %q: %s", key, strings.Join(problems, "; "))
		}
		if seen[key] {
			return fmt.Errorf("requiredServiceAccountAnnotationKeys and optionalServiceAccountAnnotationKeys have %q twice", key)
		}
		seen[key] = true
	}
	return nil
}
