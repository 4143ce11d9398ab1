package critest

import (
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/internal/streams"
)

// A typed is a text that is typed, and the output that the client then reads.
type typed struct{ keys, want string }

// types types keys, and expects the output before any time passes.
func (c caller) types(all ...typed) {
	c.Helper()
	for _, tt := range all {
		c.send(streams.Stdin, tt.keys)
		got := ""
		for len(got) < len(tt.want) {
			message, err := c.ws.Read()
			if err != nil || message[0] != streams.Stdout {
				c.Fatalf("%q: got %q, then %q, %v", tt.keys, got, message, err)
			}
			got += string(message[1:])
		}
		if got != tt.want {
			c.Errorf("%q: got %q, want %q", tt.keys, got, tt.want)
		}
		synctest.Wait()
	}
}

func TestExecOnATerminal(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		_, id := n.runs("u", "sleep", "infinity")
		began := time.Now()
		shell := n.exec(id, &runtimeapi.ExecRequest{Cmd: []string{"sh"}, Stdin: true, Stdout: true, Tty: true})
		shell.types(
			typed{"echo a\r", "echo a\r\na\r\n"},            // Return is a newline, and keys are echoed
			typed{"echp\x7fo b\r", "echp\b \bo b\r\nb\r\n"}, // Backspace erases
			typed{"sleep infinity\r", "sleep infinity\r\n"},
			typed{"\x03", "^C\r\n"}, // Ctrl-C ends the command, but not the shell
			typed{"echo $?\r", "echo $?\r\n130\r\n"},
			typed{"cat\r", "cat\r\n"},
			typed{"x\r", "x\r\nx\r\n"},
			typed{"\x04", ""}, // Ctrl-D ends cat, but not the shell
			typed{"echo c\r", "echo c\r\nc\r\n"},
			typed{"cat\r", "cat\r\n"},
			typed{"\x03", "^C\r\n"}, // Ctrl-C ends a command that reads
			typed{"half a line\x03", "half a line^C\r\n"},
			typed{"while true; do sleep 1; done\r", "while true; do sleep 1; done\r\n"},
			typed{"\x03", "^C\r\n"},
			typed{"false\r", "false\r\n"},
		)
		shell.send(streams.Stdin, "\x04") // Ctrl-D ends the shell
		if code := exitCode(t, shell.rest()[streams.Error]); code != "1" {
			t.Errorf("the shell ended with %s, want the 1 of its last command", code)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
		ahead := n.exec(id, &runtimeapi.ExecRequest{Cmd: []string{"sh"}, Stdin: true, Stdout: true, Tty: true})
		ahead.types(typed{"sleep 1\rcat\rx\r", "sleep 1\r\ncat\r\nx\r\nx\r\n"}) // cat reads the line after its own
		cat := n.exec(id, &runtimeapi.ExecRequest{Cmd: []string{"cat"}, Stdin: true, Stdout: true, Tty: true})
		cat.types(typed{"x\r", "x\r\nx\r\n"})
		cat.send(streams.Stdin, "\x03")
		if code := exitCode(t, cat.rest()[streams.Error]); code != "130" {
			t.Errorf("cat ended with %s after Ctrl-C", code)
		}
		// Without a terminal, keys are plain bytes.
		plain := n.exec(id, &runtimeapi.ExecRequest{Cmd: []string{"cat"}, Stdin: true, Stdout: true})
		plain.send(streams.Stdin, "a\r\x03\x04\n")
		plain.want(streams.Stdout, "a\r\x03\x04\n")
	})
}

func TestAttachToATerminal(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		id := n.shell(&runtimeapi.ContainerConfig{Tty: true})
		attached, err := n.rt.Attach(n.Context(), &runtimeapi.AttachRequest{ContainerId: id, Stdin: true, Stdout: true, Tty: true})
		n.ok(err)
		c := n.connect(attached.Url, "v5.channel.k8s.io")
		synctest.Wait()
		c.types(
			typed{"echo a\r", "echo a\r\na\r\n"},
			typed{"echo b >&2\r", "echo b >&2\r\nb\r\n"},
			typed{"sleep infinity\r", "sleep infinity\r\n"},
			typed{"\x03", "^C\r\n"},
			typed{"echo $?\r", "echo $?\r\n130\r\n"},
		)
		c.send(streams.Stdin, "\x04")
		if said := c.rest(); exitCode(t, said[streams.Error]) != "0" {
			t.Errorf("%q", said)
		}
		synctest.Wait()
		if st, err := n.inspect(id); err != nil || st.State != runtimeapi.ContainerState_CONTAINER_EXITED {
			t.Errorf("%v, %v, want %v", st, err, runtimeapi.ContainerState_CONTAINER_EXITED)
		}
	})
}

// The echo for a client that does not read is limited. It blocks neither the process nor virtual time.
func TestTerminalOfDeafCallers(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		_, id := n.runs("u", "sleep", "infinity")
		c := n.exec(id, &runtimeapi.ExecRequest{Cmd: []string{"sleep", "infinity"}, Stdin: true, Stdout: true, Tty: true})
		for range 20 {
			c.send(streams.Stdin, string(make([]byte, 30<<10)))
		}
		time.Sleep(time.Second)
		n.ok(n.stopIt(n.Context(), id, 0))
	})
}
