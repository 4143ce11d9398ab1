// Package projections provides the certificates of projected volumes from the API server, for the Objects of a
// syncpod.Config: ClusterTrustBundles (KEP-3257).
//
// # ClusterTrustBundles
//
// Projections watches them in the newest version that the API server serves, from the first pod that needs one. A source
// selects a bundle by its name, or all bundles of a signer whose labels match. Its file has the certificates of the
// selected bundles, each once, in an order that does not change. If no bundle is selected, the pod waits, or the file is
// empty if the source is optional.
package projections
