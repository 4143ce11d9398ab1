package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/container/env"
)

// A life is one run of a Checkpoint with a Push as its source.
type life struct {
	t    *testing.T
	push *Push
	mem  *Checkpoint
	got  deliveries
	end  func()
}

func live(t *testing.T, path string, change func(*CheckpointConfig)) *life {
	t.Helper()
	l := &life{t: t, push: NewPush()}
	c := CheckpointConfig{Source: l.push, Path: path}
	if change != nil {
		change(&c)
		l.push, _ = c.Source.(*Push)
	}
	l.mem = must.Get(NewCheckpoint(c))(t)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := l.mem.Run(ctx, l.got.add); err != nil {
			t.Error(err)
		}
	})
	l.end = func() { cancel(); running.Wait() }
	t.Cleanup(l.end)
	return l
}

// words describes the last delivered snapshot.
func (l *life) words() string {
	synctest.Wait()
	s, n := l.got.last()
	if n == 0 {
		return "nothing"
	}
	var words []string
	for _, pod := range s.Pods {
		words = append(words, pod.Name+"="+pod.Spec.Containers[0].Image)
	}
	if s.Incomplete {
		words = append(words, "incomplete")
	}
	for _, err := range s.Errors {
		words = append(words, "error: "+err.Error())
	}
	if len(s.Warnings) > 0 {
		words = append(words, "warned")
	}
	return strings.Join(words, " ")
}

func (l *life) expect(want string) {
	l.t.Helper()
	if got := l.words(); got != want {
		l.t.Errorf("delivered is %q, want %q", got, want)
	}
}

func inBubble(t *testing.T, test func(t *testing.T, path string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "below", "checkpoint.json")
	synctest.Test(t, func(t *testing.T) { test(t, path) })
}

// A source delivers its pods, the node restarts without the source, and the source becomes available again.
func TestE5_CheckpointUntilTheSourceSpeaks(t *testing.T) {
	inBubble(t, func(t *testing.T, path string) {
		first := live(t, path, nil)
		first.expect("nothing")
		time.Sleep(time.Hour)
		first.expect("nothing") // there is nothing to remember: it waits as without
		must.Do(t, first.push.Set(pushed("a", "a:1"), pushed("b", "b:1")))
		first.expect("a=a:1 b=b:1")
		first.end()

		second := live(t, path, nil)
		time.Sleep(10*time.Second - time.Millisecond)
		second.expect("nothing") // the source may still deliver
		time.Sleep(time.Millisecond)
		second.expect("a=a:1 b=b:1 incomplete warned")
		must.Do(t, second.push.Update(pushed("b", "b:2")))
		second.expect("b=b:2 a=a:1 incomplete warned")
		must.Do(t, second.push.Update(pushed("c", "c:1")))
		second.push.Delete("uid-c")
		second.push.Delete("uid-b") // the source has reported this pod
		second.expect("a=a:1 incomplete warned")
		must.Do(t, second.push.Set(pushed("d", "d:1")))
		second.expect("d=d:1")
		second.end()

		third := live(t, path, nil)
		must.Do(t, third.push.Set(pushed("d", "d:2"))) // in time: the checkpoint is not delivered
		third.expect("d=d:2")
		time.Sleep(time.Hour)
		third.expect("d=d:2")
		if _, n := third.got.last(); n != 1 {
			t.Errorf("%d snapshots were delivered, want 1", n)
		}
	})
}

// A checkpoint that is written before the source has delivered all pods keeps the pods of the old checkpoint.
func TestE5_TwoStartsWithoutTheSource(t *testing.T) {
	inBubble(t, func(t *testing.T, path string) {
		first := live(t, path, nil)
		must.Do(t, first.push.Set(pushed("a", "a:1"), pushed("b", "b:1")))
		first.expect("a=a:1 b=b:1")
		first.end()
		second := live(t, path, nil)
		must.Do(t, second.push.Update(pushed("b", "b:2")))
		second.expect("b=b:2 incomplete")
		second.end()
		third := live(t, path, nil)
		time.Sleep(time.Minute)
		third.expect("b=b:2 a=a:1 incomplete warned")
	})
}

