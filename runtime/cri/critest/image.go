package critest

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/internal/memfs"
)

// Image is an image on the node.
type Image struct {
	// Name is the image's name. Names are completed as in runtimes: "nginx" is
	// "docker.io/library/nginx:latest".
	Name string
	// ID is the image's ID. Default: a digest computed from the name.
	ID string
	// Digest is the image's digest in the registry. Default: a digest computed from the name.
	Digest string
	// Size is in bytes. Default: 1 MiB.
	Size uint64
	// User is the image's process user: "1000", "nobody" or "1000:1000". Empty means root.
	User            string
	Entrypoint, Cmd []string
	Env             map[string]string
	StopSignal      runtimeapi.Signal
	Pinned          bool
	// Files are the contents of files, by their absolute paths: those of a container, besides the usual directories, and of a
	// mount of the image. All of them are executable.
	Files map[string]string
	// OnlyKnown means that the image contains only the commands of the command language and of
	// Config.Programs, and has no program of its own: a container without a command cannot be created.
	OnlyKnown bool
	// ServeUnknown means that other commands are servers in this image, as with Config.ServeUnknown.
	ServeUnknown bool
}

// RemoteImage is an image in the registry.
type RemoteImage struct {
	Image
	// PullTime is a pull's duration.
	PullTime time.Duration
	// Credentials are those that can pull the image; one of them suffices. If there are none, no
	// credentials are needed.
	Credentials []*runtimeapi.AuthConfig
	// Status is the HTTP status with which the registry answers instead, after PullTime: 401, 404, 429 or 503, for example.
	Status int
}

func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, " ")))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// withDefaults returns a copy that shares no memory with the caller's Image.
func (i Image) withDefaults() Image {
	i.Entrypoint, i.Cmd, i.Env, i.Files = slices.Clone(i.Entrypoint), slices.Clone(i.Cmd), maps.Clone(i.Env), maps.Clone(i.Files)
	i.Name = completeName(i.Name)
	i.ID = cmp.Or(i.ID, digest("image", i.Name))
	_, asked, _ := strings.Cut(i.Name, "@")
	i.Digest = cmp.Or(i.Digest, asked, digest("manifest", i.Name))
	i.Size = cmp.Or(i.Size, 1<<20)
	return i
}

// unpack writes the image's files.
func (i Image) unpack(to *memfs.FS) {
	for name, text := range i.Files {
		to.MkdirAll(path.Dir(path.Join("/", name)))
		_ = to.WriteFile(path.Join("/", name), []byte(text), false) // a name that is a directory already stays one
	}
}

// ref returns the image's name by digest.
func (i Image) ref() string { return repository(i.Name) + "@" + i.Digest }

// describe returns an image with all its tags and digests.
func (s imageStore) describe(i Image) *runtimeapi.Image {
	out := &runtimeapi.Image{Id: i.ID, Size: i.Size, Pinned: i.Pinned}
	for _, name := range slices.Sorted(maps.Keys(s.local)) {
		o := s.local[name]
		if o.ID != i.ID {
			continue
		}
		out.Pinned = out.Pinned || o.Pinned
		if name != o.ID && !strings.Contains(name, "@") {
			out.RepoTags = append(out.RepoTags, name)
		}
		if !slices.Contains(out.RepoDigests, o.ref()) {
			out.RepoDigests = append(out.RepoDigests, o.ref())
		}
	}
	out.Uid, out.Username = i.user()
	return out
}

// distinct returns each image once, by its first name.
func (s imageStore) distinct() []Image {
	var out []Image
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(s.local)) {
		if i := s.local[name]; !seen[i.ID] {
			seen[i.ID] = true
			out = append(out, i)
		}
	}
	return out
}

func (i Image) user() (uid *runtimeapi.Int64Value, name string) {
	user, _, _ := strings.Cut(i.User, ":")
	if uid, err := strconv.ParseInt(user, 10, 64); err == nil {
		return &runtimeapi.Int64Value{Value: uid}, ""
	}
	return nil, user
}

// completeName adds the registry, "library" and the tag that a name leaves out.
func completeName(name string) string {
	first, _, split := strings.Cut(name, "/")
	switch {
	case !split:
		name = "docker.io/library/" + name
	case !strings.ContainsAny(first, ".:") && first != "localhost":
		name = "docker.io/" + name
	}
	if !strings.Contains(name, "@") && !strings.Contains(name[strings.LastIndex(name, "/"):], ":") {
		name += ":latest"
	}
	return name
}

