package image

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/podfile"
	"github.com/podsync/podsync/runtime/image/keyring"
)

// accessFiles persist the access state over an agent restart: in pulled, a file for each image; in pulling, a file
// for each name that is, or may be, being pulled with a credential. They contain credential hashes. The zero
// accessFiles persists nothing.
type accessFiles struct {
	pulled, pulling podfile.Dir
	log             logr.Logger
}

func newAccessFiles(dir string, log logr.Logger) accessFiles {
	if dir == "" {
		return accessFiles{}
	}
	return accessFiles{podfile.Dir(filepath.Join(dir, "pulled")), podfile.Dir(filepath.Join(dir, "pulling")), log}
}

// imageFile is an image's file.
type imageFile struct {
	Image string `json:"image"`
	// Verify is set after an image file could not be read: that file may have had repositories that are not in this
	// list.
	Verify       bool                      `json:"verify,omitempty"`
	Repositories map[string]repositoryFile `json:"repositories"`
}

type repositoryFile struct {
	Everyone    bool          `json:"everyone,omitempty"`
	Credentials []fingerprint `json:"credentials,omitempty"`
}

// nameFile is the file for a name with its pulls.
type nameFile struct {
	Name  string       `json:"name"`
	Pulls []intentFile `json:"pulls"`
}

type intentFile struct {
	Credential fingerprint `json:"credential"`
	Present    string      `json:"present,omitempty"`
}

// MarshalText writes a hash in hexadecimal digits.
func (f fingerprint) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(f[:])), nil }

// UnmarshalText reads a hash.
func (f *fingerprint) UnmarshalText(text []byte) error {
	raw, err := hex.DecodeString(string(text))
	if err != nil || len(raw) != len(f) {
		return errors.New("a hash of a credential must have 64 hexadecimal digits")
	}
	copy(f[:], raw)
	return nil
}

// fileOf returns the file name for an image or a name.
func fileOf(of string) types.UID {
	sum := sha256.Sum256([]byte(of))
	return types.UID(hex.EncodeToString(sum[:]))
}

// image reads an image's grants. Without a file there are none. If the file cannot be read,
// every pod must verify its credentials.
func (f accessFiles) image(id string) imageGrants {
	var file imageFile
	found, err := f.read(f.pulled, id, &file, func() string { return file.Image })
	if err != nil {
		f.log.Error(err, "The record of who may use an image is lost: credentials are verified again", "image", id)
		return imageGrants{verify: true}
	}
	if !found {
		return imageGrants{}
	}
	grants := imageGrants{verify: file.Verify, in: map[string]grant{}}
	for repository, r := range file.Repositories {
		grants.in[repository] = grant{everyone: r.Everyone, with: r.Credentials}
	}
	return grants
}

// intents reads the pulls for a name that an earlier agent began, whose outcome is unknown. If the file cannot be
// read, it returns a pull with an unknown credential.
func (f accessFiles) intents(name string) []*intent {
	var file nameFile
	if _, err := f.read(f.pulling, name, &file, func() string { return file.Name }); err != nil {
		f.log.Error(err, "The record of pulls is lost: credentials are verified again", "name", name)
		return []*intent{{state: doubtful}}
	}
	var all []*intent
	for _, p := range file.Pulls {
		all = append(all, &intent{with: p.Credential, present: p.Present, state: doubtful})
	}
	return all
}

func (f accessFiles) read(dir podfile.Dir, of string, into any, about func() string) (found bool, err error) {
	if dir == "" {
		return false, nil
	}
	err = dir.ReadJSON(fileOf(of), into)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil && about() != of {
		err = errors.New("it is about another one")
	}
	return err == nil, err
}

// saveImage returns when the grants are on the disk.
func (f accessFiles) saveImage(id string, grants imageGrants) error {
	file := imageFile{Image: id, Verify: grants.verify, Repositories: map[string]repositoryFile{}}
	for repository, g := range grants.in {
		file.Repositories[repository] = repositoryFile{g.everyone, g.with}
	}
	return f.save(f.pulled, id, file, false)
}

// saveIntents returns when the intents are on the disk.
func (f accessFiles) saveIntents(name string, intents []*intent) error {
	file := nameFile{Name: name}
	for _, in := range intents {
		file.Pulls = append(file.Pulls, intentFile{in.with, in.present})
	}
	return f.save(f.pulling, name, file, len(intents) == 0)
}

func (f accessFiles) save(dir podfile.Dir, of string, file any, empty bool) error {
	if dir == "" {
		return nil
	}
	if empty {
		return dir.Remove(fileOf(of))
	}
	if err := dir.ReplaceJSON(fileOf(of), file, true); err != nil {
		return fmt.Errorf("record of %s: %w", of, err)
	}
	return nil
}

// forget removes the file for an image that no longer exists.
func (f accessFiles) forget(id string) {
	if f.pulled != "" {
		f.report(f.pulled.Remove(fileOf(id)))
	}
}

// pulledImages returns the names of image files.
func (f accessFiles) pulledImages() []types.UID {
	if f.pulled == "" {
		return nil
	}
	files, err := f.pulled.List()
	f.report(err)
	return files
}

// pulledIDs returns the IDs for images that have files. It leaves out files that cannot be read.
func (f accessFiles) pulledIDs() (ids []string) {
	for _, name := range f.pulledImages() {
		var file imageFile
		if f.pulled.ReadJSON(name, &file) == nil && fileOf(file.Image) == name {
			ids = append(ids, file.Image)
		}
	}
	return ids
}

// forgetFile removes an image's file by its name.
func (f accessFiles) forgetFile(name types.UID) { f.report(f.pulled.Remove(name)) }

// report logs an error whose consequence is an unnecessary verification.
func (f accessFiles) report(err error) {
	if err != nil {
		f.log.Error(err, "A record of who may use an image was not written")
	}
}

// Limits on one image's records. Beyond them, credentials are verified again.
const (
	maxRepositories = 100
	maxCredentials  = 100
)

// with returns the grants with one more, recorded at a time.
func (i imageGrants) with(repository string, c keyring.Credentials, now time.Time) imageGrants {
	i.in, i.recorded = maps.Clone(i.in), now
	if i.in == nil {
		i.in = map[string]grant{}
	}
	i.in[repository] = i.in[repository].and(c)
	if len(i.in) > maxRepositories {
		others := slices.DeleteFunc(slices.Sorted(maps.Keys(i.in)), func(r string) bool { return r == repository })
		delete(i.in, others[0])
		i.verify = true
	}
	return i
}