// A new version replaces a static pod with the same name. The names of other pods do not matter.
func TestM5_CheckpointedPodsOfOneName(t *testing.T) {
	for name, tc := range map[string]struct {
		push func() *Push
		want string
	}{
		"static":           {func() *Push { return NewStaticPush("queue") }, "a=a:2 incomplete"},
		"of an API server": {NewPush, "a=a:2 a=a:1 incomplete warned"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, path string) {
				of := func(c *CheckpointConfig) { c.Source = tc.push() }
				first := live(t, path, of)
				must.Do(t, first.push.Set(pushed("a", "a:1")))
				first.expect("a=a:1")
				first.end()
				next := pushed("a", "a:2")
				next.UID = "another"
				second := live(t, path, of)
				time.Sleep(time.Minute)
				must.Do(t, second.push.Update(next))
				second.expect(tc.want)
			})
		})
	}
}

// failing is a source that fails before its first delivery.
type failing struct{ *Push }

var errFails = errors.New("it fails")

func (failing) Run(context.Context, func(Snapshot)) error { return errFails }

func TestCheckpointOfASourceThatFails(t *testing.T) {
	inBubble(t, func(t *testing.T, path string) {
		first := live(t, path, nil)
		must.Do(t, first.push.Set(pushed("a", "a:1")))
		first.expect("a=a:1")
		first.end()
		mem := must.Get(NewCheckpoint(CheckpointConfig{Source: failing{NewPush()}, Path: path}))(t)
		var got deliveries
		if err := mem.Run(t.Context(), got.add); err != errFails {
			t.Errorf("Run: %v, want %v", err, errFails)
		}
		if s, n := got.last(); n != 1 || len(s.Pods) != 1 || !s.Incomplete {
			t.Errorf("delivered is %+v in %d, want one pod in one incomplete snapshot", s, n)
		}
	})
}

// The file is written after changes of pods or objects, at most once for each interval.
func TestCheckpointIsWrittenAtIntervals(t *testing.T) {
	inBubble(t, func(t *testing.T, path string) {
		var writes atomic.Int64
		l := live(t, path, nil)
		l.mem.file.disk = countingDisk{&writes}
		set := func(change func(*v1.Pod)) {
			t.Helper()
			pod := pushed("a", "a:1")
			change(pod)
			must.Do(t, l.push.Set(pod))
			synctest.Wait()
		}
		expect := func(want int64) {
			t.Helper()
			synctest.Wait()
			if got := writes.Load(); got != want {
				t.Errorf("written %d times, want %d", got, want)
			}
		}
		set(func(*v1.Pod) {})
		expect(1)
		for i := range 100 {
			time.Sleep(90 * time.Millisecond)
			set(func(p *v1.Pod) { p.Spec.Containers[0].Image = fmt.Sprintf("a:%d", i) })
		}
		expect(1)
		time.Sleep(time.Second)
		expect(2)
		for i := range 10 { // statuses that the node itself has reported
			time.Sleep(time.Minute)
			set(func(p *v1.Pod) {
				p.Spec.Containers[0].Image, p.ResourceVersion = "a:99", fmt.Sprint(i)
				p.Status.Phase, p.Status.PodIP = v1.PodRunning, fmt.Sprintf("10.0.0.%d", i)
				p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, LastTransitionTime: metav1.Now()}}
			})
		}
		expect(2)
		time.Sleep(time.Minute)
		set(func(p *v1.Pod) { p.Spec.Containers[0].Image, p.Status.Phase = "a:99", v1.PodSucceeded })
		expect(3)
		l.end()
		next := live(t, path, nil)
		time.Sleep(time.Minute)
		if s, _ := next.got.last(); len(s.Pods) != 1 || s.Pods[0].Status.Phase != v1.PodSucceeded {
			t.Errorf("remembered is %+v, want one in phase %v", s.Pods, v1.PodSucceeded)
		}
	})
}

type countingDisk struct{ writes *atomic.Int64 }