// reference matches a complete name: registry, repository, tag and digest.
var reference = regexp.MustCompile(
	`^[A-Za-z0-9.-]+(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+(:[0-9A-Za-z_][0-9A-Za-z_.-]{0,127})?(@[a-z0-9]+:[0-9a-f]{32,})?$`)

// repository returns a complete name without tag and digest.
func repository(name string) string {
	name, _, _ = strings.Cut(name, "@")
	if i := strings.LastIndex(name, ":"); i > strings.LastIndex(name, "/") {
		name = name[:i]
	}
	return name
}

// An imageStore is guarded by the runtime's mu.
type imageStore struct {
	local  map[string]Image // by complete name
	remote map[string]RemoteImage
	any    bool // every image can be pulled
}

func newImageStore(cfg Config) (imageStore, error) {
	s := imageStore{local: map[string]Image{}, remote: map[string]RemoteImage{}, any: cfg.Registry == nil}
	for n, i := range cfg.Images {
		if err := s.add(i); err != nil {
			return s, fmt.Errorf("critest: Config.Images[%d].%w", n, err)
		}
	}
	for n, i := range cfg.Registry {
		if err := s.publish(i); err != nil {
			return s, fmt.Errorf("critest: Config.Registry[%d].%w", n, err)
		}
	}
	return s, nil
}

var errNoName = errors.New("Name is missing")

// add adds an image to the node. If its name belonged to another image, that one keeps its ID, as in containerd.
func (s imageStore) add(i Image) error {
	if i.Name == "" {
		return errNoName
	}
	i = i.withDefaults()
	before, taken := s.local[i.Name]
	s.local[i.Name] = i
	if taken && before.ID != i.ID && !slices.ContainsFunc(s.distinct(), func(o Image) bool { return o.ID == before.ID }) {
		s.local[before.ID] = before
	}
	return nil
}

func (s imageStore) publish(i RemoteImage) error {
	switch {
	case i.Name == "":
		return errNoName
	case i.PullTime < 0:
		return errors.New("PullTime is negative")
	}
	i.Image, i.Credentials = i.Image.withDefaults(), cloneAuth(i.Credentials)
	s.remote[i.Name] = i
	return nil
}

// AddImage adds an image to the node while the runtime runs, as ctr images import does. An image that is already there gets
// the name in addition if the ID is the same. A name that belonged to another image moves to this one.
func (r *Runtime) AddImage(i Image) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.images.add(i); err != nil {
		return fmt.Errorf("critest: Image.%w", err)
	}
	return nil
}

// Untag removes one name of an image from the node, and the image with its last name, as ctr images rm does. A client
// removes an image with all its names by RemoveImage.
func (r *Runtime) Untag(name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	name = completeName(name)
	if _, ok := r.images.local[name]; !ok {
		return fmt.Errorf("critest: image %q is not on the node", name)
	}
	delete(r.images.local, name)
	return nil
}

// Publish adds an image to the registry while the runtime runs, or changes it: its content, its credentials, or how the
// registry answers.
func (r *Runtime) Publish(i RemoteImage) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.images.publish(i); err != nil {
		return fmt.Errorf("critest: RemoteImage.%w", err)
	}
	return nil
}

// minShortID is the minimum length of the beginning of an image's ID, because names are short, too.
const minShortID = 8

// resolve finds an image on the node by name, ID or digest.
func (s imageStore) resolve(ref string) (Image, bool) {
	if ref == "" {
		return Image{}, false
	}
	if i, ok := s.local[completeName(ref)]; ok {
		return i, true
	}
	for _, name := range slices.Sorted(maps.Keys(s.local)) {
		i := s.local[name]
		if i.ID == ref || i.ID == "sha256:"+ref || i.ref() == completeName(ref) {
			return i, true
		}
	}
	var found []Image // whose ID begins so
	for _, i := range s.distinct() {
		if len(ref) >= minShortID && strings.HasPrefix(strings.TrimPrefix(i.ID, "sha256:"), strings.TrimPrefix(ref, "sha256:")) {
			found = append(found, i)
		}
	}
	if len(found) == 1 {
		return found[0], true
	}
	return Image{}, false
}
