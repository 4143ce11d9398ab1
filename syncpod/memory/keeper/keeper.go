package keeper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/podfile"
	"github.com/podsync/podsync/syncpod/memory"
	"github.com/podsync/podsync/syncpod/status"
)

// Config configures a Keeper.
type Config struct {
	// Dir is the directory of the records, a file <UID>.json for each pod. It is created with the first record. Default:
	// nothing outlives the agent.
	Dir string
	// Limits are the lengths of back-offs. Default: those of package backoff.
	Limits memory.Limits
	// Log receives a line for each record that cannot be read or written. Default: no log.
	Log logr.Logger
}

// A Keeper has each pod's memory until it is forgotten. Create it with New.
type Keeper struct {
	config Config
	mu     sync.Mutex
	pods   map[types.UID]*Pod
}

// New returns a Keeper. It reads nothing.
func New(c Config) (*Keeper, error) {
	if err := c.Limits.Check(); err != nil {
		return nil, fmt.Errorf("keeper: Config.Limits: %w", err)
	}
	return &Keeper{config: c, pods: map[types.UID]*Pod{}}, nil
}

// Pod returns a pod's memory. The first call reads its record.
func (k *Keeper) Pod(uid types.UID) *Pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.pods[uid]
	if p == nil {
		p = &Pod{
			keeper: k, uid: uid, problems: map[string]status.Problem{},
			memory: memory.New(&k.config.Limits), failures: memory.NewFailures[status.Problem](&k.config.Limits),
		}
		p.load()
		k.pods[uid] = p
	}
	return p
}

// Pods returns the pods that are remembered or have a record, sorted. With an error it returns those that it has found.
func (k *Keeper) Pods() ([]types.UID, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []types.UID
	var err error
	if k.config.Dir != "" {
		all, err = podfile.Dir(k.config.Dir).List()
	}
	for uid := range k.pods {
		all = append(all, uid)
	}
	slices.Sort(all)
	return slices.Compact(all), err
}

// Forget drops the memory of a pod and its record. After an error it may be called again. Nothing may work on the pod.
func (k *Keeper) Forget(uid types.UID) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.pods[uid]; p != nil {
		p.saving.Lock()
		p.Do((*memory.Pod).Close)
		p.saving.Unlock()
		delete(k.pods, uid)
	}
	if k.config.Dir == "" {
		return nil
	}
	return podfile.Dir(k.config.Dir).Remove(uid)
}

// load adds the record to the memory. A record that cannot be read is logged: the next one replaces it.
func (p *Pod) load() {
	var r memory.Record
	if p.keeper.config.Dir != "" {
		text, err := podfile.Dir(p.keeper.config.Dir).Read(p.uid)
		if err == nil {
			err = r.UnmarshalJSON(text)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			p.keeper.config.Log.Error(err, "the record of a pod is lost", "podUID", p.uid)
			r = memory.Record{}
		}
	}
	p.memory.Restore(r)
}

// Record persists what has changed for the next agent. A failure is logged, and the next call tries again.
func (p *Pod) Record(context.Context) {
	if p.keeper.config.Dir == "" {
		return
	}
	p.saving.Lock() // an older record must not replace a newer one
	defer p.saving.Unlock()
	var snapshot memory.Snapshot
	var changed bool
	if p.Do(func(m *memory.Pod) { snapshot, changed = m.Snapshot() }); !changed {
		return
	}
	text, err := snapshot.Record().MarshalJSON()
	if err == nil {
		err = podfile.Dir(p.keeper.config.Dir).Replace(p.uid, text, false)
	}
	if err != nil {
		p.keeper.config.Log.Error(err, "the record of a pod was not kept", "podUID", p.uid)
		return
	}
	p.Do(func(m *memory.Pod) { m.Saved(snapshot) })
}
