package csi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/backoff"
	"github.com/podsync/podsync/runtime/stats"
	podvolume "github.com/podsync/podsync/syncpod/volume"
)

// A Manager mounts volumes for pods. Its methods may be called concurrently, also before Run, but it calls drivers and
// mounts only during Run.
type Manager struct {
	config Config
	layout layout
	boot   string

	workers sync.WaitGroup

	mu      sync.Mutex
	running context.Context // nil while Run does not run
	volumes map[VolumeID]*entry
	// pods maps the volume names in each pod's spec to volumes.
	pods    map[types.UID]map[string]VolumeID
	drivers map[string]*driver
	// measuring has, by driver, the end of the measurement of volumes that is in progress.
	measuring map[string]chan struct{}
	// unmeasurable has, by driver, the time until which it is not called to measure volumes, because a call timed out.
	unmeasurable map[string]time.Time
	// inStatFS are the local volumes whose file system has not responded yet.
	inStatFS map[VolumeID]bool
	// statfs returns the usage of a file system. Tests replace it.
	statfs  func(path string) (*stats.FS, error)
	retries *backoff.Backoff[retryKey]
}

var _ podvolume.Plugin = (*Manager)(nil)

type retryKey struct {
	volume VolumeID
	StepKey
}

// An entry is a volume that the node has or that a pod wants.
type entry struct {
	record *record
	// working means that a goroutine works on the volume. wake makes it compute the plan again.
	working bool
	wake    chan struct{}
	// changed is closed when a step has ended or is blocked.
	changed chan struct{}
	// notBefore is the time of each failed step's next attempt, failures the last error of each, and tries the
	// number of failures.
	notBefore map[StepKey]time.Time
	failures  map[StepKey]failure
	tries     int
	// attached means that the volume is attached or needs no attachment. notAttached is the reason why it is not
	// attached.
	attached    bool
	notAttached error
	// waits has each pod's blocked step.
	waits map[types.UID]Step
	// republish are the pods for which NodePublishVolume is due again, and republished is the time of its last call.
	republish map[types.UID]bool
	// synced means that the record is on the disk.
	synced bool
	// usage is the volume's last measurement, measured the time of the last attempt, and unmeasured means that it
	// failed.
	usage      *podvolume.Stats
	measured   time.Time
	unmeasured bool
}

// A failure is a step's last failure. try counts the volume's failures until then.
type failure struct {
	err error
	try int
}

func newEntry(r *record) *entry {
	return &entry{
		record: r, wake: make(chan struct{}, 1), changed: make(chan struct{}), notBefore: map[StepKey]time.Time{}, failures: map[StepKey]failure{},
		waits: map[types.UID]Step{}, republish: map[types.UID]bool{},
	}
}

// bind records which volume a volume name of a pod's spec refers to. The caller holds the lock, or has not shared m
// yet.
func (m *Manager) bind(pod types.UID, name string, id VolumeID) {
	if m.pods[pod] == nil {
		m.pods[pod] = map[string]VolumeID{}
	}
	m.pods[pod][name] = id
}

// Run registers drivers and takes the steps that pods need until ctx ends. Calls that are in progress then end with an
// unknown outcome, which is recorded. Volumes stay mounted. Run can be called again after it has returned.
func (m *Manager) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer m.stop()
	defer cancel()
	m.mu.Lock()
	m.running = ctx
	for id := range m.volumes {
		m.enqueue(id)
	}
	m.mu.Unlock()
	for name, conn := range m.config.Drivers {
		m.workers.Go(func() { m.connectConfigured(ctx, name, conn) })
	}
	m.workers.Go(func() { m.republishAll(ctx) })
	return m.register(ctx)
}

// stop waits until all goroutines have returned.
func (m *Manager) stop() {
	m.mu.Lock()
	m.running = nil
	m.mu.Unlock()
	m.workers.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, d := range m.drivers {
		_ = d.close() // the error changes nothing
		delete(m.drivers, name)
	}
}

// Provides reports whether the volume belongs to a claim or a CSI driver.
func (m *Manager) Provides(vol *v1.Volume) bool {
	return vol.PersistentVolumeClaim != nil || vol.Ephemeral != nil || vol.CSI != nil
}

// SetUp mounts a volume for a pod. If the driver is not registered or the volume is not attached, SetUp waits 10 s, and
// then returns an error that says so. A volume that is mounted already stays mounted, even if its claim cannot be read.
func (m *Manager) SetUp(ctx context.Context, pod *v1.Pod, vol *v1.Volume, _ string) error {
	failed := m.setUp(ctx, pod, vol)
	if failed == nil {
		return nil
	}
	failed.Pod = pod.Namespace + "/" + pod.Name
	return failed
}

