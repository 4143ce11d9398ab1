package prometheus_test

import (
	"fmt"
	"log"

	"github.com/podsync/podsync/modules/prometheus"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
)

// Observe registers the metrics as an observer of an agent.
func Example() {
	metrics, err := prometheus.New(prometheus.Config{NodeName: "edge-7"})
	if err != nil {
		log.Fatal(err)
	}
	config := nodeagent.Config{} // with a Client, Sources and a Root
	metrics.Observe(&config)

	fmt.Println("the workers of the agent have an observer:", config.Workers.Observer != nil)
	// Output: the workers of the agent have an observer: true
}
