package image

import (
	"strings"
	"sync"
)

// access remembers with which credentials images were pulled, so that an image
// that is there is not open to pods that could not have pulled it (KEP-2535).
//
// What was not pulled by this Manager has no record and is open to all: images
// loaded onto the node, and those of an earlier run.
type access struct {
	mu     sync.Mutex
	grants map[string]map[string]grant // by image ID and repository
	// pulling counts the pulls with credentials under way, by repository: what they
	// bring may be there before it has a grant.
	pulling map[string]int
}

// grant is who may use an image under the name of one repository. It depends on
// no other repository that has the same image (kubernetes #138211).
type grant struct {
	everyone bool // pulled without a credential
	with     map[fingerprint]bool
}

// pulled notes that an image was pulled from a repository with a credential.
func (a *access) pulled(id, repository string, c Credential) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.grants == nil {
		a.grants = map[string]map[string]grant{}
	}
	if a.grants[id] == nil {
		a.grants[id] = map[string]grant{}
	}
	g := a.grants[id][repository]
	if c.reveal == nil {
		g.everyone = true
	} else {
		if g.with == nil {
			g.with = map[fingerprint]bool{}
		}
		g.with[fingerprintOf(c)] = true
	}
	a.grants[id][repository] = g
}

// begin notes that a pull with credentials is under way, until done is called.
func (a *access) begin(repository string) (done func()) {
	a.add(repository, 1)
	return func() { a.add(repository, -1) }
}

func (a *access) add(repository string, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pulling == nil {
		a.pulling = map[string]int{}
	}
	if a.pulling[repository] += n; a.pulling[repository] == 0 {
		delete(a.pulling, repository)
	}
}

// allows reports whether whoever has these credentials may use the image. Who
// asks for it by its identifier asks for it from every repository.
func (a *access) allows(id string, ref Reference, credentials []Credential) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	grants := a.grants[id]
	if !strings.HasPrefix(id, ref.Pull) { // runtimes take the beginning for the whole
		if g, pulled := grants[ref.Repository]; pulled {
			return g.allows(credentials)
		}
		return a.pulling[ref.Repository] == 0
	}
	for _, g := range grants {
		if g.allows(credentials) {
			return true
		}
	}
	return len(grants) == 0
}

func (g grant) allows(credentials []Credential) bool {
	for _, c := range credentials {
		if g.with[fingerprintOf(c)] {
			return true
		}
	}
	return g.everyone
}
