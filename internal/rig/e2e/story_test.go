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

// A story is a file to which containers write events, one line each. Their pods mount its directory as the volume
// "story".
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

// has waits until the story has these lines.
func (s *story) has(want ...string) {
	s.Helper()
	s.eventually(func() error {
		if got := s.lines(); !slices.Equal(got, want) {
			return fmt.Errorf("the story goes %q, not %q", got, want)
		}
		return nil
	})
}

// ending returns a container that ends on its stop signal, after it has written a word to the story. It is ready for the
// signal when it has written to its log, and created a file of that name next to the story.
func ending(word string) string {
	return fmt.Sprintf(`image: localhost/busybox:e2e, volumeMounts: [{name: story, mountPath: /story}],
  command: [sh, -c, "trap 'sleep 0.5; echo %[1]s >> /story/story; exit 0' TERM; echo up; touch /story/%[1]s; while :; do sleep 0.05; done"]`, word)
}

// listening waits until a container is ready for its stop signal.
func (p *pod) listening(container string) *runtimeapi.ContainerStatus {
	p.Helper()
	c := p.running(container, 0)
	p.awaitLog(c, 1)
	return c
}