func (d countingDisk) write(path string, text []byte) error {
	d.writes.Add(1)
	return osDisk{}.write(path, text)
}
func (countingDisk) rename(from, to string) error { return osDisk{}.rename(from, to) }
func (countingDisk) sync(dir string) error        { return osDisk{}.sync(dir) }

// crashingDisk ends after a number of steps; an interrupted write leaves a part of the file.
type crashingDisk struct {
	steps *int
	part  float64
}

var errCrashed = errors.New("the agent has ended")

func (d crashingDisk) step() bool { *d.steps--; return *d.steps >= 0 }

func (d crashingDisk) write(path string, text []byte) error {
	if !d.step() {
		_ = osDisk{}.write(path, text[:int(float64(len(text))*d.part)])
		return errCrashed
	}
	return osDisk{}.write(path, text)
}

func (d crashingDisk) rename(from, to string) error {
	if !d.step() {
		return errCrashed
	}
	return osDisk{}.rename(from, to)
}

func (d crashingDisk) sync(string) error {
	if !d.step() {
		return errCrashed
	}
	return nil
}

// Wherever the agent ends while it writes, the checkpoint is the one before or the new one.
func TestF14_CheckpointOverACrashAtEachStep(t *testing.T) {
	for _, key := range [][]byte{nil, bytes.Repeat([]byte{7}, 32)} {
		for step := range 5 {
			for _, part := range []float64{0, 0.5, 1} {
				path := filepath.Join(t.TempDir(), "checkpoint.json")
				f := checkpointFile{path: path, source: "api", key: key, disk: osDisk{}}
				must.Do(t, f.write(checkpointData{Pods: []*v1.Pod{pushed("a", "a:1")}}))
				left := step
				f.disk = crashingDisk{&left, part}
				err := f.write(checkpointData{Pods: []*v1.Pod{pushed("a", "a:2")}})
				if (err == nil) != (step >= 3) {
					t.Errorf("step %d: %v, want an error in steps 0 to 2 only", step, err)
				}
				f.disk = osDisk{}
				m := must.Get(f.read())(t)
				want := "a:1"
				if step >= 2 {
					want = "a:2"
				}
				if got := m.Pods[0].Spec.Containers[0].Image; got != want {
					t.Errorf("step %d: remembered is %s, want %s", step, got, want)
				}
				must.Do(t, f.write(checkpointData{Pods: []*v1.Pod{pushed("a", "a:3")}}))
				if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
					t.Errorf("step %d: left is %v, %v", step, entries, err)
				}
			}
		}
	}
}

