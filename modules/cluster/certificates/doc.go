// Package certificates obtains a node's certificates: its client certificate for the API server, and the certificate
// of the node's own server. A program that joins a cluster imports it, instead of writing the requests and renewals
// itself.
//
// A [Client] uses a kubeconfig's credentials; with rotation it renews its client certificate
// before it expires, and uses the new one immediately. A node without a kubeconfig, or with an
// expired certificate, requests its first certificate with another kubeconfig's credentials, such
// as a bootstrap token, and then writes the kubeconfig. A [Serving] does the same for the
// server's certificate, which must be approved by an operator or a controller. Both create
// CertificateSigningRequests, for the signers kubernetes.io/kube-apiserver-client-kubelet and
// kubernetes.io/kubelet-serving, with client-go's package certificate. Keys never leave the node,
// and are in files that only the agent's user can read.
package certificates

// The files:
//
//	client.go      Client: which credentials are used, and their rotation
//	transport.go   connections that present the newest certificate
//	kubeconfig.go  reads and writes kubeconfigs
//	serving.go     Serving, and self-signed certificates
