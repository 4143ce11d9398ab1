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

	"github.com/podsync/podsync/internal/lastknown"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/volume"
)

// CheckpointConfig configures a [Checkpoint].
type CheckpointConfig struct {
	// Source delivers the pods that should run. Required.
	Source Source
	// ConfigMaps, Secrets, Services, RuntimeClasses and Tokens provide the objects that pods refer
	// to. Default: requests fail.
	ConfigMaps     env.ConfigMaps
	Secrets        env.Secrets
	Services       env.Services
	RuntimeClasses sandbox.RuntimeClasses
	Tokens         volume.Tokens
	// Path is the file's absolute path. Required. Its directory is created if it is missing. Each
	// source needs its own file.
	Path string
	// Key encrypts the file with AES-256-GCM: 32 bytes, which the program stores elsewhere. Without
	// a key, root can read the file, and it contains no Secrets and no tokens.
	Key []byte
	// OldKey decrypts a file that Key does not, so that a key can be replaced: the file is written
	// with Key again. Default: none.
	OldKey []byte
	// Patience is how long Checkpoint waits for the source's first complete snapshot before it delivers
	// pods from the file. Default 10 s.
	Patience time.Duration
	// WriteInterval is the minimum time between two writes to the file. Default 10 s.
	WriteInterval time.Duration
	// MaxAge is the age above which the checkpoint is ignored. The age is computed once, when the file is
	// read, by the machine's clock. It counts from the last write to the file or from Confirm's last
	// recorded call, whichever is later. Default: any age.
	MaxAge time.Duration
}

// Checkpoint is a [Source] for the pods from another one. It writes a checkpoint with them to a file, with the
// objects that they refer to: ConfigMaps, Secrets, Services, runtime classes and tokens. So a node that starts
// while its server is unavailable runs its previous pods.
//
// If the other source has not delivered a complete snapshot within CheckpointConfig.Patience, Checkpoint delivers
// the checkpoint's pods. Such a Snapshot is incomplete: no running pod is stopped because it is not in the
// checkpoint. It does not contain pods that the source has mentioned and no longer wants. Once the source has
// delivered a complete snapshot, Checkpoint delivers the source's snapshots, and pods that are not in them stop:
// a pod that was deleted at the server while the node was off runs until then. A static pod in the checkpoint is
// replaced by one with the same name.
//
// A Checkpoint is an env.ConfigMaps, env.Secrets and env.Services, a sandbox.RuntimeClasses and a volume.Tokens,
// for the Objects in syncpod.Config. It falls back to the last answer when the source in its configuration times
// out or is unavailable. An error about the object itself, such as not found or forbidden, is returned. The
// checkpoint contains only requested objects.
//
// The file is replaced atomically and synced to the disk before it is used: after a crash or a
// power failure it is the last one or the one before. If the file is unreadable, or was encrypted
// with another key, the snapshots contain an error until the source has delivered a complete
// snapshot; then the file is replaced. Secrets and tokens are never written to disk in plain text:
// without a Key they are kept in memory only.
//
// Methods may be called concurrently.
type Checkpoint struct {
	config     CheckpointConfig
	configMaps lastknown.Answers[types.NamespacedName, *v1.ConfigMap]
	secrets    lastknown.Answers[types.NamespacedName, *v1.Secret]
	// services are by namespace, classes are handlers by runtime class names.
	services lastknown.Answers[string, []*v1.Service]
	classes  lastknown.Answers[string, string]
	tokens   lastknown.Answers[tokenKey, string]
	file     checkpointFile

	read sync.Once
	// changed has a value while a write may be needed, confirmed while a confirmation must be written,
	// and written while a write's result has to be delivered.
	changed, confirmed, written chan struct{}

	mu   sync.Mutex
	pods checkpointPods
	// confirmedAt is when Confirm was last called. recordedAt is the confirmation in the file.
	confirmedAt, recordedAt time.Time
	// readErr is the error from the read of the file, writeErr the one from the last
	// write, and confirmErr the one from the last write of a confirmation.
	readErr, writeErr, confirmErr error
}

var (
	_ Source         = (*Checkpoint)(nil)
	_ env.ConfigMaps = (*Checkpoint)(nil)
	_ env.Secrets    = (*Checkpoint)(nil)
	_ env.Services   = (*Checkpoint)(nil)
)

// NewCheckpoint returns a Checkpoint. It reads nothing and starts nothing.
func NewCheckpoint(c CheckpointConfig) (*Checkpoint, error) {
	switch push, ok := c.Source.(*Push); {
	case c.Source == nil:
		return nil, errors.New("source: CheckpointConfig.Source is missing")
	case c.Source.Name() == "":
		return nil, errors.New("source: CheckpointConfig.Source has no name")
	case ok && push.Static() && push.Name() == runtime.ConfigSourceAPI:
		return nil, fmt.Errorf("source: CheckpointConfig.Source is a Push of static pods with the name %q, which is that of other pods", push.Name())
	case !filepath.IsAbs(c.Path):
		return nil, fmt.Errorf("source: CheckpointConfig.Path %q is not an absolute path", c.Path)
	case c.Key != nil && len(c.Key) != keySize:
		return nil, fmt.Errorf("source: CheckpointConfig.Key has %d bytes, want %d", len(c.Key), keySize)
	case c.OldKey != nil && c.Key == nil:
		return nil, errors.New("source: CheckpointConfig.OldKey is set, and Key is missing")
	case c.OldKey != nil && len(c.OldKey) != keySize:
		return nil, fmt.Errorf("source: CheckpointConfig.OldKey has %d bytes, want %d", len(c.OldKey), keySize)
	}
	for _, d := range []struct {
		name  string
		field *time.Duration
	}{{"Patience", &c.Patience}, {"WriteInterval", &c.WriteInterval}, {"MaxAge", &c.MaxAge}} {
		if *d.field < 0 {
			return nil, fmt.Errorf("source: CheckpointConfig.%s is negative: %v", d.name, *d.field)
		}
	}
	for _, field := range []*time.Duration{&c.Patience, &c.WriteInterval} {
		if *field == 0 {
			*field = 10 * time.Second
		}
	}
	r := &Checkpoint{
		config: c, file: checkpointFile{path: c.Path, source: c.Source.Name(), key: c.Key, oldKey: c.OldKey, disk: osDisk{}},
		changed: make(chan struct{}, 1), confirmed: make(chan struct{}, 1), written: make(chan struct{}, 1),
	}
	for _, changed := range []*func(){&r.configMaps.Changed, &r.secrets.Changed, &r.services.Changed, &r.classes.Changed, &r.tokens.Changed} {
		*changed = r.mayHaveChanged
	}
	return r, nil
}

