package systemd_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/podsync/podsync/modules/systemd"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/cgroup"
)

func on(t *testing.T, b *bus, v cgroup.Version) *systemd.Systemd {
	t.Helper()
	s := must.Get(systemd.New(systemd.Config{Address: b.address(), Version: v}))(t)
	t.Cleanup(s.Close)
	return s
}

const pod = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice"

// SetSlice starts a slice with its properties, and changes a slice that exists.
func TestSlice(t *testing.T) {
	r := cgroup.Resources{
		CPUShares: 1024, CPUQuota: new(int64(15_000)), CPUPeriod: new(int64(100_000)), Memory: new(int64(1 << 30)), PIDs: new(int64(100)),
		Unified: map[string]string{"memory.min": "4096", "memory.low": "8192"}, HugePages: map[int64]int64{2 << 20: 0},
	}
	for v, want := range map[cgroup.Version]map[string]uint64{
		cgroup.V1: {"CPUShares": 1024, "CPUQuotaPerSecUSec": 150_000, "CPUQuotaPeriodUSec": 100_000, "MemoryLimit": 1 << 30, "TasksMax": 100},
		cgroup.V2: {"CPUWeight": 39, "CPUQuotaPerSecUSec": 150_000, "CPUQuotaPeriodUSec": 100_000, "MemoryMax": 1 << 30, "TasksMax": 100, "MemoryMin": 4096, "MemoryLow": 8192},
	} {
		b := newBus(t)
		s := on(t, b, v)
		must.Do(t, s.SetSlice(t.Context(), pod, r))
		unit := b.units["kubepods-burstable-pod1_2.slice"]
		for name, value := range want {
			if unit[name] != value {
				t.Errorf("version %d: %s is %v, want %d", v, name, unit[name], value)
			}
		}
		if _, other := unit[map[cgroup.Version]string{cgroup.V1: "CPUWeight", cgroup.V2: "CPUShares"}[v]]; other {
			t.Errorf("version %d: %v has properties of the other version", v, unit)
		}
		wants, _ := unit["Wants"].([]string)
		if unit["DefaultDependencies"] != false || unit["MemoryAccounting"] != true || len(wants) != 1 || wants[0] != "kubepods-burstable.slice" {
			t.Errorf("version %d: %v", v, unit)
		}
		r := r
		r.Memory, r.PIDs, r.CPUQuota = nil, nil, nil
		must.Do(t, s.SetSlice(t.Context(), pod, r))
		for _, name := range []string{map[cgroup.Version]string{cgroup.V1: "MemoryLimit", cgroup.V2: "MemoryMax"}[v], "TasksMax", "CPUQuotaPerSecUSec"} {
			if unit[name] != uint64(1<<64-1) {
				t.Errorf("version %d: %s is %v, want no limit", v, name, unit[name])
			}
		}
		if calls := b.called("SetUnitProperties"); len(calls) != 1 || !strings.HasPrefix(calls[0], "SetUnitProperties kubepods-burstable-pod1_2.slice true ") {
			t.Errorf("version %d: %q, want one change that a restart of the machine forgets", v, calls)
		}
	}
}

// If the bus does not answer while the agent connects, the call ends at its deadline, and later calls are not blocked.
func TestSilentBus(t *testing.T) {
	b := newBus(t)
	b.silent = "AddMatch"
	s := on(t, b, cgroup.V2)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.SetSlice(ctx, pod, cgroup.Resources{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without an answer: %v", err)
	}
	b.mu.Lock()
	b.silent = ""
	b.mu.Unlock()
	must.Do(t, s.SetSlice(t.Context(), pod, cgroup.Resources{}))
}

// A slice above the slices of pods keeps the properties that an administrator has set.
func TestSliceAboveKeepsItsProperties(t *testing.T) {
	b := newBus(t)
	b.units["edge.slice"] = map[string]any{"MemoryMax": uint64(7)}
	must.Do(t, on(t, b, cgroup.V2).SetSlice(t.Context(), "/edge.slice", cgroup.Resources{}))
	if b.units["edge.slice"]["MemoryMax"] != uint64(7) {
		t.Errorf("the slice is %v", b.units["edge.slice"])
	}
}

// LimitSlice sets the limits that it has, and keeps all other properties.
func TestLimitSlice(t *testing.T) {
	b := newBus(t)
	b.units["system.slice"] = map[string]any{"MemoryMax": uint64(7), "TasksMax": uint64(8), "CPUQuotaPerSecUSec": uint64(9)}
	if err := on(t, b, cgroup.V2).LimitSlice(t.Context(), "/system.slice", cgroup.Resources{CPUShares: 1024, PIDs: new(int64(100))}); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"MemoryMax": uint64(7), "TasksMax": uint64(100), "CPUQuotaPerSecUSec": uint64(9), "CPUWeight": uint64(39)}
	if got := b.units["system.slice"]; !reflect.DeepEqual(got, want) {
		t.Errorf("the slice is %v, want %v", got, want)
	}
	if calls := b.called("StartTransientUnit"); len(calls) > 0 {
		t.Errorf("a slice was started: %q", calls)
	}
}

