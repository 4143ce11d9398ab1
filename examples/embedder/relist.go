package embedder

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/pleg"
	"github.com/podsync/podsync/runtime/reader"
)

// A Watcher is a source of statuses for podworkers.
var _ podworkers.StatusSource = (*pleg.Watcher)(nil)

// Relist returns a PLEG that reports each pod whose status has changed. Its Run lists, and its GetNewerThan waits for a status.
func Relist(r *reader.Reader, changed func(types.UID, *runtime.PodStatus)) (*pleg.Watcher, error) {
	return pleg.New(pleg.Config{Reader: r, Changed: changed})
}
