//go:build linux

package e2e

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// maxDelay is the maximum delay of a pod's start because of the attacks: compared with starts before the attacks, plus the
// time by which the runtime itself has become slower since. It is in the time of the undisturbed runtime: if the runtime
// takes twice as long, so does a delay of the same cause.
const maxDelay = time.Second

// starts has the starts of pods that do nothing. An attack that delays pods delays all of them while it lasts, so two
// consecutive starts must not be late. A single start may be late on a busy machine, because few are.
type starts struct {
	quiet, bare           time.Duration // how long the agent, and the runtime by itself, took before the attacks
	ratio                 float64       // of that to the runtime's time by itself, at least 1
	count, late, inARow   int
	longest, worst, total time.Duration // the longest start, the longest delay, all delays
}

// add counts a start, and reports whether it is one too many that is late.
func (s *starts) add(agent, bare time.Duration) bool {
	delay := agent - max(time.Duration(float64(bare)*s.ratio), s.quiet)
	if bare > s.bare {
		delay = time.Duration(delay.Seconds() * s.bare.Seconds() / bare.Seconds() * float64(time.Second))
	}
	s.count++
	s.longest, s.worst, s.total = max(s.longest, agent), max(s.worst, delay), s.total+max(delay, 0)
	if delay <= maxDelay {
		s.inARow = 0
		return false
	}
	s.late++
	s.inARow++
	return s.inARow > 1 || s.late > 1+s.count/50
}

func (s *starts) String() string {
	return fmt.Sprintf("%d other pods started, the slowest in %v, the mean delay %v, the longest %v, %d above %v; undisturbed they take %v, %.2f of the runtime's time", s.count,
		s.longest.Round(time.Millisecond), (s.total / time.Duration(max(1, s.count))).Round(time.Millisecond), s.worst.Round(time.Millisecond),
		s.late, maxDelay, s.quiet.Round(time.Millisecond), s.ratio)
}

// prepare starts pods that run all the time, and returns a snapshot of the node.
func (s *siege) prepare() map[string]string {
	for range 3 {
		must.Do(s.node, s.put(s.quiet("bystander")))
	}
	var took, alone []time.Duration
	var ratios []float64
	for range 5 {
		agent, bare, err := s.pair()
		must.Do(s.node, err)
		took, alone, ratios = append(took, agent), append(alone, bare), append(ratios, agent.Seconds()/bare.Seconds())
	}
	slices.Sort(took)
	slices.Sort(alone)
	slices.Sort(ratios)
	middle := len(took) / 2
	s.starts.quiet, s.starts.bare, s.starts.ratio = took[middle], alone[middle], max(1, ratios[middle])
	time.Sleep(3 * time.Second) // for the removal of the rest of the pods
	return s.snapshot()
}

// quiet returns a pod that does nothing.
func (s *siege) quiet(name string) *v1.Pod {
	p := s.pod(name, restricted)
	p.Spec.Containers = []v1.Container{attacker(restricted, "app", "sleep")}
	return p
}

// pair starts a pod by the agent, and another one with bare calls at the same time, and returns both durations.
func (s *siege) pair() (agent, bare time.Duration, err error) {
	var both sync.WaitGroup
	var errs [2]error
	both.Go(func() { agent, errs[0] = s.startByAgent() })
	both.Go(func() { bare, errs[1] = s.startBare() })
	both.Wait()
	return agent, bare, errors.Join(errs[:]...)
}

func (s *siege) startByAgent() (time.Duration, error) {
	p, began := s.quiet("canary"), time.Now()
	if err := s.put(p); err != nil {
		return 0, err
	}
	if err := s.running(p); err != nil {
		return 0, fmt.Errorf("%w\n%s", err, s.story(p.UID))
	}
	_, id, _ := strings.Cut(s.status(p.UID).ContainerStatuses[0].ContainerID, "://")
	took, err := s.startedAfter(id, began)
	err = errors.Join(err, s.remove(p))
	s.forget(p.UID)
	return took, err
}

// startedAfter returns how long after a time a container was started.
func (s *siege) startedAfter(id string, began time.Time) (time.Duration, error) {
	c, err := s.node.runtime.ContainerStatus(context.Background(), &runtimeapi.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		return 0, err
	}
	return time.Unix(0, c.GetStatus().GetStartedAt()).Sub(began), nil
}

// startBare starts a pod with only the necessary calls.
func (s *siege) startBare() (took time.Duration, err error) {
	name, began := fmt.Sprint("bare-", s.made.Add(1)), time.Now()
	ctx, rt := context.Background(), s.node.runtime
	config := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "hostile", Uid: fmt.Sprint(name, began.UnixNano())},
		LogDirectory: filepath.Join(s.dir, "bare"), Linux: &runtimeapi.LinuxPodSandboxConfig{},
	}
	sandbox, err := rt.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		return 0, err
	}
	defer func() {
		_, stop := rt.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: sandbox.GetPodSandboxId()})
		_, remove := rt.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: sandbox.GetPodSandboxId()})
		err = errors.Join(err, stop, remove)
	}()
	c, err := rt.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{PodSandboxId: sandbox.GetPodSandboxId(), SandboxConfig: config, Config: &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: image, UserSpecifiedImage: image},
		Command: []string{"/bin/sleep", "1000"}, LogPath: name + ".log", Linux: &runtimeapi.LinuxContainerConfig{},
	}})
	if err != nil {
		return 0, err
	}
	if _, err := rt.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: c.GetContainerId()}); err != nil {
		return 0, err
	}
	return s.startedAfter(c.GetContainerId(), began)
}

