// Package must fails a test at an error that the test does not expect. The tests of podsync use it, and so may
// programs that test their agents with package critest.
package must

import (
	"context"
	"sync"
)

// TB is what the package needs of a testing.TB. Programs that link package critest do not link package testing.
type TB interface {
	Helper()
	Cleanup(f func())
	Context() context.Context
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// Do ends the test if err is not nil.
func Do(t TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get takes the results of a call. The function that it returns ends the test if err is not nil, and returns v otherwise.
func Get[T any](v T, err error) func(TB) T {
	return func(t TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// Run calls run in a goroutine. Its context ends when stop is called or when the test ends, and both wait until run has
// returned. An error of run fails the test.
func Run(t TB, run func(context.Context) error) (stop func()) {
	t.Helper()
	return Go(t, func(ctx context.Context) {
		if err := run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// Go is Run for a function without an error.
func Go(t TB, run func(context.Context)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run(ctx)
	}()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(stop)
	return stop
}
