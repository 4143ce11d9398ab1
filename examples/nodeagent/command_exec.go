package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/runtime/websocket"
)

// protocols are the accepted subprotocols. Only the first can signal the input's end.
var protocols = []string{"v5.channel.k8s.io", "v4.channel.k8s.io"}

// execute is nodeagent exec.
func execute(ctx context.Context, l *invocation) error {
	if len(l.argv) == 0 {
		return wrongUsage{errors.New("COMMAND is missing, after --")}
	}
	return l.stream(ctx, "exec", url.Values{"command": l.argv})
}

// attach is nodeagent attach.
func attach(ctx context.Context, l *invocation) error { return l.stream(ctx, "attach", url.Values{}) }

// stream connects the console to a process until either ends.
func (l *invocation) stream(ctx context.Context, what string, q url.Values) error {
	path, err := l.path(ctx, what)
	if err != nil {
		return err
	}
	for name, is := range map[string]bool{"input": l.stdin, "output": true, "error": !l.tty, "tty": l.tty} {
		if is {
			q.Set(name, "1")
		}
	}
	ws, protocol, err := l.open(ctx, path+"?"+q.Encode(), protocols...)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { ws.Close() })()
	defer ws.Close()
	if l.tty {
		defer l.terminal(ctx, ws)()
	}
	if l.stdin {
		go l.sendInput(ws, protocol == protocols[0]) // until the process ends: a read cannot be interrupted
	}
	err = l.receive(ws)
	if ctx.Err() != nil {
		return nil // interrupted
	}
	return err
}

// open opens a WebSocket to the agent.
func (l *invocation) open(ctx context.Context, path string, protocols ...string) (*websocket.Conn, string, error) {
	conn, err := l.dial(ctx)
	if err != nil {
		return nil, "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://node"+path, nil)
	if err != nil {
		conn.Close()
		return nil, "", err
	}
	ws, protocol, err := websocket.Dial(conn, req, protocols...)
	var refused *websocket.RefusedError
	if errors.As(err, &refused) {
		err = refusal(refused.Text)
	}
	return ws, protocol, err
}

// sendInput sends the console's input.
func (l *invocation) sendInput(ws *websocket.Conn, closes bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := l.in.Read(buf)
		if n > 0 && ws.Write([]byte{0}, buf[:n]) != nil {
			return
		}
		if err != nil {
			if closes {
				_ = ws.Write([]byte{255, 0}) // the process may have ended
			}
			return
		}
	}
}

// receive prints the output, and returns the process's result.
func (l *invocation) receive(ws *websocket.Conn) error {
	for {
		message, err := ws.Read()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return errors.New("the stream has ended")
		case err != nil:
			return err
		case len(message) < 2:
			continue
		case message[0] == 3:
			return endOf(message[1:])
		}
		to := l.out
		if message[0] == 2 {
			to = l.errs
		}
		if _, err := to.Write(message[1:]); err != nil {
			return err
		}
	}
}

// endOf decodes the result of a process from the error channel.
func endOf(text []byte) error {
	var st metav1.Status
	if err := json.Unmarshal(text, &st); err != nil {
		return fmt.Errorf("the command's exit status is missing: %w", err)
	}
	if st.Status == metav1.StatusSuccess {
		return nil
	}
	if st.Details != nil {
		for _, cause := range st.Details.Causes {
			if code, err := strconv.Atoi(cause.Message); err == nil && cause.Type == "ExitCode" {
				return &failure{code, "", errors.New("command terminated with exit code " + cause.Message)}
			}
		}
	}
	return refusal(st.Message)
}