func (m *Manager) setUp(ctx context.Context, pod *v1.Pod, vol *v1.Volume) *podvolume.Error {
	s, err := m.config.Objects.resolve(ctx, pod, vol)
	if err != nil {
		if m.isMountedFor(pod.UID, vol.Name) {
			return nil
		}
		return failed(vol.Name, "", err)
	}
	if err := checkMode(pod, vol, s); err != nil {
		return failed(s.Name, "", err)
	}
	e, tried, err := m.request(pod, vol, s)
	if err != nil {
		return failed(s.Name, "", err)
	}
	return m.awaitMount(ctx, e, pod.UID, tried)
}

// isMountedFor reports whether a volume is certainly mounted for a pod.
func (m *Manager) isMountedFor(pod types.UID, name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.volumes[m.pods[pod][name]]
	if e == nil || e.record.Pods[pod] == nil {
		return false
	}
	e.verify(m.layout, pod)
	return e.record.Pods[pod].Published == Present
}

// verify marks a mount that was lost, so that the volume is mounted again. Otherwise a container would write to the
// directory below.
func (e *entry) verify(l layout, pod types.UID) {
	u, s := e.record.Pods[pod], e.record.sourceFor(pod)
	if target, err := l.target(pod, s); u.Published == Present && (err != nil || !stillMounted(u.Mounted, target)) {
		u.Published = Uncertain
	}
	if e.record.Staged == Present && !stillMounted(e.record.Mounted, l.staging(s)) {
		e.record.Staged = Uncertain
	}
}

// checkMode returns an error if a block volume is used as a directory, or a file system as a device.
func checkMode(pod *v1.Pod, vol *v1.Volume, s *source) error {
	mounts, devices := usesOf(pod, vol.Name)
	switch {
	case s.Block && mounts:
		return fmt.Errorf("volume %s has volumeMode Block, but is specified in volumeMounts", vol.Name)
	case !s.Block && devices:
		return fmt.Errorf("volume %s has volumeMode Filesystem, but is specified in volumeDevices", vol.Name)
	}
	return nil
}

func usesOf(pod *v1.Pod, name string) (mounts, devices bool) {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			mounts = mounts || slices.ContainsFunc(c.VolumeMounts, func(m v1.VolumeMount) bool { return m.Name == name })
			devices = devices || slices.ContainsFunc(c.VolumeDevices, func(d v1.VolumeDevice) bool { return d.Name == name })
		}
	}
	return mounts, devices
}

// request records that a pod needs a volume, and starts work on it. It returns the number of failures so far.
func (m *Manager) request(pod *v1.Pod, vol *v1.Volume, s *source) (*entry, int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := s.id()
	e := m.volumes[id]
	if e == nil {
		e = newEntry(&record{Boot: m.boot, Source: *s, Pods: map[types.UID]*use{}})
		m.volumes[id] = e
	}
	if u := e.record.Pods[pod.UID]; u != nil && u.Ended {
		return nil, 0, errors.New("the volume is still being unmounted for this pod")
	}
	if err := m.checkTarget(pod.UID, s); err != nil {
		return nil, 0, err
	}
	if err := e.checkPath(pod.UID, s); err != nil {
		delete(e.record.Pods, pod.UID) // the pod must not get the old volume for which it has waited
		m.enqueue(id)
		return nil, 0, err
	}
	if e.record.Pods[pod.UID] == nil {
		e.record.Pods[pod.UID] = &use{}
	}
	u := e.record.Pods[pod.UID]
	u.Pod = podOf(pod)
	u.update(s)
	size := e.record.Source.Size
	e.update(s)
	if e.record.Source.Size != size {
		m.retryExpansion(id, e)
	}
	u.addName(vol.Name)
	m.bind(pod.UID, vol.Name, id)
	e.verify(m.layout, pod.UID)
	m.enqueue(id)
	return e, e.tries, nil
}

// checkTarget returns an error if another volume of the pod has the same mount point: an inline volume may have the
// name of a PersistentVolume. The caller holds the lock.
func (m *Manager) checkTarget(pod types.UID, s *source) error {
	for _, id := range m.pods[pod] {
		if e := m.volumes[id]; e != nil && id != s.id() && e.record.sourceFor(pod).Name == s.Name && e.record.Source.Plugin == s.Plugin {
			return fmt.Errorf("volume %s of the pod has the same name as another one of its volumes", s.Name)
		}
	}
	return nil
}

