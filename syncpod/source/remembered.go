package source

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/container/env"
)

// RememberedConfig is what a Remembered is made of.
type RememberedConfig struct {
	// Source says which pods should run. Required.
	Source Source
	// ConfigMaps, Secrets, Services, RuntimeClasses and Tokens are asked for what pods refer
	// to. Default: none is answered.
	ConfigMaps     env.ConfigMaps
	Secrets        env.Secrets
	Services       env.Services
	RuntimeClasses RuntimeClasses
	Tokens         Tokens
	// Path is the file in which all is remembered, an absolute path. Required. Its directory is
	// made if it is not there. Each source needs a file of its own.
	Path string
	// Key encrypts the file with AES-256-GCM: 32 bytes, which the program keeps elsewhere.
	// Without a key the file can be read by root, and holds no Secrets and no tokens.
	Key []byte
	// OldKey decrypts a file that Key does not, so that a key can be replaced: the file is written
	// with Key again. Default: none.
	OldKey []byte
	// Patience is how long the source has to say all that it wants before pods are
	// delivered that are only remembered. Default 10 s.
	Patience time.Duration
	// WriteInterval is the time from one write of the file to the next, at the least.
	// Default 10 s.
	WriteInterval time.Duration
	// MaxAge is the age above which nothing that was remembered is used. It is compared once, when the
	// file is read, by the clock of the machine, and counts from the last write of the file or from
	// the last recorded call of Confirm, whichever is later. Default: any age.
	MaxAge time.Duration
}

// RuntimeClasses knows runtime classes, as a sandbox.RuntimeClasses does.
type RuntimeClasses interface {
	// RuntimeHandler returns the handler of the runtime class of that name.
	RuntimeHandler(ctx context.Context, class string) (string, error)
}

// Tokens gets tokens of service accounts, as a volume.Tokens does.
type Tokens interface {
	// Token returns a token. An error must not hold one.
	Token(ctx context.Context, pod *v1.Pod, ask *v1.ServiceAccountTokenProjection) (string, error)
}

// Remembered is a [Source] of the pods of another one, which it remembers in a file, with
// what they refer to: ConfigMaps, Secrets, Services, runtime classes and tokens. So a node
// that is started while its server is away runs what it ran.
//
// What was remembered is delivered when the other source has not said within
// RememberedConfig.Patience all that it wants. Such a Snapshot is incomplete: nothing that
// runs is stopped because it was not remembered. It lacks what the source has spoken of and
// does not want any more. From when the source has said all, its word is what is delivered,
// and what it does not want stops: a pod that was deleted at the server while the node was
// off runs until then. A static pod that is remembered gives way to one of its name.
//
// A Remembered is an env.ConfigMaps, env.Secrets and env.Services, a sandbox.RuntimeClasses
// and a volume.Tokens, to be set as Objects of syncpod.Config. It asks those of its
// configuration, and answers as they did last if they do not answer, or with an error that may be that of a server which is
// away. An error that says something of the object counts: that it is not there, or must
// not be read. Of what pods refer to, that is remembered which was asked for.
//
// The file is replaced as a whole, and on the disk before it counts: after a crash or a
// loss of power it is the last one or the one before. A file that cannot be read, or
// that was encrypted with another key, is an error of the snapshots until the source has
// said all that it wants, and replaced then. Secrets and tokens are not written to disk in plain
// text: without a Key they are remembered until the agent ends.
//
// Methods may be called concurrently.
type Remembered struct {
	config     RememberedConfig
	configMaps answers[types.NamespacedName, *v1.ConfigMap]
	secrets    answers[types.NamespacedName, *v1.Secret]
	// services are by namespace, classes are handlers by the names of runtime classes.
	services answers[string, []*v1.Service]
	classes  answers[string, string]
	tokens   answers[tokenKey, string]
	file     memoryFile

	read sync.Once
	// changed has a value while there may be something to write, confirmed while a confirmation is
	// to be written, written while there is something new to say of that.
	changed, confirmed, written chan struct{}

	mu   sync.Mutex
	pods recollection
	// confirmedAt is the time of the last call of Confirm. recordedAt is the confirmation in the file.
	confirmedAt, recordedAt time.Time
	// readErr is why nothing is remembered, writeErr why what there is could not be written, and
	// confirmErr why the last confirmation could not.
	readErr, writeErr, confirmErr error
}