func TestRemovedSlice(t *testing.T) {
	b := newBus(t)
	s := on(t, b, cgroup.V2)
	must.Do(t, s.SetSlice(t.Context(), pod, cgroup.Resources{CPUShares: 2}))
	for range 2 { // a slice that does not exist counts as stopped
		if err := s.RemoveSlice(t.Context(), pod); err != nil {
			t.Error(err)
		}
	}
	if len(b.units) > 0 || len(b.called("ResetFailedUnit")) != 2 {
		t.Errorf("%v, %q", b.units, b.calls)
	}
}

// Jobs that fail or hang, and cgroups that are no slices, are errors.
func TestSliceErrors(t *testing.T) {
	b := newBus(t)
	b.results = []string{"failed"}
	s := on(t, b, cgroup.V2)
	if err := s.SetSlice(t.Context(), pod, cgroup.Resources{}); err == nil || !strings.Contains(err.Error(), `"failed"`) {
		t.Errorf("a job that fails: %v", err)
	}
	for _, at := range []string{"/kubepods/pod1", "kubepods.slice", "/kubepods.slice/cri-1.scope", ""} {
		if err := s.SetSlice(t.Context(), at, cgroup.Resources{}); err == nil {
			t.Errorf("%q is taken for a slice", at)
		}
	}
	if err := s.SetSlice(t.Context(), pod, cgroup.Resources{Unified: map[string]string{"memory.high": "1"}}); err == nil || !strings.Contains(err.Error(), "memory.high") {
		t.Errorf("a file without a property: %v", err)
	}
	b.mu.Lock()
	b.silent = "StopUnit"
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.RemoveSlice(ctx, pod); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call without an answer: %v", err)
	}
}

// After a bus restart, the next call connects again.
func TestBusRestarts(t *testing.T) {
	b := newBus(t)
	s := on(t, b, cgroup.V2)
	must.Do(t, s.SetSlice(t.Context(), pod, cgroup.Resources{CPUShares: 2}))
	b.drop()
	var err error
	for range 1000 { // until the client has noticed the restart
		if err = s.SetSlice(t.Context(), pod, cgroup.Resources{CPUShares: 3}); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err != nil || b.units["kubepods-burstable-pod1_2.slice"]["CPUWeight"] == nil {
		t.Errorf("%v, %v", err, b.units)
	}
	s.Close()
	b.listener.Close()
	if err := s.SetSlice(t.Context(), pod, cgroup.Resources{}); err == nil || !strings.Contains(err.Error(), "D-Bus") {
		t.Errorf("without a bus: %v", err)
	}
}

// delayed runs DelayShutdown with a Stop that reports its call on stopping and then waits for release.
func delayed(t *testing.T, b *bus, conf string) (stopping, release chan struct{}, ended chan error, cancel func()) {
	t.Helper()
	stopping, release, ended = make(chan struct{}), make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		ended <- on(t, b, cgroup.V2).DelayShutdown(ctx, systemd.Delay{Period: 40 * time.Second, Conf: conf, Stop: func(context.Context) {
			close(stopping)
			<-release
		}})
	}()
	return stopping, release, ended, cancel
}

// released waits until a lock is released.
func released(t *testing.T, lock *os.File) {
	t.Helper()
	must.Get(io.ReadAll(lock))(t)
	lock.Close()
}

