package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"runtime/pprof"
	"time"
)

// work is what this process has done in a time.
type work struct {
	CPU time.Duration // user and system
	// Reads and Writes are system calls, WakeUps are threads that slept and ran again, and Allocations objects of the heap.
	Reads, Writes, WakeUps, Allocations int64
}

func (w work) since(before work) work {
	return work{w.CPU - before.CPU, w.Reads - before.Reads, w.Writes - before.Writes, w.WakeUps - before.WakeUps, w.Allocations - before.Allocations}
}

// watch starts the measurement of a part of the agent's run. end returns the duration, and the work of this process during
// it.
func (a *agent) watch(part string) (end func() (took time.Duration, used work, err error), err error) {
	profile, err := a.create(fmt.Sprintf("%s-%d.cpu", part, a.Pods))
	if err != nil {
		return nil, err
	}
	if profile != nil {
		if err := pprof.StartCPUProfile(profile); err != nil {
			return nil, errors.Join(err, profile.Close())
		}
	}
	before, err := done()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	return func() (took time.Duration, used work, err error) {
		took = time.Since(began)
		after, err := done()
		if profile != nil {
			pprof.StopCPUProfile()
			err = errors.Join(err, profile.Close())
		}
		return took, after.since(before), err
	}, nil
}

// create makes a file for a profile, nil if none is wanted.
func (a *agent) create(name string) (*os.File, error) {
	if a.Profile == "" {
		return nil, nil
	}
	return os.Create(filepath.Join(a.Profile, name))
}

// saveHeap writes a heap profile.
func (a *agent) saveHeap() error {
	file, err := a.create(fmt.Sprintf("idle-%d.heap", a.Pods))
	if file == nil {
		return err
	}
	goruntime.GC()
	return errors.Join(pprof.WriteHeapProfile(file), file.Close())
}

// heap returns the size of the heap after a collection, in bytes.
func heap() int64 {
	goruntime.GC()
	goruntime.GC() // objects with finalizers, and in pools, are freed by the second collection
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
