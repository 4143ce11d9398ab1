package image

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/image/keyring"
)

// access records the credentials with which images were pulled, so that a present image is not
// available to pods that could not have pulled it (KEP-2535).
//
// An image without a record was preloaded. Every pod may use it, unless verify requires credentials
// for its repository.
type access struct {
	files  accessFiles
	verify func(repository string) bool // nil means never

	// mu is held while records are read and written, so that decisions are consistent.
	mu     sync.Mutex
	grants map[string]imageGrants // by image ID, for the images whose record has been read
	// intents are the pulls with credentials whose resulting image is not known yet, by normalized
	// name: the image may already be present. read holds the names whose intents have been loaded.
	intents map[string][]*intent
	read    map[string]bool
	// missed are the records whose image the last list lacked, by their file's name.
	missed map[types.UID]bool
	// used are the images that pods got, by repository. A pod may use them again.
	used map[types.UID]map[useKey]bool
}

// A useKey names an image as a pod does.
type useKey struct{ repository, id string }

// use records that a pod got an image.
func (a *access) use(pod types.UID, repository, id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if pod == "" {
		return
	}
	if a.used == nil {
		a.used = map[types.UID]map[useKey]bool{}
	}
	if a.used[pod] == nil {
		a.used[pod] = map[useKey]bool{}
	}
	a.used[pod][useKey{repository, id}] = true
}

// hasUsed reports whether a pod got an image.
func (a *access) hasUsed(pod types.UID, repository, id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used[pod][useKey{repository, id}]
}

// forget drops the images for a removed pod.
func (a *access) forget(pod types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.used, pod)
}

// imageGrants has the credentials that may use an image, by repository.
type imageGrants struct {
	in map[string]grant
	// verify means that the record was lost: a repository without a grant may have had one.
	verify bool
	// recorded is when this agent last recorded a pull, zero if it has not.
	recorded time.Time
}

// grant has the credentials that may use an image under one repository's name. It does not depend on other
// repositories that have the same image (kubernetes #138211).
type grant struct {
	everyone bool          // pulled without a credential
	with     []fingerprint // the newest last
}

// intent records that a pull is about to be requested from the runtime. It is deleted when the resulting image is
// known, or it is certain that there is none.
type intent struct {
	with fingerprint
	// present is the image that had the name before the pull, empty for none. This image does not result
	// from the pull.
	present string
	state   intentState
}

type intentState uint8

const (
	underWay  intentState = iota
	doubtful              // ended with an unknown result: the image may still arrive
	succeeded             // the image is present, but has not been inspected
)

// begin records that a pull will be requested from the runtime. The returned function records the outcome. After an
// error the pull must not be requested.
func (a *access) begin(w want, c keyring.Credentials) (end func(error), err error) {
	if c.Anonymous() {
		return func(error) {}, nil
	}
	in := &intent{with: fingerprintOf(c), present: w.present}
	a.mu.Lock()
	defer a.mu.Unlock()
	name := normal(w.ref.full)
	a.load(name)
	a.intents[name] = append(a.intents[name], in)
	if err := a.files.saveIntents(name, a.intents[name]); err != nil {
		a.dropIntents(name, func(other *intent) bool { return other == in })
		return nil, err
	}
	return func(err error) { a.end(name, in, err) }, nil
}

// load reads name pulls, once. It must be called with mu held.
func (a *access) load(names ...string) {
	if a.read == nil {
		a.read, a.intents = map[string]bool{}, map[string][]*intent{}
	}
	for _, name := range names {
		if a.read[name] {
			continue
		}
		a.read[name] = true
		if found := a.files.intents(name); len(found) > 0 {
			a.intents[name] = found
		}
	}
}

// of returns an image's grants. It must be called with mu held.
func (a *access) of(id string) imageGrants {
	if grants, read := a.grants[id]; read {
		return grants
	}
	if a.grants == nil {
		a.grants = map[string]imageGrants{}
	}
	a.grants[id] = a.files.image(id)
	return a.grants[id]
}

func (a *access) end(name string, in *intent, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	outcome := *in
	switch {
	case err == nil:
		outcome.state = succeeded
	case cri.Ambiguous(err):
		outcome.state = doubtful
	default:
		a.dropIntents(name, func(other *intent) bool { return other == in })
		return
	}
	a.dropIntents(name, func(other *intent) bool { return *other == outcome }) // one match suffices
	*in = outcome
}

// dropIntents requires mu to be held. If a record cannot be deleted, the next agent verifies that
// credential again.
func (a *access) dropIntents(name string, drop func(*intent) bool) {
	had := len(a.intents[name])
	left := slices.DeleteFunc(a.intents[name], drop)
	if len(left) == had {
		return
	}
	a.intents[name] = left
	err := a.files.saveIntents(name, left)
	a.files.report(err)
	if len(left) == 0 {
		delete(a.intents, name)
		if err == nil { // otherwise the record would be read again
			delete(a.read, name) // pods choose the names: those from pulls that failed must not add up
		}
	}
}

