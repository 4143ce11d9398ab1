// Package suite pins, in its go.mod, the Kubernetes release whose control plane and tests suite.sh builds from the module
// proxy. short.txt lists the tests that run for each change.
package suite
