package otel_test

import (
	"context"
	"fmt"
	"log"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/podsync/podsync/modules/otel"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
)

// Trace makes an agent trace the syncs of its pods. DialOptions trace the calls to the runtime.
func Example() {
	provider := sdk.NewTracerProvider() // with an exporter of your choice
	defer func() { _ = provider.Shutdown(context.Background()) }()
	tracing, err := otel.New(otel.Config{TracerProvider: provider})
	if err != nil {
		log.Fatal(err)
	}
	config := nodeagent.Config{} // with a Client that is dialed with tracing.DialOptions(), Sources and a Root
	if err := tracing.Trace(&config); err != nil {
		log.Fatal(err)
	}

	fmt.Println("the agent traces its syncs:", config.Workers.Trace != nil)
	// Output: the agent traces its syncs: true
}
