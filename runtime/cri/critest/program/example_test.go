package program_test

import (
	"context"
	"fmt"
	"log"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/program"
)

// A program that a container runs as the command "greet NAME".
func Example() {
	greet := func(_ context.Context, c *program.Command) int {
		fmt.Fprintf(c.Stdout, "hello, %s\n", c.Args[1])
		return 0
	}
	rt, err := critest.New(critest.Config{Programs: map[string]critest.Program{"greet": greet}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(rt.Close())
	// Output: <nil>
}
