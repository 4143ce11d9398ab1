// Package projections provides the certificates of projected volumes from the API server, for the Objects of a
// syncpod.Config: ClusterTrustBundles (KEP-3257) and PodCertificates (KEP-4317). A cluster node imports it if its pods
// mount such certificates.
//
// # ClusterTrustBundles
//
// Projections watches them in the newest version that the API server serves, from the first pod that needs one. A source
// selects a bundle by its name, or all bundles of a signer whose labels match. Its file has the selected bundles'
// certificates, each once, in an order that does not change. If no bundle is selected, the pod waits, or the file is
// empty if the source is optional.
//
// # PodCertificates
//
// For each source Projections makes a private key and creates a PodCertificateRequest for it, in the newest version that
// the API server serves. When the signer has issued the certificate, the source's files have the key and the chain. After
// beginRefreshAt the certificate is renewed with a new key; the pod keeps the old one until then. If the signer denies or
// fails a request, the error has its reason, and there is no further request for the source until the agent restarts.
//
// The key is only in the memory of the agent and in the volume, a tmpfs unless the agent is unprivileged. After an agent
// restart, pods keep the files that they have until a new certificate is issued.
package projections
