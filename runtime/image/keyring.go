package image

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/internal/utf"
)

// keyring holds the registry credentials of pull secrets. The zero keyring has none. Printing it
// reveals no credential.
type keyring struct {
	entries []*entry // the most specific location first; equal ones in their given order
}

// entry is one credential and the images it is for.
type entry struct {
	location   string // host, port and path as written, without scheme and API version
	only       string // the only repository for which it is valid, "" for all that the location matches
	credential credential
}

// credential is a login for a registry. Because it is inside a closure, printing the credential, or
// a value that contains it, does not reveal it.
type credential struct {
	reveal func() login
	// node is set for a credential of the node: all pods may use the images that it pulls.
	node bool
}

// SecretTypeNode is the type of a pull secret of the node, which has no namespace, such as one of a credential provider: every
// pod may use the images that it pulls. A secret of an API server has a namespace, and is never one.
const SecretTypeNode v1.SecretType = "podsync/node-credentials"

// AnnotationRepository, on a pull secret, restricts its credentials to the images of one repository in full, as [Repository]
// returns it: a credential provider may return credentials for one image under the key of a whole registry.
const AnnotationRepository = "podsync.io/repository"

type login struct{ username, password string }

func newCredential(username, password string) credential {
	return credential{reveal: func() login { return login{username, password} }}
}

// login returns the login of a credential, empty for the zero credential, which means anonymous.
func (c credential) login() login {
	if c.reveal == nil {
		return login{}
	}
	return c.reveal()
}

// String returns a placeholder.
func (credential) String() string { return "[registry credential]" }

// GoString returns a placeholder.
func (c credential) GoString() string { return c.String() }

// String returns the number of credentials.
func (k keyring) String() string { return fmt.Sprintf("[%d registry credentials]", len(k.entries)) }

// GoString returns the number of credentials.
func (k keyring) GoString() string { return k.String() }

// maxKeyring bounds the Docker configurations of all pull secrets of a pull, in bytes: a pod may name 80,000 secrets of 1 MiB.
const maxKeyring = 8 << 20

// newKeyring reads pull secrets of the types kubernetes.io/dockerconfigjson and
// kubernetes.io/dockercfg; it ignores a secret with neither key. The error names the secret, key
// and registry that cannot be read, and never quotes their contents. newKeyring does not retain or
// modify the secrets.
func newKeyring(secrets []v1.Secret) (keyring, error) {
	var k keyring
	room := maxKeyring
	for i := range secrets {
		if room -= len(secrets[i].Data[v1.DockerConfigJsonKey]) + len(secrets[i].Data[v1.DockerConfigKey]); room < 0 {
			return keyring{}, fmt.Errorf("the pull secrets have more than %d bytes with %s/%s", maxKeyring, secrets[i].Namespace, secrets[i].Name)
		}
		if err := k.add(&secrets[i]); err != nil {
			return keyring{}, err
		}
	}
	// Reverse lexical order puts a path before its prefixes and a host before the
	// wildcards that match it ('*' is lower than any letter), as a kubelet does.
	slices.SortStableFunc(k.entries, func(a, b *entry) int { return strings.Compare(b.location, a.location) })
	return k, nil
}

// dockerAuths is the form of .dockercfg, and of the field auths of
// .dockerconfigjson.
type dockerAuths map[string]struct {
	Username string `json:"username"`
	Password string `json:"password"`
	Auth     string `json:"auth"` // base64 of username:password; takes precedence over the two
}

func (k *keyring) add(secret *v1.Secret) error {
	var auths dockerAuths
	key := v1.DockerConfigJsonKey
	if data, ok := secret.Data[key]; ok {
		var config struct {
			Auths dockerAuths `json:"auths"`
		}
		if unmarshal(data, &config) != nil {
			return secretError(secret, key, errors.New("is not the JSON of a Docker configuration"))
		}
		auths = config.Auths
	} else if data, ok := secret.Data[v1.DockerConfigKey]; ok {
		key = v1.DockerConfigKey
		if unmarshal(data, &auths) != nil {
			return secretError(secret, key, errors.New("is not the JSON of a Docker configuration"))
		}
	}
	for _, registry := range slices.Sorted(maps.Keys(auths)) {
		auth := auths[registry]
		c := newCredential(auth.Username, auth.Password)
		if auth.Auth != "" {
			var err error
			if c, err = decodeAuth(auth.Auth); err != nil {
				return secretError(secret, key, fmt.Errorf("registry %q: %w", registry, err))
			}
		}
		c.node = secret.Type == SecretTypeNode && secret.Namespace == ""
		if c.login() != (login{}) { // the login is in a credential helper, not in a secret
			k.entries = append(k.entries, &entry{location(registry), secret.Annotations[AnnotationRepository], c})
		}
	}
	return nil
}

