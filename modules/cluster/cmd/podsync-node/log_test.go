package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode"

	"k8s.io/klog/v2"
)

// hostileText clears a terminal, turns the direction of a text, and forges a line.
const hostileText = "403\x1b[2J\x1b]0;owned\x07\u009b31m\u202ecba\u2066\x7f\r\nI1128 00:00:00.000000       1 forged.go:1] \"All is well\"\n"

// logHostileTexts logs the text of a registry or a container in each place of a line.
func logHostileTexts() {
	log := newLog()
	log.Info(hostileText, "value", hostileText, "list", []string{hostileText}, "map", map[string]string{"a": hostileText}, "err", errors.New(hostileText))
	log.Error(errors.New(hostileText), hostileText, "struct", struct{ text string }{hostileText})
	log.WithValues("registry", hostileText).Info("Image is not pulled")
	klog.Flush()
}

func TestLogOfTheNodeIsHarmless(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	node := exec.CommandContext(t.Context(), self)
	node.Env = append(os.Environ(), "PODSYNC_HOSTILE_LOG=1")
	out, err := node.CombinedOutput()
	text := string(out)
	if err != nil || strings.Count(text, "owned") < 8 {
		t.Errorf("%v, the texts are lost: %q", err, text)
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimLeft(line, "\r"), "I1128 00:00:00.000000") {
			t.Errorf("a forged line: %q", line)
		}
		for _, c := range strings.TrimSuffix(line, "\n") {
			if c != '\t' && (unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c)) {
				t.Fatalf("the log prints %U: %q", c, line)
			}
		}
	}
}
