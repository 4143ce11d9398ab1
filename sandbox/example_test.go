package sandbox_test

import (
	"fmt"

	"github.com/podsync/podsync/sandbox"
)

// Pods with the policy ClusterFirst use the cluster's DNS service, other pods what the node uses.
func ExampleParseResolvConf() {
	node := sandbox.ParseResolvConf("nameserver 192.0.2.1\nsearch example.org.\noptions ndots:2\n")
	node.ClusterServers, node.ClusterDomain = []string{"10.96.0.10"}, "cluster.local"
	fmt.Println(node.Servers, node.Searches, node.Options)
	// Output: [192.0.2.1] [example.org] [ndots:2]
}