// held reports whether a lock is still held.
func held(lock *os.File) bool {
	_ = lock.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	_, err := lock.Read(make([]byte, 1))
	_ = lock.SetReadDeadline(time.Time{})
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// A shutdown waits until the pods have stopped. DelayShutdown raises logind's limit to the time that they need.
func TestShutdownIsDelayed(t *testing.T) {
	b, conf := newBus(t), filepath.Join(t.TempDir(), "logind.conf.d", "99-test.conf")
	b.onHangup = func() uint64 {
		if text, err := os.ReadFile(conf); err != nil || !strings.Contains(string(text), "[Login]\nInhibitDelayMaxSec=40\n") {
			t.Errorf("%s has %q, %v", conf, text, err)
		}
		return 40_000_000
	}
	stopping, release, ended, cancel := delayed(t, b, conf)
	lock := <-b.locks
	if calls := b.called("Inhibit"); len(calls) != 1 || calls[0] != "Inhibit shutdown podsync Pods need time to stop delay" {
		t.Errorf("%q", calls)
	}
	b.shutdown(true)
	<-stopping
	if !held(lock) {
		t.Error("the shutdown goes on while the pods stop")
	}
	close(release)
	released(t, lock)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// If a shutdown is cancelled after the pods have stopped, DelayShutdown returns ErrCancelled. It ignores the cancellation
// of a shutdown that has not begun.
func TestShutdownIsCancelled(t *testing.T) {
	b := newBus(t)
	b.delayMax = 60_000_000
	stopping, release, ended, _ := delayed(t, b, "")
	<-b.locks
	b.shutdown(false)
	b.shutdown(true)
	<-stopping
	close(release)
	b.shutdown(false)
	if err := <-ended; !errors.Is(err, systemd.ErrCancelled) {
		t.Errorf("%v, want %v", err, systemd.ErrCancelled)
	}
	if len(b.called("KillUnit")) > 0 {
		t.Error("logind was reloaded, and its limit was high enough")
	}
}

// Any user of the bus may send signals to the agent: only those of logind count, also after logind has restarted, or has been started
// by the agent's first call.
func TestForgedShutdownIsIgnored(t *testing.T) {
	for _, first := range []string{":1.logind", ""} {
		b := newBus(t)
		b.delayMax, b.logind = 60_000_000, first
		stopping, release, ended, cancel := delayed(t, b, "")
		lock := <-b.locks
		wantIgnored := func(what string) {
			t.Helper()
			select {
			case <-stopping:
				t.Fatalf("the pods are stopped for %s", what)
			case <-time.After(50 * time.Millisecond):
			}
		}
		for range 100 {
			b.shutdownFrom(":1.99", true)
		}
		wantIgnored("a signal of another process")
		b.restartLogind(":1.99", ":1.99")
		b.shutdownFrom(":1.99", true)
		wantIgnored("a process that says that it is logind")
		b.restartLogind("org.freedesktop.DBus", ":1.restarted")
		if first != "" {
			b.shutdownFrom(first, true)
			wantIgnored("a signal of an earlier logind")
		}
		b.shutdown(true)
		<-stopping
		close(release)
		released(t, lock)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// A process that announces the success of a job is not systemd: the job counts as systemd announces it.
func TestForgedResultOfAJobIsIgnored(t *testing.T) {
	b := newBus(t)
	b.results, b.forgesJobs = []string{"failed"}, true
	if err := on(t, b, cgroup.V2).SetSlice(t.Context(), pod, cgroup.Resources{}); err == nil || !strings.Contains(err.Error(), `"failed"`) {
		t.Errorf("a job that fails: %v", err)
	}
}

// After a bus restart DelayShutdown takes the lock again.
func TestLockOutlivesTheBus(t *testing.T) {
	b := newBus(t)
	b.delayMax = 60_000_000
	_, _, ended, cancel := delayed(t, b, "")
	first := <-b.locks
	b.drop()
	released(t, first)
	second := <-b.locks
	cancel()
	released(t, second)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// If logind's limit stays too low, DelayShutdown returns an error: the shutdown would kill pods that are still stopping.
func TestLimitOfLogindStaysLow(t *testing.T) {
	b := newBus(t)
	_, _, ended, _ := delayed(t, b, filepath.Join(t.TempDir(), "99.conf"))
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "InhibitDelayMaxSec") || !strings.Contains(err.Error(), "40s") {
		t.Errorf("%v, want an error that names the limit", err)
	}
}

func TestConfigIsValidated(t *testing.T) {
	for want, c := range map[string]systemd.Config{"Version": {Version: 3}, "Timeout": {Timeout: -1}} {
		if _, err := systemd.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	s := must.Get(systemd.New(systemd.Config{}))(t)
	for want, d := range map[string]systemd.Delay{"Period": {Stop: func(context.Context) {}}, "Stop": {Period: time.Second}} {
		if err := s.DelayShutdown(t.Context(), d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", d, err)
		}
	}
}
