//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

const (
	// nodeArgs is the environment variable with the node's arguments. A test process that has it runs as that node.
	nodeArgs = "PODSYNC_HOSTILE_NODE"
	// attackTime is the environment variable with the duration of each attack, such as 5m.
	attackTime = "PODSYNC_HOSTILE"
	// leaseTime is the duration of the node's lease.
	leaseTime = 10 * time.Second
	// soon is the maximum median duration of honest requests, and patience the maximum duration of each: the
	// attackers use the same processors.
	soon, patience = 2 * time.Second, 10 * time.Second
	// maxLeft is how many goroutines of idle connections and of other parts of the node may be left after all attacks.
	maxLeft = 50
	// maxResident is the maximum resident memory of the node, in bytes.
	maxResident = 256 << 20
)

// manifest is a pod with one container that prints without end, and one that prints once.
const manifest = `apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - {name: app, image: busybox, command: [sh, -c, "while true; do echo tick; sleep 0.1; done"]}
  - {name: quiet, image: busybox, command: [sh, -c, "echo once; sleep infinity"]}
`

// A target is podsync-node in its own process, with a runtime in memory and an API server that records its heartbeats.
type target struct {
	*testing.T
	api     *fakeAPI
	address string
	healthz string
	process *os.Process
	log     *tail
	// logs is the directory of the pods' logs.
	logs string
	// admitted is the number of slow readers whose request the node has answered.
	admitted atomic.Int64
}