// pulled records which image resulted from a pull with a credential. The intent is deleted when this has been
// recorded.
func (a *access) pulled(id string, ref imageRef, c keyring.Credentials) {
	a.mu.Lock()
	defer a.mu.Unlock()
	grants := a.of(id)
	before, granted := grants.in[ref.repository]
	if granted && before.has(c) {
		grants.recorded = time.Now()
		a.grants[id] = grants
	} else {
		a.grants[id] = grants.with(ref.repository, c, time.Now())
		if err := a.files.saveImage(id, a.grants[id]); err != nil {
			a.files.report(err)
			return
		}
	}
	with := fingerprintOf(c)
	a.dropIntents(normal(ref.full), func(in *intent) bool { return in.state == succeeded && in.with == with })
}

// removed deletes a removed image's records under all its names. A pending pull may result in another image with
// that name.
func (a *access) removed(id string, names []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.files.forget(id)
	delete(a.grants, id)
	a.load(names...)
	for _, name := range names {
		a.dropIntents(name, func(in *intent) bool { return in.state != underWay && in.present != id })
		if len(a.intents[name]) == 0 {
			delete(a.read, name)
		}
	}
}

// known returns the IDs for images that have records.
func (a *access) known() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.AppendSeq(a.files.pulledIDs(), maps.Keys(a.grants))
}

// listed deletes the records for images that another program has removed: those that were recorded before listing all
// images began, and that two lists in a row lack. One list may be short, because a store was not mounted for a moment, and
// an image without a record is open to all pods. An empty list counts for none.
func (a *access) listed(ids map[string]bool, began time.Time) {
	if len(ids) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	keep := map[types.UID]bool{}
	for id := range ids {
		keep[fileOf(id)] = true
	}
	missing := map[types.UID]bool{}
	for id, grants := range a.grants {
		switch file := fileOf(id); {
		case ids[id] || !grants.recorded.Before(began):
			keep[file] = true
		case a.missed[file]:
			delete(a.grants, id)
		default:
			missing[file] = true
		}
	}
	for _, file := range a.files.pulledImages() {
		switch {
		case keep[file] || missing[file]:
		case a.missed[file]:
			a.files.forgetFile(file)
		default:
			missing[file] = true
		}
	}
	a.missed = missing
}

// and returns the grant with one more credential. If there are too many, the oldest one is dropped.
func (g grant) and(c keyring.Credentials) grant {
	if forAll(c) {
		g.everyone = true
		return g
	}
	with := append(slices.Clone(g.with), fingerprintOf(c))
	return grant{g.everyone, with[max(0, len(with)-maxCredentials):]}
}

// has reports whether a pull with a credential is recorded.
func (g grant) has(c keyring.Credentials) bool {
	if forAll(c) {
		return g.everyone
	}
	return slices.Contains(g.with, fingerprintOf(c))
}

// allows reports whether a pod with these credentials may use the image. A request by image ID
// requires that for every repository.
func (a *access) allows(img *Image, ref imageRef, credentials []keyring.Credentials) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	grants := a.of(img.ID)
	a.load(img.names...)
	if !strings.HasPrefix(img.ID, ref.pull) { // runtimes accept an ID's beginning
		if g, pulled := grants.in[ref.repository]; pulled {
			return g.allows(credentials)
		}
		return !grants.verify && a.intentsAllow(img, ref.repository, credentials)
	}
	for _, g := range grants.in {
		if g.allows(credentials) {
			return true
		}
	}
	return len(grants.in) == 0 && !grants.verify && a.intentsAllow(img, "", credentials)
}

// intentsAllow reports whether the intents recorded for the image's names in a repository, or in
// all repositories for "", permit its use: none can have produced the image, or one with these
// credentials did. It requires mu to be held.
func (a *access) intentsAllow(img *Image, repository string, credentials []keyring.Credentials) bool {
	free := true
	for _, name := range img.names {
		if repository != "" && repositoryOf(name) != repository {
			continue
		}
		for _, in := range a.intents[name] {
			if in.present == img.ID && in.present != "" {
				continue
			}
			if in.state == succeeded && in.of(credentials) {
				return true
			}
			free = false
		}
	}
	return free && !a.verifies(img, repository)
}

// verifies reports whether a preloaded image may only be used after a pull.
func (a *access) verifies(img *Image, repository string) bool {
	if a.verify == nil {
		return false
	}
	if repository != "" {
		return a.verify(repository)
	}
	for _, name := range img.names {
		if a.verify(repositoryOf(name)) {
			return true
		}
	}
	return len(img.names) == 0
}

func (in *intent) of(credentials []keyring.Credentials) bool {
	return slices.ContainsFunc(credentials, func(c keyring.Credentials) bool { return fingerprintOf(c) == in.with })
}

func (g grant) allows(credentials []keyring.Credentials) bool {
	return g.everyone || slices.ContainsFunc(credentials, g.has)
}