var (
	_ Source         = (*Remembered)(nil)
	_ env.ConfigMaps = (*Remembered)(nil)
	_ env.Secrets    = (*Remembered)(nil)
	_ env.Services   = (*Remembered)(nil)
)

// NewRemembered returns a Remembered. It reads nothing and starts nothing.
func NewRemembered(c RememberedConfig) (*Remembered, error) {
	switch push, ok := c.Source.(*Push); {
	case c.Source == nil:
		return nil, errors.New("source: RememberedConfig.Source is missing")
	case c.Source.Name() == "":
		return nil, errors.New("source: RememberedConfig.Source has no name")
	case ok && push.Static() && push.Name() == runtime.ConfigSourceAPI:
		return nil, fmt.Errorf("source: RememberedConfig.Source is a Push of static pods with the name %q, which is that of other pods", push.Name())
	case !filepath.IsAbs(c.Path):
		return nil, fmt.Errorf("source: RememberedConfig.Path %q is not an absolute path", c.Path)
	case c.Key != nil && len(c.Key) != keySize:
		return nil, fmt.Errorf("source: RememberedConfig.Key has %d bytes, want %d", len(c.Key), keySize)
	case c.OldKey != nil && c.Key == nil:
		return nil, errors.New("source: RememberedConfig.OldKey is set, and Key is missing")
	case c.OldKey != nil && len(c.OldKey) != keySize:
		return nil, fmt.Errorf("source: RememberedConfig.OldKey has %d bytes, want %d", len(c.OldKey), keySize)
	}
	for _, d := range []struct {
		name  string
		field *time.Duration
	}{{"Patience", &c.Patience}, {"WriteInterval", &c.WriteInterval}, {"MaxAge", &c.MaxAge}} {
		if *d.field < 0 {
			return nil, fmt.Errorf("source: RememberedConfig.%s is negative: %v", d.name, *d.field)
		}
	}
	for _, field := range []*time.Duration{&c.Patience, &c.WriteInterval} {
		if *field == 0 {
			*field = 10 * time.Second
		}
	}
	r := &Remembered{
		config: c, file: memoryFile{path: c.Path, source: c.Source.Name(), key: c.Key, oldKey: c.OldKey, disk: osDisk{}},
		changed: make(chan struct{}, 1), confirmed: make(chan struct{}, 1), written: make(chan struct{}, 1),
	}
	for _, changed := range []*func(){&r.configMaps.changed, &r.secrets.changed, &r.services.changed, &r.classes.changed, &r.tokens.changed} {
		*changed = r.mayHaveChanged
	}
	return r, nil
}

// Name returns the name of the source whose pods they are.
func (r *Remembered) Name() string { return r.config.Source.Name() }

// Run delivers the pods of the source, or what was remembered of them, until ctx ends. It
// returns what Run of the source returns.
func (r *Remembered) Run(ctx context.Context, deliver func(Snapshot)) error {
	ctx, cancel := context.WithCancel(ctx)
	var children sync.WaitGroup
	defer children.Wait()
	defer cancel()
	r.read.Do(r.readMemory)
	heard, ended := make(chan Snapshot), make(chan error, 1)
	children.Go(func() {
		ended <- r.config.Source.Run(ctx, func(s Snapshot) {
			select {
			case heard <- s:
			case <-ctx.Done():
			}
		})
	})
	children.Go(func() { r.keep(ctx) })
	return r.follow(ctx, heard, ended, deliver)
}

