package image

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/podsync/podsync/runtime/cri"
)

// access remembers with which credentials images were pulled, so that an image
// that is there is not open to pods that could not have pulled it (KEP-2535).
//
// What was not pulled by this Manager has no record and is open to all: images
// loaded onto the node, and those of an earlier run.
type access struct {
	mu     sync.Mutex
	grants map[string]map[string]grant // by image ID and repository
	// intents are the pulls with credentials of which it is not known which image
	// they bring, by normal name: what they bring may be there already.
	intents map[string][]*intent
}

// grant is who may use an image under the name of one repository. It depends on
// no other repository that has the same image (kubernetes #138211).
type grant struct {
	everyone bool // pulled without a credential
	with     map[fingerprint]bool
}

// intent is noted before the runtime is asked to pull, and stays until it is
// known which image came of it, or that none did.
type intent struct {
	with fingerprint
	// present is the image that had the name before, empty for none. The pull has
	// not brought that one.
	present string
	state   intentState
}

type intentState uint8

const (
	underWay  intentState = iota
	doubtful              // ended without a clear answer: the image may come yet
	succeeded             // the image is there, but nobody has looked at it
)

// begin notes that the runtime will be asked to pull, and returns what notes the
// outcome.
func (a *access) begin(w want, c credential) (end func(error)) {
	if c.reveal == nil {
		return func(error) {}
	}
	in := &intent{with: fingerprintOf(c), present: w.present}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.intents == nil {
		a.intents = map[string][]*intent{}
	}
	name := normal(w.ref.Full)
	a.intents[name] = append(a.intents[name], in)
	return func(err error) { a.end(name, in, err) }
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
	a.dropIntents(name, func(other *intent) bool { return *other == outcome }) // one is enough
	*in = outcome
}

// dropIntents must be called with mu held.
func (a *access) dropIntents(name string, drop func(*intent) bool) {
	if left := slices.DeleteFunc(a.intents[name], drop); len(left) > 0 {
		a.intents[name] = left
	} else {
		delete(a.intents, name)
	}
}

// pulled notes which image a pull with a credential has brought.
func (a *access) pulled(id string, ref Reference, c credential) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.grants == nil {
		a.grants = map[string]map[string]grant{}
	}
	if a.grants[id] == nil {
		a.grants[id] = map[string]grant{}
	}
	a.grants[id][ref.Repository] = a.grants[id][ref.Repository].and(c)
	with := fingerprintOf(c)
	a.dropIntents(normal(ref.Full), func(in *intent) bool { return in.state == succeeded && in.with == with })
}

// removed drops what is known of an image that was removed under all its names.
// What a pull may still bring is not that image.
func (a *access) removed(id string, names []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.grants, id)
	for _, name := range names {
		a.dropIntents(name, func(in *intent) bool { return in.state != underWay && in.present != id })
	}
}

func (g grant) and(c credential) grant {
	if c.reveal == nil {
		g.everyone = true
		return g
	}
	with := maps.Clone(g.with)
	if with == nil {
		with = map[fingerprint]bool{}
	}
	with[fingerprintOf(c)] = true
	return grant{g.everyone, with}
}

// allows reports whether whoever has these credentials may use the image. Who
// asks for it by its identifier asks for it from every repository.
func (a *access) allows(img *Image, ref Reference, credentials []credential) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	grants := a.grants[img.ID]
	if !strings.HasPrefix(img.ID, ref.Pull) { // runtimes take the beginning for the whole
		if g, pulled := grants[ref.Repository]; pulled {
			return g.allows(credentials)
		}
		return a.intentsAllow(img, ref.Repository, credentials)
	}
	for _, g := range grants {
		if g.allows(credentials) {
			return true
		}
	}
	return len(grants) == 0 && a.intentsAllow(img, "", credentials)
}

// intentsAllow reports whether the image can have come by none of the pulls that
// are noted for its names in a repository, or in all for "", or whether it came
// by one with these credentials. It must be called with mu held.
func (a *access) intentsAllow(img *Image, repository string, credentials []credential) bool {
	free := true
	for _, name := range img.names {
		if repository != "" && repositoryOf(name) != repository {
			continue
		}
		for _, in := range a.intents[name] {
			if in.present == img.ID {
				continue
			}
			if in.state == succeeded && in.of(credentials) {
				return true
			}
			free = false
		}
	}
	return free
}

func (in *intent) of(credentials []credential) bool {
	return slices.ContainsFunc(credentials, func(c credential) bool { return fingerprintOf(c) == in.with })
}

func (g grant) allows(credentials []credential) bool {
	for _, c := range credentials {
		if g.with[fingerprintOf(c)] {
			return true
		}
	}
	return g.everyone
}