// An invalid file is reported, and replaced when the source has delivered all pods.
func TestCheckpointFileThatIsOfNoUse(t *testing.T) {
	key, other := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	cut := func(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:len(b)-n] } }
	flip := func(b []byte) []byte { b[len(b)-3] ^= 1; return b }
	swap := func(from, to string) func([]byte) []byte {
		return func(b []byte) []byte { return bytes.Replace(b, []byte(from), []byte(to), 1) }
	}
	for name, tc := range map[string]struct {
		wrote, reads []byte
		damage       func([]byte) []byte
		want         string
	}{
		"another key":               {key, other, nil, "the key is another one"},
		"no key":                    {key, nil, nil, "it is encrypted, and there is no key"},
		"not encrypted":             {nil, key, nil, "it is not encrypted though there is a key"},
		"cut, encrypted":            {key, key, cut(1), "cannot be decrypted"},
		"cut to the nonce":          {key, key, func(b []byte) []byte { return b[:bytes.IndexByte(b, '\n')+5] }, "it was cut"},
		"cut":                       {nil, nil, cut(1), "its sum is another"},
		"changed":                   {nil, nil, flip, "its sum is another"},
		"changed, encrypted":        {key, key, flip, "cannot be decrypted"},
		"header changed, encrypted": {key, key, swap(`"version":1`, `"version": 1`), "cannot be decrypted"},
		"another cipher":            {key, key, swap("256-GCM", "256-XYZ"), `it is encrypted with "AES-256-XYZ"`},
		"another source":            {nil, nil, swap(`"source":"api"`, `"source":"b"`), `it is of source "b", not of "api"`},
		"a later version":           {nil, nil, swap(`"version":1`, `"version":2`), "it has version 2, and this agent reads 1"},
		"empty":                     {nil, nil, func([]byte) []byte { return nil }, "its first line is none"},
		"something else":            {nil, nil, func([]byte) []byte { return []byte("[1]\n{}") }, "its first line is none"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, path string) {
				first := live(t, path, func(c *CheckpointConfig) { c.Key = tc.wrote })
				must.Do(t, first.push.Set(pushed("a", "a:1")))
				synctest.Wait()
				first.end()
				if tc.damage != nil {
					text := must.Get(os.ReadFile(path))(t)
					must.Do(t, os.WriteFile(path, tc.damage(text), 0o600))
				}
				second := live(t, path, func(c *CheckpointConfig) { c.Key = tc.reads })
				time.Sleep(time.Minute)
				if got := second.words(); !strings.Contains(got, "incomplete error: the checkpoint of the source in ") || !strings.Contains(got, tc.want) {
					t.Errorf("delivered is %q, want an error with %q", got, tc.want)
				}
				before := must.Get(os.ReadFile(path))(t)
				must.Do(t, second.push.Update(pushed("b", "b:1"))) // which is not all
				time.Sleep(time.Minute)
				if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
					t.Errorf("the file was replaced before a complete delivery of the source: %q, %v", after, err)
				}
				must.Do(t, second.push.Set(pushed("a", "a:2")))
				time.Sleep(time.Minute)
				second.expect("a=a:2")
				second.end()
				third := live(t, path, func(c *CheckpointConfig) { c.Key = tc.reads })
				time.Sleep(time.Minute)
				third.expect("a=a:2 incomplete warned")
			})
		})
	}
}

// Only a regular file is read, and a failed write is reported.
func TestCheckpointPathThatIsOfNoUse(t *testing.T) {
	inBubble(t, func(t *testing.T, path string) {
		must.Do(t, os.MkdirAll(path, 0o700))
		l := live(t, path, nil)
		time.Sleep(time.Minute)
		l.expect("incomplete error: the checkpoint of the source in " + path + ": \"checkpoint.json\" is not a regular file")
		must.Do(t, l.push.Set(pushed("a", "a:1")))
		if got := l.words(); !strings.HasPrefix(got, "a=a:1 error: ") || !strings.Contains(got, "the checkpoint of the source cannot be written: ") {
			t.Errorf("delivered is %q, want an error of the write", got)
		}
		must.Do(t, os.Remove(path))
		time.Sleep(time.Minute)
		l.expect("a=a:1") // it was tried again
		l.end()
		must.Get(os.Stat(path))(t)
	})
}

// shelf has ConfigMaps and Secrets, or is unavailable.
type shelf struct {
	away  error
	data  map[string]string
	asked int
}

func (s *shelf) find(name string) (string, error) {
	s.asked++
	if s.away != nil {
		return "", s.away
	}
	value, ok := s.data[name]
	if !ok {
		return "", env.ErrNotFound
	}
	return value, nil
}

func (s *shelf) ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
	if s.away == context.DeadlineExceeded { // it waits for a server
		<-ctx.Done()
		return nil, ctx.Err()
	}
	value, err := s.find(name)
	if err != nil {
		return nil, err
	}
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"k": value}}, nil
}

func (s *shelf) Secret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	value, err := s.find(name)
	if err != nil {
		return nil, err
	}
	return &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"k": []byte(value)}}, nil
}

// refers is a pod that names ConfigMap c and Secret s, each where a pod can.
func refers() *v1.Pod {
	pod := pushed("a", "a:1")
	pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "A", ValueFrom: &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "c"}, Key: "k"}}}}
	pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s"}}}}
	return pod
}

func (l *life) configMap(name string) string {
	c, err := l.mem.ConfigMap(l.t.Context(), "ns", name)
	if err != nil {
		return err.Error()
	}
	return c.Data["k"]
}

func (l *life) secret(name string) string {
	s, err := l.mem.Secret(l.t.Context(), "ns", name)
	if err != nil {
		return err.Error()
	}
	return string(s.Data["k"])
}

