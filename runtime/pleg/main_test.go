package pleg

import (
	"os"
	"runtime/debug"
	"testing"
)

// The tests leave much garbage and keep little, so a third of their CPU time was its collection.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
