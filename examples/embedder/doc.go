// Package embedder is the module of an author who has their own agent and takes single parts of podsync. It lies outside of
// podsync's module, so it compiles with public packages only. Each file is one task, with the code that an embedder writes for
// it; the tests run it on a runtime in memory, with generated CRI clients.
package embedder
