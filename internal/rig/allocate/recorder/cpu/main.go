package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
)

// limit is far more than a decision takes.
const limit = 20 * time.Second

func main() {
	n := flag.Int("n", 20000, "number of machines")
	seed := flag.Uint64("seed", 1, "seed of the first random machine")
	from := flag.Int("from", 0, "index of the first machine")
	flag.Parse()
	klog.SetLogger(logr.Discard())
	if err := write(*from, *n, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "cpu:", err)
		os.Exit(1)
	}
}

func write(from, n int, seed uint64) error {
	if err := utilfeature.DefaultMutableFeatureGate.Set("CPUManagerPolicyAlphaOptions=true"); err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	lines := json.NewEncoder(out)
	for i := from; i < n; i++ {
		type answer struct {
			life
			error
		}
		done := make(chan answer, 1)
		go func() {
			recorded, err := record(rand.New(rand.NewPCG(seed, uint64(i))))
			done <- answer{recorded, err}
		}()
		var recorded life
		select {
		case a := <-done:
			if a.error != nil {
				return fmt.Errorf("case %d/%d: %w", seed, i, a.error)
			}
			recorded = a.life
		case <-time.After(limit):
			// The kubelet's loop cannot be stopped; the rest is recorded by a new process.
			fmt.Fprintf(os.Stderr, "cpu: case %d/%d: the CPU manager does not return\n", seed, i)
			if err := out.Flush(); err != nil {
				return err
			}
			self, err := os.Executable()
			if err != nil {
				return err
			}
			args := []string{self, "-n", fmt.Sprint(n), "-seed", fmt.Sprint(seed), "-from", fmt.Sprint(i + 1)}
			return syscall.Exec(self, args, os.Environ())
		}
		if err := lines.Encode(struct {
			Name string `json:"name"`
			Case life   `json:"case"`
		}{fmt.Sprintf("%d/%d", seed, i), recorded}); err != nil {
			return err
		}
	}
	return out.Flush()
}

func oneIn(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }
