package certificates_test

import (
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"

	"github.com/podsync/podsync/modules/cluster/certificates"
)

// A node without a signed certificate serves with a self-signed one.
func ExampleSelfSigned() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	certFile, keyFile, err := certificates.SelfSigned(dir, "edge-7", []net.IP{net.IPv4(192, 0, 2, 7)})
	if err != nil {
		log.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(filepath.Base(certFile), filepath.Base(keyFile))
	fmt.Println("valid for the node:", pair.Leaf.VerifyHostname("edge-7") == nil, pair.Leaf.VerifyHostname("192.0.2.7") == nil)
	// Output:
	// kubelet.crt kubelet.key
	// valid for the node: true true
}