// follow delivers what there is to say, until the source has ended.
func (r *Remembered) follow(ctx context.Context, heard <-chan Snapshot, ended <-chan error, deliver func(Snapshot)) error {
	patience := time.NewTimer(r.config.Patience)
	defer patience.Stop()
	for {
		select {
		case s := <-heard:
			deliver(r.hear(s))
		case <-patience.C:
			r.tell(deliver, true)
		case <-r.written:
			r.tell(deliver, false)
		case err := <-ended:
			if ctx.Err() == nil { // it has failed, and its pods go on
				r.tell(deliver, true)
			}
			return err
		}
	}
}

// hear takes what the source says, and returns what is delivered for it.
func (r *Remembered) hear(s Snapshot) Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods.hear(s)
	r.mayHaveChanged()
	return r.snapshot(s.ConfigsChanged)
}

// tell delivers again what is known. With due set, that is from now on with what is only
// remembered.
func (r *Remembered) tell(deliver func(Snapshot), due bool) {
	r.mu.Lock()
	news := !due || !r.pods.complete && (len(r.pods.remembered) > 0 || r.pods.tooOld > 0 || r.readErr != nil)
	r.pods.due = r.pods.due || due
	s := r.snapshot(false)
	r.mu.Unlock()
	if news {
		deliver(s)
	}
}

// snapshot must be called with mu held.
func (r *Remembered) snapshot(configsChanged bool) Snapshot {
	s := r.pods.snapshot()
	s.ConfigsChanged = configsChanged
	for _, err := range []error{r.readErr, r.writeErr, r.confirmErr} {
		if err != nil {
			s.Errors = append(s.Errors[:len(s.Errors):len(s.Errors)], err)
		}
	}
	return s
}

// readMemory takes over what was remembered, unless it is too old.
func (r *Remembered) readMemory() {
	m, err := r.file.read()
	confirmedAt, now := r.file.confirmedAt(m.SavedAt), time.Now()
	r.mu.Lock()
	kept := r.pods.recall(m, confirmedAt, now, r.config.MaxAge)
	r.readErr = err
	r.mu.Unlock()
	r.take(kept)
}

// take takes over what pods refer to.
func (r *Remembered) take(m memory) {
	r.configMaps.load(byNames(m.ConfigMaps))
	r.secrets.load(byNames(m.Secrets))
	services, classes, tokens := map[string][]*v1.Service{}, map[string]string{}, map[tokenKey]string{}
	for _, s := range m.Services {
		services[s.Namespace] = s.Services
	}
	for _, c := range m.RuntimeClasses {
		classes[c.Name] = c.Handler
	}
	for _, t := range m.Tokens {
		tokens[t.tokenKey] = t.Token
	}
	r.services.load(services)
	r.classes.load(classes)
	r.tokens.load(tokens)
}

// memory is what there is to remember of pods. What is secret is only in an encrypted file.
func (r *Remembered) memory(pods []*v1.Pod) memory {
	m, named := memory{Pods: pods}, namedBy(pods)
	m.ConfigMaps = objectsOf(r.configMaps.keep(named.configMaps, compareNames))
	for _, s := range r.services.keep(named.namespaces, strings.Compare) {
		m.Services = append(m.Services, memoryServices{Namespace: s.key, Services: s.answer})
	}
	for _, c := range r.classes.keep(named.classes, strings.Compare) {
		m.RuntimeClasses = append(m.RuntimeClasses, memoryClass{Name: c.key, Handler: c.answer})
	}
	secrets, tokens := r.secrets.keep(named.secrets, compareNames), r.tokens.keep(named.tokens, compareTokens)
	if r.config.Key == nil {
		return m
	}
	m.Secrets = objectsOf(secrets)
	for _, t := range tokens {
		m.Tokens = append(m.Tokens, memoryToken{tokenKey: t.key, Token: t.answer})
	}
	return m
}

func (r *Remembered) mayHaveChanged() { raise(r.changed) }

// raise leaves one message in a channel.
func raise(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is known already
	}
}
