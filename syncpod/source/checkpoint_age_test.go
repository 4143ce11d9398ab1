package source

import (
	"bytes"
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// aged is a configuration that forgets pods after two hours.
func aged(c *CheckpointConfig) { c.MaxAge = 2 * time.Hour }

// The age of a checkpoint counts from its last confirmation by the source, and not
// from its last change. A checkpoint that is too old is not used, with a warning.
func TestE5_AgeOfCheckpoint(t *testing.T) {
	for name, tc := range map[string]struct {
		runs, off time.Duration // of the first agent, and until the second one starts
		confirms  bool
		want      string
	}{
		"changed lately":           {0, 2 * time.Hour, false, "a=a:1 incomplete warned"},
		"changed long ago":         {0, 2*time.Hour + time.Second, false, "incomplete warned"},
		"unchanged and confirmed":  {3 * time.Hour, 2 * time.Hour, true, "a=a:1 incomplete warned"},
		"confirmed long ago":       {3 * time.Hour, 2*time.Hour + time.Second, true, "incomplete warned"},
		"unchanged, not confirmed": {3 * time.Hour, time.Second, false, "incomplete warned"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, key := range [][]byte{nil, bytes.Repeat([]byte{3}, keySize)} {
				inBubble(t, func(t *testing.T, path string) {
					of := func(c *CheckpointConfig) { aged(c); c.Key = key }
					first := live(t, path, of)
					must.Do(t, first.push.Set(pushed("a", "a:1")))
					first.expect("a=a:1")
					for began := time.Now(); time.Since(began) < tc.runs; time.Sleep(20 * time.Minute) {
						if tc.confirms {
							first.mem.Confirm()
						}
					}
					if tc.confirms {
						first.mem.Confirm()
					}
					first.end()
					time.Sleep(tc.off)
					second := live(t, path, of)
					time.Sleep(time.Minute)
					second.expect(tc.want)
					must.Do(t, second.push.Set(pushed("b", "b:1")))
					second.expect("b=b:1")
				})
			}
		})
	}
}

// What pods refer to is forgotten with them. Without a MaxAge nothing is ever too old.
func TestE5_AgeOfObjects(t *testing.T) {
	for want, change := range map[string]func(*CheckpointConfig){errFails.Error(): aged, "one": func(*CheckpointConfig) {}} {
		inBubble(t, func(t *testing.T, path string) {
			there := &shelf{data: map[string]string{"c": "one"}}
			of := func(c *CheckpointConfig) { change(c); c.ConfigMaps = there }
			first := live(t, path, of)
			must.Do(t, first.push.Set(refers()))
			synctest.Wait()
			first.configMap("c")
			first.end()
			time.Sleep(1000 * time.Hour)
			there.away = errFails
			if got := live(t, path, of).configMap("c"); got != want {
				t.Errorf("the ConfigMap is %q, want %q", got, want)
			}
		})
	}
}

// pickyDisk replaces all files but one while it is full.
type pickyDisk struct {
	disk
	not  string
	full *atomic.Bool
}

func (d pickyDisk) rename(from, to string) error {
	if to == d.not && d.full.Load() {
		return errors.New("no space left on device")
	}
	return d.disk.rename(from, to)
}

// A confirmation is written at most once a minute, and not before the source has delivered all pods or while the file of
// the pods cannot be written.
func TestConfirmationsAreWrittenAtIntervals(t *testing.T) {
	inBubble(t, func(t *testing.T, path string) {
		var writes atomic.Int64
		l := live(t, path, nil)
		l.mem.file.disk = countingDisk{&writes}
		confirm := func(d time.Duration) int64 {
			t.Helper()
			before := writes.Load()
			for began := time.Now(); time.Since(began) < d; time.Sleep(10 * time.Second) {
				l.mem.Confirm()
			}
			synctest.Wait()
			return writes.Load() - before
		}
		must.Do(t, l.push.Update(pushed("a", "a:1")))
		time.Sleep(time.Minute)
		if n := confirm(time.Hour); n != 0 {
			t.Errorf("%d confirmations are written before the source has delivered all pods, want 0", n)
		}
		must.Do(t, l.push.Set(pushed("a", "a:1")))
		time.Sleep(time.Minute)
		if n := confirm(10 * time.Minute); n != 10 {
			t.Errorf("%d confirmations are written in ten minutes, want 10", n)
		}
		var full atomic.Bool
		full.Store(true)
		l.mem.file.disk = pickyDisk{countingDisk{&writes}, path, &full}
		must.Do(t, l.push.Set(pushed("a", "a:2")))
		time.Sleep(time.Minute)
		confirm(time.Hour)
		f := checkpointFile{path: path, source: "api", disk: osDisk{}}
		m := must.Get(f.read())(t)
		if age := time.Since(f.confirmedAt(m.SavedAt)); m.Pods[0].Spec.Containers[0].Image != "a:1" || age < time.Hour {
			t.Errorf("image %s was confirmed %v ago, though another one is wanted since more than an hour", m.Pods[0].Spec.Containers[0].Image, age)
		}
		full.Store(false)
		time.Sleep(time.Minute)
		if n := confirm(2 * time.Minute); n != 2 {
			t.Errorf("%d confirmations are written in two minutes once the file can be, want 2", n)
		}
	})
}

