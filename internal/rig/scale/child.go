package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// The parts that children play.
const (
	asRuntime = "runtime"
	asFirst   = "first-agent"
	asSecond  = "second-agent"
)

// asFlag is the first argument of a child. The part and a task follow.
const asFlag = "-as"

func isChild(args []string) bool { return len(args) == 3 && args[0] == asFlag }

// task is the task of a child process.
type task struct {
	Pods    int
	Idle    time.Duration
	Dir     string
	Profile string
}

// child is this program in another process.
type child struct {
	cmd *exec.Cmd
	// orders is the child's standard input: it ends with that.
	orders io.Closer
	report *json.Decoder
}

// begin starts a child.
func begin(ctx context.Context, as string, t task) (*child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, asFlag, as, string(text))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	cmd.Stderr = os.Stderr
	orders, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &child{cmd: cmd, orders: orders, report: json.NewDecoder(output)}, cmd.Start()
}

// receive waits for the next message of the child.
func (c *child) receive(into any) error {
	err := c.report.Decode(into)
	if errors.Is(err, io.EOF) {
		return errors.New("a process has ended before its work was done")
	}
	return err
}

// end closes the standard input of the child, which then exits, and waits for that.
func (c *child) end() error { return errors.Join(c.orders.Close(), c.cmd.Wait()) }

// play runs a child process until its task is done or its standard input ends.
func play(ctx context.Context, args []string, orders io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, orders)
		cancel()
	}()
	var t task
	if err := json.Unmarshal([]byte(args[2]), &t); err != nil {
		return err
	}
	reports := json.NewEncoder(out)
	switch as := args[1]; as {
	case asRuntime:
		return serve(ctx, t, reports)
	case asFirst, asSecond:
		m, err := agentOf(ctx, t, as)
		if err != nil {
			return err
		}
		return reports.Encode(m)
	default:
		return fmt.Errorf("%s %q is no part", asFlag, as)
	}
}