// unmarshal decodes JSON, which PowerShell writes in UTF-16, and other tools with a byte order mark.
func unmarshal(data []byte, into any) error {
	data, err := utf.Decode(data)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

func secretError(s *v1.Secret, key string, err error) error {
	return fmt.Errorf("pull secret %s/%s: %s: %w", s.Namespace, s.Name, key, err)
}

// decodeAuth accepts padded and unpadded base64, with white space anywhere: tools end it with a newline, or wrap its
// lines (kubernetes #82147).
func decodeAuth(auth string) (credential, error) {
	auth = strings.Join(strings.Fields(auth), "")
	text, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(auth, "="))
	if err != nil {
		return credential{}, errors.New("auth is not base64")
	}
	username, password, ok := strings.Cut(string(text), ":")
	if !ok {
		return credential{}, errors.New("auth is not username:password")
	}
	return newCredential(username, password), nil
}

// location removes the parts that a comparison ignores: the scheme, and the version of the registry's API that old Docker
// clients wrote.
func location(registry string) string {
	if _, after, ok := strings.Cut(registry, "://"); ok {
		registry = after
	}
	host, path, _ := strings.Cut(registry, "/")
	for _, version := range []string{"v1/", "v2/"} {
		if rest, ok := strings.CutPrefix(path, version); ok {
			path = rest
			break
		}
	}
	if path == "" {
		return host
	}
	return host + "/" + path
}

// defaultRegistry is docker.io's location in Docker's configurations.
const defaultRegistry = "index.docker.io"

// lookup returns the credentials for an image's full repository, the most specific first and each
// once. As in a kubelet, a credential's host must have as many labels as the image's, and each label
// may be a pattern as in path.Match; its port must be the same; its path must be a prefix of the
// image's. If none matches an image of docker.io, the credentials for exactly index.docker.io
// apply, which is Docker's name of that registry in configurations.
func (k keyring) lookup(repository string) []credential {
	found := k.collect(repository, func(location string) bool { return Matches(location, repository) })
	if len(found) == 0 && strings.HasPrefix(repository, "docker.io/") {
		found = k.collect(repository, func(location string) bool { return location == defaultRegistry })
	}
	return found
}

func (k keyring) collect(repository string, matches func(location string) bool) []credential {
	var found []credential
	for _, e := range k.entries {
		same := func(c credential) bool { return c.login() == e.credential.login() }
		if (e.only == "" || e.only == repository) && matches(e.location) && !slices.ContainsFunc(found, same) {
			found = append(found, e.credential)
		}
	}
	return found
}

// Matches reports whether a pattern of a credential, such as "*.azurecr.io" or "registry.io:8080/path", matches the full name of
// a repository, as [Repository] returns it. Both hosts have the same number of labels, and path.Match matches each label. The
// ports are equal. The path of the pattern is a prefix of the path of the repository.
func Matches(pattern, repository string) bool {
	p, r := splitLocation(pattern), splitLocation(repository)
	if p.port != r.port || !strings.HasPrefix(r.path, p.path) {
		return false
	}
	patterns, labels := strings.Split(p.host, "."), strings.Split(r.host, ".")
	if len(patterns) != len(labels) {
		return false
	}
	for i := range labels {
		if ok, err := path.Match(patterns[i], labels[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// place is a location in parts.
type place struct{ host, port, path string }

func splitLocation(location string) place {
	host, path, _ := strings.Cut(location, "/")
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		return place{host[:i], host[i+1:], path}
	}
	return place{host, "", path}
}

// auth returns the credential as CRI's AuthConfig, nil for the zero credential.
func (c credential) auth() *runtimeapi.AuthConfig {
	if c.reveal == nil {
		return nil
	}
	return &runtimeapi.AuthConfig{Username: c.login().username, Password: c.login().password}
}

// fingerprint identifies credentials without containing them.
type fingerprint [sha256.Size]byte

func fingerprintOf(credentials ...credential) fingerprint {
	h := sha256.New()
	for _, c := range credentials {
		for _, s := range []string{c.login().username, c.login().password} {
			h.Write(binary.AppendUvarint(nil, uint64(len(s))))
			h.Write([]byte(s))
		}
	}
	return fingerprint(h.Sum(nil))
}