// A confirmation of another version of the file, of another key, or that was damaged says nothing.
// One whose file cannot be written is an error of the snapshots.
func TestConfirmationThatIsOfNoUse(t *testing.T) {
	key := bytes.Repeat([]byte{1}, keySize)
	for name, spoil := range map[string]func(t *testing.T, f *checkpointFile){
		"missing": func(t *testing.T, f *checkpointFile) { must.Do(t, os.Remove(f.confirmationPath())) },
		"cut": func(t *testing.T, f *checkpointFile) {
			text := must.Get(os.ReadFile(f.confirmationPath()))(t)
			must.Do(t, os.WriteFile(f.confirmationPath(), text[:len(text)-1], 0o600))
		},
		"too large": func(t *testing.T, f *checkpointFile) {
			must.Do(t, os.Truncate(f.confirmationPath(), maxConfirmation+1))
		},
		"a directory": func(t *testing.T, f *checkpointFile) {
			must.Do(t, os.Remove(f.confirmationPath()))
			must.Do(t, os.Mkdir(f.confirmationPath(), 0o700))
		},
		"not encrypted": func(t *testing.T, f *checkpointFile) {
			plain := checkpointFile{path: f.path, source: f.source, disk: osDisk{}, savedAt: f.savedAt}
			must.Get(plain.confirm(f.savedAt.Add(2 * time.Hour)))(t)
		},
		"of another checkpoint": func(t *testing.T, f *checkpointFile) {
			time.Sleep(time.Second)
			must.Do(t, f.write(checkpointData{Pods: []*v1.Pod{pushed("a", "a:2")}}))
		},
		"before the checkpoint": func(t *testing.T, f *checkpointFile) {
			must.Get(f.confirm(f.savedAt.Add(-time.Hour)))(t)
		},
		"the checkpoint in its place": func(t *testing.T, f *checkpointFile) {
			text := must.Get(os.ReadFile(f.path))(t)
			must.Do(t, os.WriteFile(f.confirmationPath(), text, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, path string) {
				f := checkpointFile{path: path, source: "api", key: key, disk: osDisk{}}
				must.Do(t, f.write(checkpointData{Pods: []*v1.Pod{pushed("a", "a:1")}}))
				at := f.savedAt.Add(time.Hour)
				must.Get(f.confirm(at))(t)
				if got := f.confirmedAt(f.savedAt); !got.Equal(at) {
					t.Fatalf("confirmed at %v, want %v", got, at)
				}
				spoil(t, &f)
				m := must.Get(f.read())(t)
				if got := f.confirmedAt(m.SavedAt); !got.Equal(m.SavedAt) {
					t.Errorf("confirmed at %v, want the time of the checkpoint, %v", got, m.SavedAt)
				}
			})
		})
	}
}

// A clock that is behind makes no checkpoint too old: a machine without a hardware clock runs its pods.
func TestB4_AgeByAClockThatIsBehind(t *testing.T) {
	now := time.Now()
	for age, kept := range map[time.Duration]bool{-1000 * time.Hour: true, 0: true, time.Hour: true, time.Hour + 1: false} {
		var r checkpointPods
		m := r.recall(checkpointData{Pods: []*v1.Pod{pushed("a", "a:1")}}, now.Add(-age), now, time.Hour)
		if got := len(m.Pods) == 1 && len(r.checkpointed) == 1 && r.tooOld == 0; got != kept {
			t.Errorf("age %v: kept %v, want %v", age, got, kept)
		}
	}
}

// hinting is a source that has delivered no pods, but has reported changed ConfigMaps.
type hinting struct{}

func (hinting) Name() string { return "api" }

func (hinting) Run(ctx context.Context, deliver func(Snapshot)) error {
	deliver(Snapshot{Incomplete: true, ConfigsChanged: true})
	<-ctx.Done()
	return nil
}

// A delivery of other pods does not reset the age of unconfirmed pods. A complete delivery does.
func TestE5_AgeOfUnconfirmedPods(t *testing.T) {
	for name, tc := range map[string]struct {
		source Source
		say    func(*Push) error
		want   string
	}{
		"another pod":        {nil, func(p *Push) error { return p.Update(pushed("b", "b:1")) }, "incomplete warned"},
		"changed ConfigMaps": {hinting{}, nil, "incomplete warned"},
		"all": {nil, func(p *Push) error {
			return errors.Join(p.Update(pushed("b", "b:1")), p.Set(pushed("a", "a:1"), pushed("b", "b:1")))
		}, "a=a:1 b=b:1 incomplete warned"},
		"all, after a while": {nil, func(p *Push) error {
			err := p.Update(pushed("b", "b:1"))
			time.Sleep(time.Minute)
			return errors.Join(err, p.Set(pushed("b", "b:1"), pushed("a", "a:1")))
		}, "b=b:1 a=a:1 incomplete warned"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, path string) {
				first := live(t, path, aged)
				must.Do(t, first.push.Set(pushed("a", "a:1")))
				synctest.Wait()
				first.end()
				time.Sleep(time.Hour)
				second := live(t, path, func(c *CheckpointConfig) {
					aged(c)
					if tc.source != nil {
						c.Source = tc.source
					}
				})
				if tc.say != nil {
					must.Do(t, tc.say(second.push))
				}
				time.Sleep(time.Minute)
				second.end()
				time.Sleep(time.Hour)
				third := live(t, path, aged)
				time.Sleep(time.Minute)
				third.expect(tc.want)
			})
		})
	}
}
