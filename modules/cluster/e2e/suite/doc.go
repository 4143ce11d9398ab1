// Package suite says, by its go.mod, of what the control plane and the tests are built that
// suite.sh runs: those of one Kubernetes release, from the module proxy. short.txt has the
// tests that are run for each change.
package suite
