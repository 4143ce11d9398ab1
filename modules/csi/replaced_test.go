package csi

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// V14: a volume that may be mounted keeps its path and its mode, and no pod waits for a volume whose PersistentVolume was
// replaced: it gets the new one.
func TestV14_ReplacedWhileAPodWaits(t *testing.T) {
	for name, replaced := range map[string]source{
		"path": {Plugin: localPlugin, Name: "disk-1", Path: "/new"},
		"mode": {Plugin: localPlugin, Name: "disk-1", Path: "/old", Block: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := must.Get(New(Config{Root: t.TempDir(), Objects: Static(nil, nil)}))(t)
			old := source{Plugin: localPlugin, Name: "disk-1", Path: "/old"}
			e := newEntry(&record{Source: old, Staged: Uncertain, Pods: map[types.UID]*use{"has": {Published: Present}, "waits": {}}})
			m.volumes[old.id()] = e
			request := func(uid types.UID) error {
				_, _, err := m.request(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}}, &v1.Volume{Name: "data"}, &replaced)
				return err
			}
			if err := request("waits"); err == nil || e.record.Pods["waits"] != nil {
				t.Errorf("a pod that waits: error %v, uses %v, want an error and no use", err, e.record.Pods)
			}
			if err := request("has"); err != nil || e.record.Source.Path != old.Path || e.record.Source.Block {
				t.Errorf("a pod that has the volume: error %v, source %+v, want the old one", err, e.record.Source)
			}
			delete(e.record.Pods, "has")
			e.record.Staged = Absent
			if err := request("waits"); err != nil || e.record.Source.Path != replaced.Path || e.record.Source.Block != replaced.Block {
				t.Errorf("after the unmount: error %v, source %+v, want the new one", err, e.record.Source)
			}
		})
	}
}