// newTarget starts a node. lines are added to its KubeletConfiguration.
func newTarget(t *testing.T, lines ...string) *target {
	t.Helper()
	dir := t.TempDir()
	n := &target{T: t, api: newFakeAPI(t), log: &tail{}, logs: filepath.Join(dir, "logs", "pods")}
	rt := must.Get(critest.New(critest.Config{Dir: dir}))(t)
	t.Cleanup(func() { rt.Close() })
	endpoint := must.Get(rt.Listen(filepath.Join(dir, "cri.sock")))(t)
	streams := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	must.Do(t, rt.ServeStreams(streams))
	n.address, n.healthz = unused(t), unused(t)
	_, port, _ := net.SplitHostPort(n.address)
	_, healthzPort, _ := net.SplitHostPort(n.healthz)
	manifests := filepath.Join(dir, "manifests")
	must.Do(t, os.Mkdir(manifests, 0o700))
	n.api.file(t, filepath.Join(manifests, "web.yaml"), manifest)
	n.api.kubeconfig(t, filepath.Join(dir, "kubeconfig"))
	config := n.api.file(t, filepath.Join(dir, "config.yaml"), fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: %s
address: 127.0.0.1
port: %s
healthzPort: %s
resolvConf: ""
cgroupsPerQOS: false
enforceNodeAllocatable: []
evictionHard: {}
failCgroupV1: false
failSwapOn: false
imageGCHighThresholdPercent: 100
localStorageCapacityIsolation: false
staticPodPath: %s
podLogsDir: %s
nodeLeaseDurationSeconds: %d
%s
`, endpoint, port, healthzPort, manifests, n.logs, int(leaseTime/time.Second), strings.Join(lines, "\n")))
	args := []string{"--config=" + config, "--kubeconfig=" + filepath.Join(dir, "kubeconfig"), "--root-dir=" + filepath.Join(dir, "root"), "--hostname-override=n1", "--node-ip=127.0.0.1"}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), nodeArgs+"="+strings.Join(args, "\n"))
	cmd.Stdout, cmd.Stderr = n.log, n.log
	must.Do(t, cmd.Start())
	n.process = cmd.Process
	t.Cleanup(func() {
		_ = n.process.Signal(syscall.SIGTERM) // Wait reports an error of the process
		if err := cmd.Wait(); err != nil {
			t.Errorf("the node ended with %v", err)
		}
		_ = syscall.Unmount(filepath.Join(dir, "root"), syscall.MNT_DETACH) // the node mounts its root if that is not shared
		if t.Failed() {
			t.Logf("the node's last words:\n%s", n.log)
		}
	})
	n.begin()
	return n
}

// unused returns an address of this machine on which no process listens.
func unused(t *testing.T) string {
	t.Helper()
	lis := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer lis.Close()
	return lis.Addr().String()
}

// begin waits until the node serves and runs its pod.
func (n *target) begin() {
	n.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		code, text, err := n.ask("127.0.0.2", "good-ann", "/pods")
		if err == nil && code == http.StatusOK && strings.Contains(text, `"phase":"Running"`) {
			return
		}
		if time.Now().After(deadline) {
			n.Fatalf("the node is not ready: %d %.200s %v", code, text, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// dialer returns a dialer that connects from an address of this machine.
func dialer(from string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience}
}

var anyServer = &tls.Config{InsecureSkipVerify: true}

// ask sends a request on a new connection.
func (n *target) ask(from, token, path string) (code int, text string, err error) {
	return n.send(http.MethodGet, from, token, path)
}

// send sends a request with the given method as ask does.
func (n *target) send(method, from, token, path string) (code int, text string, err error) {
	transport := &http.Transport{TLSClientConfig: anyServer, DialContext: dialer(from).DialContext, DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: patience}
	req, err := http.NewRequest(method, "https://"+n.address+path, nil)
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, string(body), err
}

// resident returns the maximum resident memory of the node so far, in bytes.
func (n *target) resident() int64 {
	n.Helper()
	text := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", n.process.Pid)))(n)
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kib := must.Get(strconv.ParseInt(strings.TrimSpace(strings.SplitN(rest, "kB", 2)[0]), 10, 64))(n)
	return kib << 10
}

// An attack is one worker's attack on the node from an address, until ctx ends.
type attack func(ctx context.Context, n *target, from string, worker int)

var attacks = []struct {
	name    string
	workers int
	attack  attack
}{
	{"bad tokens", 16, badTokens},
	{"bad tokens over HTTP/2", 8, badTokensHTTP2},
	{"slow headers", 200, slowHeaders},
	{"half-open connections", 300, halfOpen},
	{"thousands of connections", 16, manyConnections},
	{"rapid reset", 4, rapidReset},
	{"unread responses", 16, zeroWindow},
	{"huge headers", 4, hugeHeaders},
	{"endless headers over HTTP/2", 4, endlessHeaders},
	{"huge bodies", 4, hugeBodies},
	{"idle connections of an admitted user", 200, idleConnections},
	{"garbage for streams", 4, garbage},
	{"unread streams", 16, halfOpenStreams},
	{"answers that are read slowly", 16, slowAnswers},
	{"unread output of commands", 16, deafStreams},
	{"answers over HTTP/2 that an admitted user does not take", 8, zeroWindowOfAUser},
	{"odd frames, bodies, handshakes and paths", 2 * len(odd), oddFrames},
}

// TestHostilePeers: whatever peers do, the node renews its lease in time, answers honest peers soon, and its memory stays
// bounded. PODSYNC_HOSTILE=5m sets the duration of each attack.
func TestHostilePeers(t *testing.T) {
	each := time.Second
	if text := os.Getenv(attackTime); text != "" {
		var err error
		if each, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", attackTime, err)
		}
	}
	n := newTarget(t)
	n.fillLog()
	// Eve attacks as an admitted user.
	if code, text, err := n.ask("127.0.0.3", eve, "/pods"); err != nil || code != http.StatusOK {
		t.Fatalf("eve is not admitted: %d %.200s %v", code, text, err)
	}
	begun, goroutines := time.Now(), n.goroutines()
	for _, a := range attacks {
		n.suffer(a.name, a.workers, a.attack, each)
	}
	everything := func(ctx context.Context, n *target, from string, worker int) {
		attacks[worker%len(attacks)].attack(ctx, n, from, worker)
	}
	n.suffer("everything at once", 48, everything, max(3*each, leaseTime))
	n.calm(goroutines + maxLeft)
	if gap, renewals := n.api.longestGap(begun); gap > leaseTime || renewals < 3 {
		t.Errorf("the lease was renewed %d times, with %v between two; it holds for %v", renewals, gap, leaseTime)
	} else {
		t.Logf("the lease was renewed %d times, with at most %v between two", renewals, gap)
	}
	if n.admitted.Load() == 0 {
		t.Error("the node answered no slow reader, so that none of them was slow")
	}
	reviews, atOnce := n.api.figures()
	if atOnce > 2*maxReviewsOfAKind {
		t.Errorf("%d reviews at a time, want at most %d", atOnce, 2*maxReviewsOfAKind)
	}
	if resident := n.resident(); resident > maxResident && !raced {
		t.Errorf("the node had %d MiB, want at most %d", resident>>20, maxResident>>20)
	} else {
		t.Logf("the node had at most %d MiB, the API server %d reviews, %d at a time", resident>>20, reviews, atOnce)
	}
}

// maxReviewsOfAKind is the maximum number of concurrent TokenReviews, and of concurrent SubjectAccessReviews.
const maxReviewsOfAKind = 16

// suffer runs attacking workers for a time. Meanwhile it sends the requests of an honest peer.
func (n *target) suffer(name string, workers int, do attack, lasting time.Duration) {
	n.Helper()
	ctx, cancel := context.WithTimeout(n.Context(), lasting)
	defer cancel()
	var running sync.WaitGroup
	for worker := range workers {
		running.Go(func() {
			for ctx.Err() == nil {
				do(ctx, n, "127.0.0.1", worker)
			}
		})
	}
	var times []time.Duration
	for ctx.Err() == nil || len(times) == 0 {
		begin := time.Now()
		code, text, err := n.ask("127.0.0.2", "good-ann", "/pods")
		took := time.Since(begin)
		times = append(times, took)
		if err != nil || code != http.StatusOK {
			n.Errorf("%s: an honest peer is answered %d %.100s, %v after %v", name, code, text, err, took)
		}
		if err := n.healthy(); err != nil {
			n.Errorf("%s: /healthz: %v", name, err)
		}
	}
	running.Wait()
	slices.Sort(times)
	if times[len(times)/2] > soon {
		n.Errorf("%s: half of the honest requests take more than %v, want at most %v", name, times[len(times)/2], soon)
	}
	n.Logf("%s: %d honest requests, half of them in %v, all in %v; resident at most %d MiB", name, len(times), times[len(times)/2], times[len(times)-1], n.resident()>>20)
}

var nextToken atomic.Int64

// badTokens sends requests with invalid tokens.
func badTokens(ctx context.Context, n *target, from string, _ int) { n.badTokens(ctx, from, false) }

// badTokensHTTP2 does the same, with many requests on each connection.
func badTokensHTTP2(ctx context.Context, n *target, from string, _ int) {
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { n.badTokens(ctx, from, true) })
	}
	all.Wait()
}

func (n *target) badTokens(ctx context.Context, from string, http2 bool) {
	transport := &http.Transport{TLSClientConfig: anyServer.Clone(), DialContext: dialer(from).DialContext, ForceAttemptHTTP2: http2}
	defer transport.CloseIdleConnections()
	for range 100 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+n.address+"/pods", nil)
		if err != nil {
			return
		}
		req.Header.Set("Authorization", fmt.Sprint("Bearer bad-", nextToken.Add(1)))
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body) // so that the connection is reused
		resp.Body.Close()
		if resp.StatusCode < 400 {
			n.Errorf("an unknown token gets the response %d", resp.StatusCode)
		}
	}
}

// connect returns a connection that ends with ctx. It uses TLS if protocol is set.
func (n *target) connect(ctx context.Context, from string, protocol string) net.Conn {
	conn, err := dialer(from).DialContext(ctx, "tcp", n.address)
	if err != nil {
		return nil
	}
	context.AfterFunc(ctx, func() { conn.Close() })
	if protocol == "" {
		return conn
	}
	c := anyServer.Clone()
	c.NextProtos = []string{protocol}
	secure := tls.Client(conn, c)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil
	}
	return secure
}

// talk sends data on a connection, with pauses, until the node closes it.
func (n *target) talk(ctx context.Context, from, protocol string, pause time.Duration, begin []byte, more func(i int) []byte) {
	conn := n.connect(ctx, from, protocol)
	if conn == nil {
		return
	}
	defer conn.Close()
	if _, err := conn.Write(begin); err != nil {
		return
	}
	for i := 0; ctx.Err() == nil; i++ {
		if _, err := conn.Write(more(i)); err != nil {
			return
		}
		if pause > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	}
}

func slowHeaders(ctx context.Context, n *target, from string, _ int) {
	n.talk(ctx, from, "http/1.1", 20*time.Millisecond, []byte("GET /pods HTTP/1.1\r\nHost: n1\r\nA: "), func(int) []byte { return []byte("x") })
}

func halfOpen(ctx context.Context, n *target, from string, worker int) {
	protocol := ""
	if worker%2 == 1 {
		protocol = "h2"
	}
	if conn := n.connect(ctx, from, protocol); conn != nil {
		_, _ = conn.Read(make([]byte, 64)) // until the node closes it
		_, _ = io.Copy(io.Discard, conn)
	}
}

// manyConnections opens connections and keeps a thousand of them open.
func manyConnections(ctx context.Context, n *target, _ string, worker int) {
	from := fmt.Sprintf("127.0.1.%d", 1+worker) // more than one address
	var kept []net.Conn
	for ctx.Err() == nil && len(kept) < 1000 {
		if conn := n.connect(ctx, from, ""); conn != nil {
			kept = append(kept, conn)
		}
	}
	for _, conn := range kept {
		conn.Close()
	}
}

func hugeHeaders(ctx context.Context, n *target, from string, _ int) {
	line := []byte("A: " + strings.Repeat("x", 64<<10) + "\r\n")
	n.talk(ctx, from, "http/1.1", 0, []byte("GET /pods HTTP/1.1\r\nHost: n1\r\n"), func(int) []byte { return line })
}

func hugeBodies(ctx context.Context, n *target, from string, worker int) {
	token := []string{"bad", "good-ann"}[worker%2]
	piece := []byte("8000\r\n" + strings.Repeat("x", 0x8000) + "\r\n")
	n.talk(ctx, from, "http/1.1", 0, []byte("POST /run/default/web-n1/app?cmd=true HTTP/1.1\r\nHost: n1\r\nTransfer-Encoding: chunked\r\nAuthorization: Bearer "+token+"\r\n\r\n"),
		func(int) []byte { return piece })
}

// garbage requests streams, as a stranger and as an admitted user, and then sends invalid data.
func garbage(ctx context.Context, n *target, from string, worker int) {
	token := []string{"bad", "good-ann"}[worker%2]
	upgrade := []string{
		"Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n",
		"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n",
		"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: SPDY/3.1+v4.channel.k8s.io\r\n",
	}[worker/2%3]
	noise := bytes.Repeat([]byte("\x80\x03\x00\x01\x82\xff\xff\xff\x00\xff\xff\x7f"), 1000)
	n.talk(ctx, from, "http/1.1", time.Millisecond, []byte("POST /exec/default/web-n1/app?command=cat&input=1&output=1 HTTP/1.1\r\nHost: n1\r\nConnection: Upgrade\r\n"+upgrade+"Authorization: Bearer "+token+"\r\n\r\n"),
		func(i int) []byte { return noise[i%12:] })
}

// halfOpenStreams follows a log as an admitted user, and reads nothing of it.
func halfOpenStreams(ctx context.Context, n *target, from string, _ int) {
	n.talk(ctx, from, "http/1.1", 100*time.Millisecond, []byte("GET /containerLogs/default/web-n1/app?follow=true HTTP/1.1\r\nHost: n1\r\nAuthorization: Bearer good-ann\r\n\r\n"),
		func(int) []byte { return nil })
}

// Frames of HTTP/2.
const (
	frameHeaders, frameReset, frameSettings, frameContinuation = 1, 3, 4, 9
	endStream, endHeaders                                      = 1, 4
)

func frame(kind, flags byte, stream uint32, body []byte) []byte {
	size := len(body)
	head := []byte{byte(size >> 16), byte(size >> 8), byte(size), kind, flags, byte(stream >> 24), byte(stream >> 16), byte(stream >> 8), byte(stream)}
	return append(head, body...)
}

// preface returns the beginning of an HTTP/2 connection whose streams have the given window.
func preface(window uint32) []byte {
	return append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(frameSettings, 0, 0, []byte{0, 4, byte(window >> 24), byte(window >> 16), byte(window >> 8), byte(window)})...)
}

// getHeader returns the HPACK header of GET https://n1/ with an invalid token.
func getHeader() []byte {
	token := fmt.Sprint("Bearer bad-", nextToken.Add(1))
	return append([]byte{0x82, 0x87, 0x84, 0x41, 2, 'n', '1', 0x0f, 0x08, byte(len(token))}, token...)
}

func rapidReset(ctx context.Context, n *target, from string, _ int) {
	n.talk(ctx, from, "h2", 0, preface(1<<16), func(i int) (all []byte) {
		for j := range 50 {
			stream := uint32(2*(50*i+j) + 1)
			all = append(all, frame(frameHeaders, endStream|endHeaders, stream, getHeader())...)
			all = append(all, frame(frameReset, 0, stream, []byte{0, 0, 0, 8})...)
		}
		return all
	})
}

// zeroWindow sends requests with windows of size 0 for the answers.
func zeroWindow(ctx context.Context, n *target, from string, _ int) {
	n.talk(ctx, from, "h2", 10*time.Millisecond, preface(0), func(i int) (all []byte) {
		for j := range 10 {
			all = append(all, frame(frameHeaders, endStream|endHeaders, uint32(2*(10*i+j)+1), getHeader())...)
		}
		return all
	})
}

func endlessHeaders(ctx context.Context, n *target, from string, _ int) {
	field := append([]byte{0x00, 1, 'a', 0x7f, 0x81, 0x3e}, bytes.Repeat([]byte("x"), 8192)...)
	n.talk(ctx, from, "h2", 0, append(preface(1<<16), frame(frameHeaders, endStream, 1, getHeader())...),
		func(int) []byte { return frame(frameContinuation, 0, 1, field) })
}

// A tail keeps the end of the text that is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (l *tail) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	if most := 4 << 10; len(l.text) > most {
		l.text = append(l.text[:0], l.text[len(l.text)-most:]...)
	}
	return len(b), nil
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}
