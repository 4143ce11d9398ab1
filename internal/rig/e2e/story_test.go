package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A story is a file in which containers write down what happens, one line each.
// Their pods have its directory as the volume "story".
type story struct {
	*node
	dir string
}

func (n *node) story() *story { return &story{n, n.TempDir()} }

func (s *story) volume() string {
	return fmt.Sprintf("{name: story, hostPath: {path: %s}}", s.dir)
}

func (s *story) lines() []string {
	text, err := os.ReadFile(filepath.Join(s.dir, "story"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.Fatal(err)
	}
	return strings.Fields(string(text))
}

// has waits until there are these lines.
func (s *story) has(want ...string) {
	s.Helper()
	s.eventually(func() error {
		if got := s.lines(); !slices.Equal(got, want) {
			return fmt.Errorf("the story goes %q, not %q", got, want)
		}
		return nil
	})
}

// ending is a container that ends when it is told to, after it has written a word
// into the story. It can be told to from when it has written into its log, and made
// a file of that name beside the story.
func ending(word string) string {
	return fmt.Sprintf(`image: localhost/busybox:e2e, volumeMounts: [{name: story, mountPath: /story}],
  command: [sh, -c, "trap 'sleep 0.5; echo %[1]s >> /story/story; exit 0' TERM; echo up; touch /story/%[1]s; while :; do sleep 0.05; done"]`, word)
}

// listening waits until a container can be told to end.
func (p *pod) listening(container string) *runtimeapi.ContainerStatus {
	p.Helper()
	c := p.running(container, 0)
	p.awaitLog(c, 1)
	return c
}
