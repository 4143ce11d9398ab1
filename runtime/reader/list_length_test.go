package reader_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/podsync/podsync/internal/rig/testnode"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
)

// A list that is too long for a message is an error that names the limit. It is not treated as a node without pods.
func TestListLongerThanAMessage(t *testing.T) {
	n := testnode.New(t, critest.Config{})
	n.RunPod("u1", strings.Split("abcdefghij", "")...)
	n.Dial(cri.Config{MaxMessageBytes: 1000})
	pods, err := n.Reader().List(t.Context())
	if !errors.Is(err, cri.ErrExhausted) || !strings.Contains(err.Error(), "list of containers") || !strings.Contains(err.Error(), "Config.MaxMessageBytes") {
		t.Errorf("listed %d pods, %v", len(pods), err)
	}
}
