//go:build linux

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// Twenty pods start, run and stop, and the agent is killed at any moment and
// started again.
func TestKill9OfTheAgent(t *testing.T) {
	onKill9Nodes(t, func(n *kill9Node) {
		n.play(n.agent)
		n.finish()
	})
}

// The same test kills the runtime. Containers keep running without it.
func TestKill9OfTheRuntime(t *testing.T) {
	onKill9Nodes(t, func(n *kill9Node) {
		n.play(n.daemon)
		n.stayAway()
		n.finish()
	})
}

// kill9Node is a runtime with an agent and their pods.
type kill9Node struct {
	*manifests
	t      *testing.T
	agent  *agentProcess
	daemon *daemon
	w      *watcher
	// kills are the times at which the agent was killed.
	kills []time.Duration
}

// onKill9Nodes runs a test on each endpoint. PODSYNC_KILL9_ROUNDS is the number of rounds, and PODSYNC_KILL9_SEED repeats
// another run as far as possible. go test -artifacts keeps the agent's output.
func onKill9Nodes(t *testing.T, f func(n *kill9Node)) {
	for _, endpoint := range endpoints(t) {
		t.Run(strings.ReplaceAll(strings.TrimPrefix(endpoint, "unix://"), "/", "-"), func(t *testing.T) {
			f(newKill9Node(t, endpoint))
		})
	}
}

func newKill9Node(t *testing.T, endpoint string) *kill9Node {
	daemon := daemonOf(t, endpoint)
	client := must.Get(cri.Dial(t.Context(), cri.Config{Endpoint: endpoint}))(t)
	t.Cleanup(func() { client.Close() })
	seed := number("PODSYNC_KILL9_SEED", int(time.Now().UnixNano()%1e9))
	t.Logf("PODSYNC_KILL9_SEED=%d", seed)
	dir := t.TempDir()
	m := &manifests{
		dir: filepath.Join(dir, "manifests"), truth: filepath.Join(dir, "truth"), run: fmt.Sprintf("%d-%d", os.Getpid(), seed),
		random: rand.New(rand.NewPCG(uint64(seed), 0)),
	}
	for _, dir := range []string{m.dir, m.truth} {
		must.Do(t, os.Mkdir(dir, 0o777))
	}
	n := &kill9Node{manifests: m, t: t, daemon: daemon}
	n.w = newWatcher(t, client, m.run)
	m.change = n.w.change
	n.agent = newAgentProcess(t, dir, endpoint, m.dir)
	t.Cleanup(n.explain)
	return n
}

func number(variable string, def int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return n
	}
	return def
}

// play starts pods, and plays the rounds.
func (n *kill9Node) play(v victim) {
	n.agent.start()
	for range 20 {
		must.Do(n.t, n.disturb())
	}
	for round := range number("PODSYNC_KILL9_ROUNDS", 4) {
		n.round(v)
		if n.random.IntN(3) > 0 {
			n.settle()
		}
		if n.t.Failed() {
			n.t.Fatalf("in round %d", round)
		}
	}
	n.settle()
}

// round kills the victim while pods are added and removed, and adds and removes some while it is down.
func (n *kill9Node) round(v victim) {
	n.disturbFor(time.Duration(n.random.IntN(1500)) * time.Millisecond)
	n.kill(v)
	n.disturbFor(time.Duration(n.random.IntN(700)) * time.Millisecond)
	v.start()
	n.w.expectDown(false)
}

func (n *kill9Node) kill(v victim) {
	n.w.expectDown(v == victim(n.daemon))
	v.kill()
	n.w.enterDeath()
	if v == victim(n.agent) {
		n.kills = append(n.kills, uptime())
	}
}

func (n *kill9Node) disturbFor(d time.Duration) {
	for end := time.Now().Add(d); ; {
		pause := time.Duration(n.random.IntN(300)) * time.Millisecond
		if left := time.Until(end); pause > left {
			time.Sleep(left)
			return
		}
		time.Sleep(pause)
		must.Do(n.t, n.disturb())
	}
}

// settle waits until all is as it should be.
func (n *kill9Node) settle() {
	n.t.Helper()
	var wrong []string
	for began := time.Now(); time.Since(began) < patience && !n.t.Failed(); time.Sleep(100 * time.Millisecond) {
		if wrong = n.w.unsettled(n.agent.reported()); len(wrong) == 0 {
			n.w.checkTruth(n.truth, n.mark(""))
			n.t.Logf("%d pods settled after %v", len(n.now), time.Since(began).Round(time.Millisecond))
			return
		}
	}
	n.w.accuse("not as it should be:\n%s", strings.Join(wrong, "\n"))
}

// explain logs, if the test has failed, the output of agent and runtime about the pods in the complaints.
func (n *kill9Node) explain() {
	if !n.t.Failed() {
		return
	}
	for generation, ids := range n.w.accused() {
		n.t.Logf("pod %s\n%s\n%s", generation, n.agent.story(ids[0]), n.daemon.story(ids[1:]))
	}
	n.t.Logf("once more, after the stories:\n%s", strings.Join(n.w.accusations(), "\n"))
}

// stayAway keeps the runtime down for a while: the agent waits without frequent calls, and continues soon after the runtime
// is available (kubernetes #97404).
func (n *kill9Node) stayAway() {
	const outage = 4 * time.Second
	n.kill(n.daemon)
	used := n.agent.used()
	must.Do(n.t, n.disturb())
	time.Sleep(outage)
	if used = n.agent.used() - used; used > outage/10 {
		n.t.Errorf("the agent has used %v of processor time in %v without a runtime", used, outage)
	}
	n.daemon.start()
	began := time.Now()
	n.w.expectDown(false)
	n.settle()
	n.t.Logf("without a runtime for %v the agent used %v, and had all done %v after it was back", outage, used, time.Since(began).Round(time.Millisecond))
}

// finish removes all pods, and nothing is left of them.
func (n *kill9Node) finish() {
	must.Do(n.t, n.clear())
	n.settle()
	for name, count := range processes(n.mark("")) {
		n.t.Errorf("%d processes are left of %s", count, name)
	}
	n.t.Logf("%d pods, %d containers, %d preStop handlers", n.made, len(n.w.seen), n.w.checkHooks(n.truth, n.kills))
}
