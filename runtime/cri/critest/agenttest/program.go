package agenttest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Program is an agent that runs as a separate program and keeps the pods in a folder of manifests
// running: a kubelet with a static pod path, KubeEdge's edged, podsync's nodeagent.
type Program struct {
	// Command is the program and its arguments. These placeholders are replaced in each of them:
	//
	//	{endpoint}   the runtime's endpoint, unix:///path
	//	{manifests}  the folder of manifests
	//	{root}       a folder for the agent's own files
	//	{logs}       a folder for the logs of containers
	//	{config}     the file that contains Config
	//
	// The program must be the agent itself: if a shell started the agent, the shell would be killed.
	Command []string
	// Config is a configuration file's text, in which the same placeholders are replaced. Empty
	// means no file.
	Config string
	// Output is where the agent's output goes. Nil for nowhere.
	Output io.Writer
	// stopTime is the maximum time from the signal to the agent's end. After that the agent is
	// killed, and Stop returns an error. Default 30 s.
	stopTime time.Duration
}

const defaultStopTime = 30 * time.Second

// Agent returns the program as an Agent. Use it for Config.Agent.
func (p Program) Agent(node Node) (Agent, error) {
	if len(p.Command) == 0 {
		return nil, errors.New("agenttest: Program.Command is missing")
	}
	if p.stopTime == 0 {
		p.stopTime = defaultStopTime
	}
	endpoint, err := node.Endpoint()
	if err != nil {
		return nil, err
	}
	base := filepath.Dir(node.Root)
	a := &programAgent{Program: p, manifests: filepath.Join(base, "m"), written: map[string]string{}}
	file := filepath.Join(base, "config")
	words := strings.NewReplacer("{endpoint}", endpoint, "{manifests}", a.manifests, "{root}", node.Root, "{logs}", node.Logs, "{config}", file)
	for _, arg := range p.Command {
		a.args = append(a.args, words.Replace(arg))
	}
	return a, errors.Join(os.Mkdir(a.manifests, 0o755), os.WriteFile(file, []byte(words.Replace(p.Config)), 0o600))
}

// programAgent is a program on one node, one process after the other.
type programAgent struct {
	Program
	manifests string
	args      []string
	written   map[string]string // manifests, by file

	command *exec.Cmd
	ended   chan struct{} // closed when the process has ended
	err     error         // the process's error, valid after ended is closed
}

// Start starts a process.
func (a *programAgent) Start() error {
	a.command = exec.Command(a.args[0], a.args[1:]...)
	a.command.Stdout, a.command.Stderr = a.Output, a.Output
	a.command.WaitDelay = time.Second // for processes that inherited its output
	if err := a.command.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	a.ended = ended
	go func() {
		defer close(ended)
		a.err = a.command.Wait()
	}()
	return nil
}

// SetPods writes new and changed manifests, each atomically, and removes unwanted ones.
func (a *programAgent) SetPods(pods []*v1.Pod) error {
	wanted := map[string]string{}
	for _, p := range pods {
		text, err := json.Marshal(p)
		if err != nil {
			return err
		}
		wanted[p.Name+".json"] = string(text)
	}
	for file := range a.written {
		if _, stays := wanted[file]; !stays {
			if err := os.Remove(filepath.Join(a.manifests, file)); err != nil {
				return err
			}
		}
	}
	for file, text := range wanted {
		if a.written[file] == text {
			continue
		}
		if err := a.write(file, text); err != nil {
			return err
		}
	}
	a.written = wanted
	return nil
}

// write replaces a file atomically.
func (a *programAgent) write(file, text string) error {
	half := filepath.Join(a.manifests, "."+file)
	if err := os.WriteFile(half, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(half, filepath.Join(a.manifests, file))
}

// Stop sends SIGTERM.
func (a *programAgent) Stop() error {
	if err := a.hasEnded(); err != nil {
		return err
	}
	if err := a.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return errors.Join(err, a.Kill())
	}
	select {
	case <-a.ended:
		return nil // any exit code counts as success, because the process was stopped
	case <-time.After(a.stopTime):
		return errors.Join(fmt.Errorf("agenttest: %s did not end within %v of SIGTERM", a.args[0], a.stopTime), a.Kill())
	}
}

// hasEnded returns an error if the process has ended by itself. No agent should.
func (a *programAgent) hasEnded() error {
	select {
	case <-a.ended:
		return fmt.Errorf("agenttest: %s has ended by itself: %v", a.args[0], a.err)
	default:
		return nil
	}
}

// Kill sends SIGKILL.
func (a *programAgent) Kill() error {
	if err := a.hasEnded(); err != nil {
		return err
	}
	err := a.command.Process.Kill()
	<-a.ended
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