// Name returns the source's name in the configuration.
func (r *Checkpoint) Name() string { return r.config.Source.Name() }

// Run delivers the pods from the source, or from the checkpoint, until ctx ends. It returns what
// the source's Run returns.
func (r *Checkpoint) Run(ctx context.Context, deliver func(Snapshot)) error {
	ctx, cancel := context.WithCancel(ctx)
	var children sync.WaitGroup
	defer children.Wait()
	defer cancel()
	r.read.Do(r.readCheckpoint)
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

// follow delivers snapshots whenever they change, until the source has ended.
func (r *Checkpoint) follow(ctx context.Context, heard <-chan Snapshot, ended <-chan error, deliver func(Snapshot)) error {
	patience := time.NewTimer(r.config.Patience)
	defer patience.Stop()
	for {
		select {
		case s := <-heard:
			deliver(r.handleSnapshot(s))
		case <-patience.C:
			r.redeliver(deliver, true)
		case <-r.written:
			r.redeliver(deliver, false)
		case err := <-ended:
			if ctx.Err() == nil { // the source has failed, and its pods keep running
				r.redeliver(deliver, true)
			}
			return err
		}
	}
}

// handleSnapshot processes a source snapshot, and returns the one to deliver.
func (r *Checkpoint) handleSnapshot(s Snapshot) Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods.hear(s)
	r.mayHaveChanged()
	return r.snapshot(s.ConfigsChanged)
}

// redeliver delivers the current snapshot again. If due is set, it contains the checkpoint from now on.
func (r *Checkpoint) redeliver(deliver func(Snapshot), due bool) {
	r.mu.Lock()
	news := !due || !r.pods.complete && (len(r.pods.checkpointed) > 0 || r.pods.tooOld > 0 || r.readErr != nil)
	r.pods.due = r.pods.due || due
	s := r.snapshot(false)
	r.mu.Unlock()
	if news {
		deliver(s)
	}
}

// snapshot must be called with mu held.
func (r *Checkpoint) snapshot(configsChanged bool) Snapshot {
	s := r.pods.snapshot()
	s.ConfigsChanged = configsChanged
	for _, err := range []error{r.readErr, r.writeErr, r.confirmErr} {
		if err != nil {
			s.Errors = append(s.Errors[:len(s.Errors):len(s.Errors)], err)
		}
	}
	return s
}

// readCheckpoint loads the checkpoint, unless it is too old.
func (r *Checkpoint) readCheckpoint() {
	m, err := r.file.read()
	confirmedAt, now := r.file.confirmedAt(m.SavedAt), time.Now()
	r.mu.Lock()
	kept := r.pods.recall(m, confirmedAt, now, r.config.MaxAge)
	r.readErr = err
	r.mu.Unlock()
	r.take(kept)
}

// take loads the objects in a checkpoint that pods refer to.
func (r *Checkpoint) take(m checkpointData) {
	r.configMaps.Load(byNames(m.ConfigMaps), setOf(m.MissingConfigMaps))
	r.secrets.Load(byNames(m.Secrets), setOf(m.MissingSecrets))
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
	r.services.Load(services, nil)
	r.classes.Load(classes, nil)
	r.tokens.Load(tokens, nil)
}

// data returns the pod checkpoint. Secret values are only in an encrypted file.
func (r *Checkpoint) data(pods []*v1.Pod) checkpointData {
	m, named := checkpointData{Pods: pods}, namedBy(pods)
	configMaps, missing := keep(&r.configMaps, named.configMaps, compareNames)
	m.ConfigMaps, m.MissingConfigMaps = objectsOf(configMaps), missing
	services, _ := keep(&r.services, named.namespaces, strings.Compare)
	for _, s := range services {
		m.Services = append(m.Services, checkpointServices{Namespace: s.key, Services: s.answer})
	}
	classes, _ := keep(&r.classes, named.classes, strings.Compare)
	for _, c := range classes {
		m.RuntimeClasses = append(m.RuntimeClasses, checkpointClass{Name: c.key, Handler: c.answer})
	}
	secrets, missing := keep(&r.secrets, named.secrets, compareNames)
	m.MissingSecrets = missing
	tokens, _ := keep(&r.tokens, named.tokens, compareTokens)
	if r.config.Key == nil {
		return m
	}
	m.Secrets = objectsOf(secrets)
	for _, t := range tokens {
		m.Tokens = append(m.Tokens, checkpointToken{tokenKey: t.key, Token: t.answer})
	}
	return m
}

func (r *Checkpoint) mayHaveChanged() { raise(r.changed) }

// raise sends on a channel unless a message is pending.
func raise(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // a message is pending
	}
}
