package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

func main() {
	kind := flag.String("kind", "memory", "topology or memory")
	n := flag.Int("n", 20000, "number of cases")
	seed := flag.Uint64("seed", 1, "seed of the first random machine")
	flag.Parse()
	klog.SetLogger(logr.Discard())
	if err := write(*kind, *n, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "memory:", err)
		os.Exit(1)
	}
}

func write(kind string, n int, seed uint64) error {
	cases := map[string]func(*rand.Rand) (any, error){"topology": topologyCase, "memory": memoryCase}
	record := cases[kind]
	if record == nil {
		return fmt.Errorf("-kind %q is neither topology nor memory", kind)
	}
	out := bufio.NewWriter(os.Stdout)
	lines := json.NewEncoder(out)
	for i := range n {
		recorded, err := record(rand.New(rand.NewPCG(seed, uint64(i))))
		if err != nil {
			return fmt.Errorf("case %d/%d: %w", seed, i, err)
		}
		err = lines.Encode(struct {
			Name string `json:"name"`
			Case any    `json:"case"`
		}{fmt.Sprintf("%d/%d", seed, i), recorded})
		if err != nil {
			return err
		}
	}
	return out.Flush()
}

func oneIn(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }
