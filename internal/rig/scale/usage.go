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

// watch starts the measurement of a part of the agent's run. end returns the duration, and
// the CPU time of this process during it.
func (a *agent) watch(part string) (end func() (took, used time.Duration, err error), err error) {
	profile, err := a.create(fmt.Sprintf("%s-%d.cpu", part, a.Pods))
	if err != nil {
		return nil, err
	}
	if profile != nil {
		if err := pprof.StartCPUProfile(profile); err != nil {
			return nil, errors.Join(err, profile.Close())
		}
	}
	before, err := cpu()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	return func() (took, used time.Duration, err error) {
		took = time.Since(began)
		after, err := cpu()
		if profile != nil {
			pprof.StopCPUProfile()
			err = errors.Join(err, profile.Close())
		}
		return took, after - before, err
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
