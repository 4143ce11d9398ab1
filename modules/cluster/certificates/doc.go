// Package certificates gets the certificates of a node: that by which the API server knows
// it, and that of the node's own server.
//
// A [Client] is the node's way to the API server. It takes what a kubeconfig has; with
// rotation its client certificate is asked for anew before it expires, and used at once.
// A node that has no kubeconfig yet, or one whose certificate has expired, asks for its
// first certificate with the credentials of another kubeconfig, such as a bootstrap token,
// and writes the kubeconfig when it has it. A [Serving] is the same for the certificate of
// the server, which somebody has to approve. Both are asked for by a
// CertificateSigningRequest of the signers kubernetes.io/kube-apiserver-client-kubelet and
// kubernetes.io/kubelet-serving, by package certificate of client-go. Keys never leave the
// node, and are in files that nobody else may read.
//
//	client.go      Client: which credentials count, and their rotation
//	transport.go   connections that show the newest certificate
//	kubeconfig.go  kubeconfigs: what they have, and the one that is written
//	serving.go     Serving, and a certificate that nobody has signed
package certificates