// watchStarts starts pods until ctx ends.
func (s *siege) watchStarts(ctx context.Context) {
	for ctx.Err() == nil && s.alive() {
		agent, bare, err := s.pair()
		if err != nil {
			s.Errorf("a pod that does nothing: %v, while %s", err, s.attacking())
			continue
		}
		if s.starts.add(agent, bare) {
			s.Errorf("a pod that does nothing started in %v, the runtime does so in %v; %v, while %s", agent, bare, &s.starts, s.attacking())
		}
		time.Sleep(time.Second)
	}
}

// snapshot returns the node's files by path, with mode, owner and content. Logs of pods that have ended may exist,
// because they are collected later.
func (s *siege) snapshot() map[string]string {
	found := map[string]string{}
	logs := filepath.Join(s.dir, "logs")
	for _, top := range []string{filepath.Join(s.dir, "root"), logs, s.canary} {
		must.Do(s.node, filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if path == filepath.Join(s.dir, "root", "images") { // the agent notes who may use the images that it has pulled
				return fs.SkipDir
			}
			if filepath.Dir(path) == logs && !strings.HasPrefix(d.Name(), "hostile_bystander-") {
				return fs.SkipDir
			}
			found[path], err = look(path)
			return err
		}))
	}
	for _, path := range []string{"/etc/hosts", "/etc/passwd", "/etc/shadow", "/etc/resolv.conf", "/proc/sys/kernel/core_pattern", "/etc", "/"} {
		text, err := look(path)
		if err == nil {
			found[path] = text
		}
	}
	must.Do(s.node, s.mounts(found))
	return found
}

// mounts adds the mounts below the node's directories.
func (s *siege) mounts(found map[string]string) error {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(table)) {
		if fields := strings.Split(line, " "); len(fields) > 5 && strings.HasPrefix(fields[4], s.dir+"/") {
			found["mount at "+fields[4]] += fmt.Sprintf("%.1000s;", fields[3]) // once for each mount at the place
		}
	}
	return nil
}

// look returns a description of a file.
func look(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	sys := info.Sys().(*syscall.Stat_t)
	text := fmt.Sprintf("%v %d:%d", info.Mode(), sys.Uid, sys.Gid)
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		link, err := os.Readlink(path)
		return text + " " + link, err
	case info.Mode().IsRegular() && info.Size() < 1<<20:
		content, err := os.ReadFile(path)
		return fmt.Sprintf("%s %x", text, sha256.Sum256(content)), err
	case info.Mode().IsRegular():
		return fmt.Sprintf("%s %d bytes", text, info.Size()), nil
	}
	return text, nil
}

// compare waits until the node equals the earlier snapshot.
func (s *siege) compare(before map[string]string) {
	time.Sleep(3 * time.Second) // for the removal of the rest of the pods
	var wrong []string
	after := s.snapshot()
	paths := maps.Clone(before)
	maps.Copy(paths, after)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if before[path] != after[path] {
			wrong = append(wrong, fmt.Sprintf("%s: %q, before %q", path, after[path], before[path]))
		}
	}
	if len(wrong) > 0 {
		s.Errorf("the node has changed:\n%s", strings.Join(wrong, "\n"))
	}
	for uid := range s.bystanders() {
		if status := s.status(uid); status.Phase != v1.PodRunning || status.ContainerStatuses[0].RestartCount > 0 {
			s.Errorf("a pod that does nothing is %s\n%s", status.Phase, s.story(uid))
		}
	}
}

// leave removes the pods that were there all the time.
func (s *siege) leave() {
	for uid := range s.bystanders() {
		pod := &v1.Pod{}
		pod.Name, pod.UID = string(uid), uid
		if err := s.remove(pod); err != nil {
			s.Error(err)
		}
	}
}

// clear removes the remains of an agent that has died.
func (s *siege) clear(owner string) {
	ctx, rt := context.Background(), s.node.runtime
	list, err := rt.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
		LabelSelector: map[string]string{runtime.LabelPodNamespace: "hostile"},
	}})
	if err != nil {
		s.node.Error(err)
	}
	for _, sandbox := range list.GetItems() {
		_, stop := rt.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: sandbox.GetId()})
		_, remove := rt.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: sandbox.GetId()})
		if err := errors.Join(stop, remove); err != nil {
			s.node.Error(err)
		}
	}
	mounts := must.Get(os.ReadFile("/proc/self/mounts"))(s.node)
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); strings.HasPrefix(fields[1], filepath.Dir(s.canary)+"/") {
			_ = syscall.Unmount(fields[1], syscall.MNT_DETACH) // or the directory is not removed
		}
	}
	for _, pattern := range []string{"*/%s/*/*", "*/%s/*", "*/%s", "%s/*/*", "%s/*", "%s"} {
		found, _ := filepath.Glob(filepath.Join("/sys/fs/cgroup", fmt.Sprintf(pattern, owner))) // the patterns are valid
		for _, dir := range found {
			_ = syscall.Rmdir(dir) // most of these are files
		}
	}
}

// bystanders returns the pods that run all the time.
func (s *siege) bystanders() map[types.UID]bool {
	s.target.mu.Lock()
	defer s.target.mu.Unlock()
	found := map[types.UID]bool{}
	for uid := range s.lines {
		if strings.HasPrefix(uid, "bystander-") {
			found[types.UID(uid)] = true
		}
	}
	return found
}