// awaitMount waits until a volume is mounted for a pod, or until a step fails for the first time since the call.
func (m *Manager) awaitMount(ctx context.Context, e *entry, pod types.UID, tried int) *podvolume.Error {
	timeout := time.NewTicker(waitTimeout)
	defer timeout.Stop()
	for {
		m.mu.Lock()
		u, changed := e.record.Pods[pod], e.changed
		done := u != nil && u.Published == Present
		broken, name := e.failureOf(pod, tried), e.record.sourceFor(pod).Name
		waiting := e.waitingFor(pod)
		m.mu.Unlock()
		switch {
		case done:
			return nil
		case broken != nil:
			return failed(name, broken.operation, broken.err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return failed(name, "", cmpErr(waiting, context.Cause(ctx)))
		case <-timeout.C:
			if waiting != nil {
				return failed(name, "", waiting)
			}
		}
	}
}

func cmpErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// A stepFailure is a failed step on which a pod depends.
type stepFailure struct {
	operation string
	err       error
}

// failureOf returns a failure that affects a pod and is newer than the first `tried` ones. The caller holds the lock.
func (e *entry) failureOf(pod types.UID, tried int) *stepFailure {
	for _, step := range []struct {
		key       StepKey
		operation string
	}{{StepKey{Action: Stage}, "MountVolume.MountDevice"}, {StepKey{Publish, pod}, ""}} {
		if f, ok := e.failures[step.key]; ok && f.try > tried {
			return &stepFailure{step.operation, f.err}
		}
	}
	return nil
}

// waitingFor returns why a pod is blocked, nil if a step is in progress or is retried soon. The caller holds the lock.
func (e *entry) waitingFor(pod types.UID) error {
	wait, ok := e.waits[pod]
	if all, found := e.waits[""]; found {
		wait, ok = all, true
	}
	if !ok {
		return nil
	}
	switch wait.Reason {
	case DriverMissing:
		return fmt.Errorf("kubernetes.io/csi: driver name %s not found in the list of registered CSI drivers", e.record.Source.Driver)
	case NotAttached:
		return e.notAttached
	case UsedByOtherPod:
		return errors.New("volume uses the ReadWriteOncePod access mode and is already in use by another pod")
	}
	return nil
}

// failed adds the volume's name to an error, in the kubelet's words.
func failed(name, operation string, err error) *podvolume.Error {
	return &podvolume.Error{Volume: name, Kind: "persistentVolume", Operation: operation, Err: err}
}

// Locate returns the path where a pod volume is mounted.
func (m *Manager) Locate(pod *v1.Pod, vol *v1.Volume, _ string) (podvolume.Location, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.volumes[m.pods[pod.UID][vol.Name]]
	if e == nil || e.record.Pods[pod.UID] == nil || e.record.Pods[pod.UID].Published != Present {
		return podvolume.Location{}, errors.New("it is not mounted")
	}
	s := e.record.sourceFor(pod.UID)
	path, err := m.layout.target(pod.UID, s)
	readOnly := s.ReadOnly || vol.PersistentVolumeClaim != nil && vol.PersistentVolumeClaim.ReadOnly
	return podvolume.Location{Path: path, Device: s.Block, ReadOnly: readOnly, SELinuxRelabel: s.Plugin != hostPlugin && !readOnly}, err
}

// TearDown unmounts a pod's volumes. It returns nil once none of them can be mounted for the pod any more.
func (m *Manager) TearDown(ctx context.Context, pod types.UID, _ string) error {
	m.mu.Lock()
	var entries []*entry
	for id, e := range m.volumes {
		if u := e.record.Pods[pod]; u != nil {
			u.Ended = true
			e.dropEnded() // a pod that only waited for the volume need not wait until steps for other pods have ended
			m.enqueue(id)
			entries = append(entries, e)
		}
	}
	m.mu.Unlock()
	var errs []error
	for _, e := range entries {
		errs = append(errs, m.awaitUnmount(ctx, e, pod))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	m.mu.Lock()
	delete(m.pods, pod)
	m.mu.Unlock()
	return nil
}

// awaitUnmount waits until a volume is certainly not mounted for a pod.
func (m *Manager) awaitUnmount(ctx context.Context, e *entry, pod types.UID) error {
	m.mu.Lock()
	tried := e.tries
	m.mu.Unlock()
	timeout := time.NewTicker(waitTimeout)
	defer timeout.Stop()
	for {
		m.mu.Lock()
		_, there := e.record.Pods[pod]
		changed, name := e.changed, e.record.sourceFor(pod).Name
		failed, waiting := e.failures[StepKey{Unpublish, pod}], e.waitingFor(pod)
		m.mu.Unlock()
		switch {
		case !there:
			return nil
		case failed.err != nil && failed.try > tried:
			return fmt.Errorf("UnmountVolume.TearDown failed for volume %q: %w", name, failed.err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("UnmountVolume.TearDown failed for volume %q: %w", name, cmpErr(waiting, context.Cause(ctx)))
		case <-timeout.C:
			if waiting != nil {
				return fmt.Errorf("UnmountVolume.TearDown failed for volume %q: %w", name, waiting)
			}
		}
	}
}

// InUse returns the volumes that may be mounted on the node or that a pod wants, sorted, in the form of
// node.status.volumesInUse.
func (m *Manager) InUse() []VolumeID {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ids []VolumeID
	for id, e := range m.volumes {
		if e.record.Source.Plugin == csiPlugin && !e.record.Source.Ephemeral && !e.record.empty() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Plan returns the steps that are due now.
func (m *Manager) Plan() Plan {
	m.mu.Lock()
	defer m.mu.Unlock()
	state, desired := State{}, Desired{}
	for _, id := range slices.Sorted(maps.Keys(m.volumes)) {
		state[id], desired[id] = m.facts(m.volumes[id])
	}
	return Decide(time.Now(), state, desired)
}
