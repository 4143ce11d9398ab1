package env_test

import (
	"fmt"

	"github.com/podsync/podsync/syncpod/container/env"
)

// References in a command are replaced, $$ is a dollar sign, and an unknown reference stays.
func ExampleExpand() {
	lookup := env.Lookup([]env.Var{{Name: "PORT", Value: "8080"}})
	text, ok := env.Expand("--listen=:$(PORT) --cost=$$5 $(HOME)", env.MaxString, lookup)
	fmt.Println(text, ok)
	// Output: --listen=:8080 --cost=$5 $(HOME) true
}
