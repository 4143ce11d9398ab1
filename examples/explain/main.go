// Command explain prints what podsync would do with a pod in several states, and the reasons. It changes nothing: it
// derives the states from the manifest.
//
//	go run ./examples/explain                  # a sample pod
//	go run ./examples/explain -f pod.yaml      # your pod
//	go run ./examples/explain -state crashed   # one state only
package main

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/podsync/podsync/actions"
)

//go:embed pod.yaml
var sample []byte

func main() {
	file := flag.String("f", "", "pod manifest to read, YAML or JSON (default a sample pod)")
	only := flag.String("state", "", "the only state to show, one of "+strings.Join(stateNames(), ", ")+" (default all)")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "explain: unexpected argument %q: pass the manifest with -f\n", flag.Arg(0))
		os.Exit(2)
	}
	if err := run(os.Stdout, *file, *only); err != nil {
		fmt.Fprintln(os.Stderr, "explain:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, file, only string) error {
	if only != "" && !slices.Contains(stateNames(), only) {
		return fmt.Errorf("state %q is not one of %s", only, strings.Join(stateNames(), ", "))
	}
	pod, err := readPod(file)
	if err != nil {
		return err
	}
	for _, s := range states {
		if only == "" || only == s.name {
			explain(out, s, s.input(pod))
		}
	}
	return nil
}

func readPod(file string) (*v1.Pod, error) {
	manifest := sample
	if file != "" {
		var err error
		if manifest, err = os.ReadFile(file); err != nil {
			return nil, err
		}
	}
	pod := &v1.Pod{}
	if err := yaml.UnmarshalStrict(manifest, pod); err != nil {
		return nil, fmt.Errorf("%s: not a pod manifest: %w", file, err)
	}
	if pod.Kind != "Pod" || len(pod.Spec.Containers) == 0 {
		return nil, errors.New(file + ": want kind Pod with at least one container")
	}
	return pod, actions.Input{Pod: pod}.Validate()
}

// explain prints the plan for the pod, and the reason for each container.
func explain(out io.Writer, s state, in actions.Input) {
	fmt.Fprintf(out, "== %s: %s\n\n%s\n\n", s.name, s.story, indent(actions.Compute(in).String()))
	for _, name := range containerNames(in.Pod) {
		fmt.Fprintln(out, indent(actions.Explain(in, name)))
	}
	fmt.Fprintln(out)
}

func indent(text string) string {
	return "   " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n   ")
}

func containerNames(pod *v1.Pod) []string {
	var names []string
	for _, c := range pod.Spec.InitContainers {
		names = append(names, c.Name)
	}
	for _, c := range pod.Spec.Containers {
		names = append(names, c.Name)
	}
	return names
}