// That an object does not exist is known like an object, also by the next agent (kubeedge #4817).
func TestR4_AbsenceIsKnown(t *testing.T) {
	inBubble(t, func(t *testing.T, path string) {
		there := &shelf{data: map[string]string{}}
		of := func(c *CheckpointConfig) { c.ConfigMaps, c.Secrets = there, there }
		first := live(t, path, of)
		must.Do(t, first.push.Set(refers()))
		synctest.Wait()
		first.configMap("c")
		first.secret("s")
		there.away = errors.New("connection refused")
		expect := func(l *life) {
			t.Helper()
			for _, got := range []string{l.configMap("c"), l.secret("s")} {
				if !strings.Contains(got, "not found") {
					t.Errorf("an object that does not exist is %q", got)
				}
			}
		}
		expect(first)
		first.end()
		second := live(t, path, of)
		expect(second)
		there.away, there.data["c"] = nil, "one"
		if got := second.configMap("c"); got != "one" {
			t.Errorf("the object that was created is %q", got)
		}
	})
}

func TestE5_ObjectsAnswerFromMemory(t *testing.T) {
	refused := errors.New("connection refused")
	key := bytes.Repeat([]byte{3}, 32)
	inBubble(t, func(t *testing.T, path string) {
		there := &shelf{data: map[string]string{"c": "one", "s": "sesame", "other": "x"}}
		of := func(key []byte) func(*CheckpointConfig) {
			return func(c *CheckpointConfig) { c.ConfigMaps, c.Secrets, c.Key = there, there, key }
		}
		expect := func(l *life, configMap, secret string) {
			t.Helper()
			if c, s := l.configMap("c"), l.secret("s"); c != configMap || s != secret {
				t.Errorf("the ConfigMap is %q, the Secret %q, want %q, %q", c, s, configMap, secret)
			}
		}
		first := live(t, path, of(key))
		must.Do(t, first.push.Set(refers()))
		synctest.Wait()
		expect(first, "one", "sesame")
		if first.configMap("other") != "x" {
			t.Error("one that no pod names is not answered")
		}
		there.data["c"] = "two"
		expect(first, "two", "sesame")
		there.away = refused
		expect(first, "two", "sesame")
		first.end() // which writes it

		if text, err := os.ReadFile(path); err != nil || bytes.Contains(text, []byte("uid-a")) || bytes.Contains(text, []byte("c2VzYW1l")) {
			t.Errorf("the file is %q, %v", text, err)
		}
		second := live(t, path, of(key))
		expect(second, "two", "sesame")
		if got := second.configMap("other"); got != "connection refused" {
			t.Errorf("one that no pod names is %q", got)
		}
		for _, tc := range []struct {
			err               error
			fromMemory, waits bool
		}{
			{apierrors.NewServiceUnavailable("x"), true, false},
			{apierrors.NewInternalError(refused), true, false},
			{apierrors.NewTooManyRequests("x", 1), true, false},
			{&apierrors.StatusError{ErrStatus: metav1.Status{Code: 502}}, true, false},
			{context.DeadlineExceeded, true, true},
			{apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "c", nil), false, false},
			{apierrors.NewUnauthorized("x"), true, false},
			{apierrors.NewBadRequest("x"), false, false},
		} {
			there.away = tc.err
			began := time.Now()
			if got := second.configMap("c"); (got == "two") != tc.fromMemory {
				t.Errorf("%v: the answer is %q", tc.err, got)
			}
			if took := time.Since(began); (took > 0) != tc.waits || took > 2*time.Second {
				t.Errorf("%v: the answer took %v", tc.err, took)
			}
		}
		there.away = apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "s")
		if got := second.secret("s"); !strings.Contains(got, "not found") {
			t.Errorf("a missing Secret is %q", got)
		}
		there.away = refused
		if got := second.secret("s"); !strings.Contains(got, "not found") {
			t.Errorf("what was not there is %q", got)
		}
	})
}

