package keyring

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/internal/utf"
)

// Keyring holds the registry credentials from pull secrets. The zero Keyring has none. Its methods may be called
// concurrently, and printing it reveals no credentials.
type Keyring struct {
	entries []*entry // the most specific location first; equal ones in their given order
}

// entry is one login and the images it is for.
type entry struct {
	location    string // host, port and path as written, without scheme and API version
	only        string // the only repository for which it is valid, "" for all that the location matches
	credentials Credentials
}

// SecretTypeNode is the type for a node's pull secret, which has no namespace, such as a credential provider's: every pod may
// use the images that it pulls. An API server's secret has a namespace, and is never one.
const SecretTypeNode v1.SecretType = "podsync/node-credentials"

// AnnotationRepository, on a pull secret, restricts its credentials to one repository's images in full, as [Repository]
// returns it: a credential provider may return credentials for one image under a whole registry's key.
const AnnotationRepository = "podsync.io/repository"

// String returns the credential count.
func (k Keyring) String() string { return fmt.Sprintf("[%d registry credentials]", len(k.entries)) }

// GoString returns the credential count.
func (k Keyring) GoString() string { return k.String() }

// maxKeyring bounds the Docker configurations in all pull secrets for a pull, in bytes: a pod may name 80,000 secrets with
// 1 MiB each.
const maxKeyring = 8 << 20

// New reads pull secrets with the types kubernetes.io/dockerconfigjson and
// kubernetes.io/dockercfg; it ignores a secret with another type, or without data. The error names the secret, key
// and registry that cannot be read, and never quotes their contents. New does not retain or
// modify the secrets.
func New(secrets []v1.Secret) (Keyring, error) {
	var k Keyring
	room := maxKeyring
	for i := range secrets {
		if room -= len(secrets[i].Data[v1.DockerConfigJsonKey]) + len(secrets[i].Data[v1.DockerConfigKey]); room < 0 {
			return Keyring{}, fmt.Errorf("the pull secrets have more than %d bytes with %s/%s", maxKeyring, secrets[i].Namespace, secrets[i].Name)
		}
		if err := k.add(&secrets[i]); err != nil {
			return Keyring{}, err
		}
	}
	// Reverse lexical order puts a path before its prefixes and a host before the
	// wildcards that match it ('*' is lower than any letter), as a kubelet does.
	slices.SortStableFunc(k.entries, func(a, b *entry) int { return strings.Compare(b.location, a.location) })
	return k, nil
}

// dockerAuths is how .dockercfg and the field auths in .dockerconfigjson look.
type dockerAuths map[string]struct {
	Username string `json:"username"`
	Password string `json:"password"`
	Auth     string `json:"auth"` // base64 of username:password; takes precedence over the two
}

func (k *Keyring) add(secret *v1.Secret) error {
	var auths dockerAuths
	key := v1.DockerConfigJsonKey
	if data := dataOf(secret, key, v1.SecretTypeDockerConfigJson); len(data) > 0 {
		var config struct {
			Auths dockerAuths `json:"auths"`
		}
		if unmarshal(data, &config) != nil {
			return secretError(secret, key, errors.New("is not the JSON of a Docker configuration"))
		}
		auths = config.Auths
	} else if data := dataOf(secret, v1.DockerConfigKey, v1.SecretTypeDockercfg); len(data) > 0 {
		key = v1.DockerConfigKey
		if unmarshal(data, &auths) != nil {
			return secretError(secret, key, errors.New("is not the JSON of a Docker configuration"))
		}
	}
	for _, registry := range slices.Sorted(maps.Keys(auths)) {
		auth := auths[registry]
		c := Of(auth.Username, auth.Password)
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

// dataOf returns a key's data if the secret has the type that belongs to the key, or a node's, or none, as a program may leave it
// out. A kubelet, too, ignores other types and empty data.
func dataOf(secret *v1.Secret, key string, of v1.SecretType) []byte {
	switch secret.Type {
	case of, SecretTypeNode, "":
		return secret.Data[key]
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
func decodeAuth(auth string) (Credentials, error) {
	auth = strings.Join(strings.Fields(auth), "")
	text, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(auth, "="))
	if err != nil {
		return Credentials{}, errors.New("auth is not base64")
	}
	username, password, ok := strings.Cut(string(text), ":")
	if !ok {
		return Credentials{}, errors.New("auth is not username:password")
	}
	return Of(username, password), nil
}

// location removes the parts that a comparison ignores: the scheme, and the registry API's version that old Docker
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

// Lookup returns the credentials for an image, the most specific first and each once. A puller tries them in this order, and
// pulls anonymously if there are none. The image is a name as in a pod's spec, or a repository; a name that
// [ParseImageName] refuses has no credentials.
//
// As in a kubelet, a credential's host must have as many labels as the image's, and each label may be a pattern as in
// path.Match; its port must be the same; its path must prefix the image's. If none matches an image on docker.io, the
// credentials for exactly index.docker.io apply, which is Docker's name for that registry in configurations.
func (k Keyring) Lookup(image string) []Credentials {
	repository, err := Repository(image)
	if err != nil {
		return nil
	}
	found := k.collect(repository, func(location string) bool { return Matches(location, repository) })
	if len(found) == 0 && strings.HasPrefix(repository, "docker.io/") {
		found = k.collect(repository, func(location string) bool { return location == defaultRegistry })
	}
	return found
}

func (k Keyring) collect(repository string, matches func(location string) bool) []Credentials {
	var found []Credentials
	for _, e := range k.entries {
		if (e.only == "" || e.only == repository) && matches(e.location) && !slices.ContainsFunc(found, e.credentials.Equal) {
			found = append(found, e.credentials)
		}
	}
	return found
}
