// Package clientlog silences client-go in tests.
package clientlog

import (
	"testing"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// Run runs a package's tests, for its TestMain, and suppresses client-go's log about unavailable servers. It also
// removes client-go's error handlers: they space errors by the time of the last one in the whole process, so that an
// informer in a bubble sleeps for 26 years after an error outside of the bubble.
func Run(m *testing.M) int {
	klog.SetLogger(logr.Discard())
	utilruntime.ErrorHandlers = nil
	return m.Run()
}