// Services answers for those who know Services, runtime classes and tokens.
func (s *shelf) Services(_ context.Context, namespace string) ([]*v1.Service, error) {
	if s.away != nil || namespace == "none" {
		return nil, s.away
	}
	return []*v1.Service{{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", Labels: map[string]string{"a": "b"}}, Spec: v1.ServiceSpec{ClusterIP: "10.0.0.1"}}}, nil
}

func (s *shelf) RuntimeHandler(_ context.Context, class string) (string, error) { return s.find(class) }

func (s *shelf) Token(_ context.Context, pod *v1.Pod, ask *v1.ServiceAccountTokenProjection) (string, error) {
	return s.find(pod.Name + "-" + ask.Audience)
}

// The checkpoint also has Services, runtime classes and, with a key, tokens. A token
// from the checkpoint is returned together with the error, because it may have expired.
func TestE5_PodsNeedMoreThanObjects(t *testing.T) {
	pod := pushed("a", "a:1")
	pod.Spec.RuntimeClassName = new("kata")
	ask := &v1.ServiceAccountTokenProjection{Audience: "vault", Path: "token"}
	pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{ServiceAccountToken: ask}}}}}}
	for _, key := range [][]byte{nil, bytes.Repeat([]byte{3}, 32)} {
		inBubble(t, func(t *testing.T, path string) {
			there := &shelf{data: map[string]string{"kata": "kata-qemu", "a-vault": "a.b.c"}}
			of := func(c *CheckpointConfig) {
				c.Services, c.RuntimeClasses, c.Tokens, c.Key = there, there, there, key
			}
			ctx := t.Context()
			check := func(l *life, tokenWanted string) {
				t.Helper()
				services, err := l.mem.Services(ctx, "ns")
				if err != nil || len(services) != 1 || services[0].Name != "web" || services[0].Spec.ClusterIP != "10.0.0.1" {
					t.Errorf("services %v, %v", services, err)
				}
				if handler, err := l.mem.RuntimeHandler(ctx, "kata"); err != nil || handler != "kata-qemu" {
					t.Errorf("handler %q, %v", handler, err)
				}
				token, err := l.mem.Token(ctx, pod, ask)
				if token != tokenWanted || (err == nil) != (there.away == nil) || err != nil && strings.Contains(err.Error(), "a.b.c") {
					t.Errorf("token %q, %v, want %q", token, err, tokenWanted)
				}
			}
			first := live(t, path, of)
			must.Do(t, first.push.Set(pod))
			synctest.Wait()
			check(first, "a.b.c")
			there.away = errors.New("connection refused")
			check(first, "a.b.c")
			first.end()
			if text, err := os.ReadFile(path); err != nil || bytes.Contains(text, []byte("a.b.c")) {
				t.Errorf("the file is %s, %v", text, err)
			}
			second := live(t, path, of)
			if key == nil {
				check(second, "")
			} else {
				check(second, "a.b.c")
			}
			if services, err := second.mem.Services(ctx, "other"); err == nil {
				t.Errorf("services of a namespace that no pod requested: %v", services)
			}
			there.away = nil
			delete(there.data, "a-vault")
			if token, err := second.mem.Token(ctx, pod, ask); err == nil || token != "" {
				t.Errorf("token %q without a stored one, %v", token, err)
			}
		})
	}
}

// Without a key no Secret is stored on disk, and a request for one returns that reason.
func TestCheckpointSecretsNeedAKey(t *testing.T) {
	inBubble(t, func(t *testing.T, path string) {
		there := &shelf{data: map[string]string{"c": "one", "s": "sesame"}}
		of := func(c *CheckpointConfig) { c.ConfigMaps, c.Secrets = there, there }
		first := live(t, path, of)
		must.Do(t, first.push.Set(refers()))
		synctest.Wait()
		first.configMap("c")
		first.secret("s")
		there.away = errors.New("connection refused")
		if got := first.secret("s"); got != "sesame" {
			t.Errorf("the same agent answers %q", got)
		}
		first.end()
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte(`"one"`)) || bytes.Contains(text, []byte("c2VzYW1l")) {
			t.Errorf("the file is %q, %v", text, err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("its mode is %v, %v", info.Mode(), err)
		}
		second := live(t, path, of)
		if got := second.configMap("c"); got != "one" {
			t.Errorf("the ConfigMap is %q", got)
		}
		if got := second.secret("s"); got != "connection refused (it is not in the checkpoint, because there is no source.CheckpointConfig.Key)" {
			t.Errorf("the Secret is %q", got)
		}
	})
}

// After the replacement of a key, data encrypted with the old key is read, and written with the new key.
func TestCheckpointKeyIsReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, path string) {
		there := &shelf{data: map[string]string{"s": "sesame"}}
		old, next := bytes.Repeat([]byte("o"), keySize), bytes.Repeat([]byte("n"), keySize)
		of := func(key, oldKey []byte) func(*CheckpointConfig) {
			return func(c *CheckpointConfig) { c.Secrets, c.Key, c.OldKey = there, key, oldKey }
		}
		first := live(t, path, of(old, nil))
		must.Do(t, first.push.Set(refers()))
		synctest.Wait()
		first.secret("s")
		first.end()
		second := live(t, path, of(next, old))
		must.Do(t, second.push.Set(refers()))
		synctest.Wait()
		there.away = errors.New("connection refused")
		if got := second.secret("s"); got != "sesame" {
			t.Errorf("with the old key: %q", got)
		}
		second.end()
		third := live(t, path, of(next, nil))
		if got := third.secret("s"); got != "sesame" {
			t.Errorf("with the new key alone: %q", got)
		}
		third.end()
	})
}

func TestCheckpointConfig(t *testing.T) {
	good := CheckpointConfig{Source: NewPush(), Path: "/m.json"}
	for want, change := range map[string]func(*CheckpointConfig){
		"CheckpointConfig.Source is missing":                 func(c *CheckpointConfig) { c.Source = nil },
		"CheckpointConfig.Source has no name":                func(c *CheckpointConfig) { c.Source = NewStaticPush("") },
		`CheckpointConfig.Source is a Push of static pods`:   func(c *CheckpointConfig) { c.Source = NewStaticPush("api") },
		`CheckpointConfig.Path "m.json" is not an absolute`:  func(c *CheckpointConfig) { c.Path = "m.json" },
		"CheckpointConfig.Key has 16 bytes, want 32":         func(c *CheckpointConfig) { c.Key = make([]byte, 16) },
		"CheckpointConfig.OldKey has 16 bytes, want 32":      func(c *CheckpointConfig) { c.Key, c.OldKey = make([]byte, 32), make([]byte, 16) },
		"CheckpointConfig.OldKey is set, and Key is missing": func(c *CheckpointConfig) { c.OldKey = make([]byte, 32) },
		"CheckpointConfig.Patience is negative: -1ns":        func(c *CheckpointConfig) { c.Patience = -1 },
		"CheckpointConfig.WriteInterval is negative: -1ns":   func(c *CheckpointConfig) { c.WriteInterval = -1 },
		"CheckpointConfig.MaxAge is negative: -1ns":          func(c *CheckpointConfig) { c.MaxAge = -1 },
	} {
		c := good
		change(&c)
		if _, err := NewCheckpoint(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
}

// Random lives: sources deliver or not, agents end at any time. No wanted pod is
// missing, no removed pod is delivered, and only a complete
// snapshot makes other pods unwanted.
func TestCheckpointInRandomLives(t *testing.T) {
	for seed := range uint64(60) {
		inBubble(t, func(t *testing.T, path string) {
			r := rand.New(rand.NewPCG(seed, 1))
			server := map[string]string{} // what should run, by name
			last := map[string]string{}   // the source's pods at the last checkpoint
			for range 6 {
				l := live(t, path, nil)
				speaks, took := false, map[string]bool{}
				for range r.IntN(8) {
					name := string(rune('a' + r.IntN(4)))
					switch r.IntN(6) {
					case 0:
						time.Sleep(time.Duration(r.IntN(15)) * time.Second)
						continue
					case 1:
						var pods []*v1.Pod
						for name, image := range server {
							pods = append(pods, pushed(name, image))
						}
						must.Do(t, l.push.Set(pods...))
						speaks = true
					case 2:
						delete(server, name)
						if _, n := l.got.last(); n > 0 && l.said(name) {
							took[name] = true
						}
						l.push.Delete(pushed(name, "").UID)
					default:
						server[name] = fmt.Sprintf("%s:%d", name, r.IntN(1000))
						delete(took, name)
						must.Do(t, l.push.Update(pushed(name, server[name])))
					}
					l.check(seed, server, last, took, speaks)
				}
				if speaks {
					last = map[string]string{}
				}
				synctest.Wait()
				for _, pod := range l.mem.pods.said.Pods {
					last[pod.Name] = pod.Spec.Containers[0].Image
				}
				for name := range took {
					delete(last, name)
				}
				l.end()
			}
		})
	}
}

// said reports whether the source has delivered a pod.
func (l *life) said(name string) bool {
	synctest.Wait()
	l.mem.mu.Lock()
	defer l.mem.mu.Unlock()
	return l.mem.pods.uids[pushed(name, "").UID]
}

func (l *life) check(seed uint64, server, last map[string]string, took map[string]bool, speaks bool) {
	l.t.Helper()
	synctest.Wait()
	s, n := l.got.last()
	if n == 0 {
		return
	}
	if s.Incomplete == speaks {
		l.t.Errorf("seed %d: incomplete is %v, and the source has delivered all pods: %v", seed, s.Incomplete, speaks)
	}
	got := map[string]string{}
	for _, pod := range s.Pods {
		if got[pod.Name] != "" {
			l.t.Errorf("seed %d: pod %s is there twice", seed, pod.Name)
		}
		got[pod.Name] = pod.Spec.Containers[0].Image
		switch image := got[pod.Name]; {
		case took[pod.Name]:
			l.t.Errorf("seed %d: pod %s was removed and is delivered", seed, pod.Name)
		case image != server[pod.Name] && (speaks || image != last[pod.Name]):
			l.t.Errorf("seed %d: pod %s runs %s, which the source has not delivered: %s, before %s", seed, pod.Name, image, server[pod.Name], last[pod.Name])
		}
	}
	if speaks && !reflect.DeepEqual(got, server) {
		l.t.Errorf("seed %d: delivered is %v, want %v", seed, got, server)
	}
	for _, pod := range l.mem.pods.said.Pods {
		if !slices.Contains(s.Pods, pod) {
			l.t.Errorf("seed %d: pod %s of the source is left out", seed, pod.Name)
		}
	}
}

// FuzzMemory reads files of any content, and such as only the agent itself writes, whose sum is
// right: no panic, and an error or what can be written again.
func FuzzMemory(f *testing.F) {
	key := bytes.Repeat([]byte{1}, 32)
	for _, key := range [][]byte{nil, key} {
		text := must.Get((&checkpointFile{source: "api", key: key}).seal(checkpointData{Pods: []*v1.Pod{pushed("a", "a:1")}}))(f)
		f.Add(text, key != nil)
		f.Add(text[:len(text)/2], key != nil)
	}
	f.Add([]byte(`{"pods":[null,{}],"configMaps":[null,{}],"secrets":[{},null]}`), false)
	f.Add([]byte(`{"services":[{"services":[null,{}]},{}],"runtimeClasses":[{}],"tokens":[{},{"podUID":"1","token":"t"}]}`), false)
	f.Fuzz(func(t *testing.T, text []byte, sealed bool) {
		file := checkpointFile{source: "api"}
		line := fmt.Sprintf(`{"version":1,"source":"api","sha256":%q}`, sumOf(text))
		summed := slices.Concat([]byte(line), []byte("\n"), text)
		if sealed {
			file.key = key
		}
		for _, text := range [][]byte{text, summed} {
			m, err := file.open(text)
			if err != nil {
				continue
			}
			m, _ = usable(m)
			new(Checkpoint).take(m)
			if _, err := file.seal(trimmed(m)); err != nil {
				t.Error(err)
			}
		}
	})
}
