package image

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/image/keyring"
)

// over returns the Manager of the next agent on the same node.
func over(t *testing.T, r *registry, dir string, c Settings) (*Manager, *strings.Builder) {
	t.Helper()
	var log strings.Builder
	c.Runtime = r
	sink := funcr.New(func(_, args string) { log.WriteString(args + "\n") }, funcr.Options{}).GetSink()
	return newTestManagerWith(t, Config{Settings: c, Dir: dir, Log: logr.New(sink)}), &log
}

// G4: after an agent restart, only pods with valid credentials may use an image that an earlier agent has pulled.
func TestG4_AccessOverARestart(t *testing.T) {
	const name = "r.io/private:v1"
	bob, eve := []v1.Secret{loginSecret("s", "r.io", "bob", "right")}, []v1.Secret{loginSecret("s", "r.io", "eve", "wrong")}
	always := func(string) bool { return true }
	for what, tc := range map[string]struct {
		req    Request
		verify func(string) bool
		pulls  int
		reason Reason
	}{
		"the same login":                   {req: Request{Image: name, Secrets: bob}},
		"the same login, never pull":       {req: Request{Image: name, Secrets: bob, Policy: v1.PullNever}},
		"no secret":                        {req: Request{Image: name}, pulls: 1, reason: ErrImagePull},
		"no secret, never pull":            {req: Request{Image: name, Policy: v1.PullNever}, reason: ErrImageNeverPull},
		"another login":                    {req: Request{Image: name, Secrets: eve}, pulls: 1, reason: ErrImagePull},
		"by identifier":                    {req: Request{Image: stored(name).Id, Policy: v1.PullNever}, reason: ErrImageNeverPull},
		"preloaded":                        {req: Request{Image: "r.io/preloaded:v1", Policy: v1.PullNever}},
		"preloaded, verified":              {req: Request{Image: "r.io/preloaded:v1", Policy: v1.PullNever}, verify: always, reason: ErrImageNeverPull},
		"preloaded, verified by a pull":    {req: Request{Image: "r.io/preloaded:v1", Secrets: bob}, verify: always, pulls: 1},
		"preloaded, verified by its ID":    {req: Request{Image: stored("r.io/preloaded:v1").Id, Policy: v1.PullNever}, verify: always, reason: ErrImageNeverPull},
		"preloaded, in the allowlist":      {req: Request{Image: "r.io/preloaded:v1", Policy: v1.PullNever}, verify: func(r string) bool { return r != "r.io/preloaded" }},
		"pulled, and verified like others": {req: Request{Image: name, Secrets: bob, Policy: v1.PullNever}, verify: always},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, dir := &registry{password: "right"}, t.TempDir()
				r.add("r.io/preloaded:v1")
				r.alias(stored("r.io/preloaded:v1").Id, "r.io/preloaded:v1")
				m, log := over(t, r, dir, Settings{})
				must.Do(t, ensure(t, m, Request{Image: name, PodUID: "first", Secrets: bob}))
				r.alias(stored(name).Id, name)
				m, log2 := over(t, r, dir, Settings{VerifyPreloaded: tc.verify})
				tc.req.PodUID = "second"
				if err := ensure(t, m, tc.req); tc.reason == "" && err != nil || tc.reason != "" && !errors.Is(err, tc.reason) {
					t.Errorf("%v, want reason %q", err, tc.reason)
				}
				if n := len(r.pulls) - 1; n != tc.pulls {
					t.Errorf("%d further pulls, want %d", n, tc.pulls)
				}
				if log.Len()+log2.Len() > 0 {
					t.Errorf("logged: %s %s", log, log2)
				}
			})
		})
	}
}

// A pull whose end the agent has not observed counts for the next agent.
func TestG4_AnUnfinishedPullOverARestart(t *testing.T) {
	const name = "r.io/app:v1"
	bob := []v1.Secret{loginSecret("s", "r.io", "bob", "right")}
	synctest.Test(t, func(t *testing.T) {
		r, dir := &registry{fails: status.Error(codes.DeadlineExceeded, "too late")}, t.TempDir()
		m, _ := over(t, r, dir, Settings{})
		if err := ensure(t, m, Request{Image: name, PodUID: "a", Secrets: bob}); !errors.Is(err, ErrImagePull) {
			t.Fatal(err)
		}
		r.fails = nil
		r.add(name)
		m, _ = over(t, r, dir, Settings{})
		if err := ensure(t, m, Request{Image: name, PodUID: "b", Policy: v1.PullNever}); !errors.Is(err, ErrImageNeverPull) {
			t.Errorf("without the secret: %v", err)
		}
		must.Do(t, ensure(t, m, Request{Image: name, PodUID: "c", Secrets: bob}))
		m, _ = over(t, r, dir, Settings{})
		must.Do(t, ensure(t, m, Request{Image: name, PodUID: "c", Secrets: bob, Policy: v1.PullNever}))
	})
}

// A damaged record grants nothing, neither for this agent nor for later ones.
func TestG4_ADamagedRecordIsVerifiedAgain(t *testing.T) {
	const name, other = "r.io/private:v1", "r.io/preloaded:v1"
	bob := []v1.Secret{loginSecret("s", "r.io", "bob", "right")}
	for what, text := range map[string]string{
		"empty": "", "cut": `{"image":"sha256:`, "of another image": `{"image":"sha256:00","repositories":{}}`, "a short hash": `{"repositories":{"r.io/private":{"credentials":["00"]}}}`,
		"huge": strings.Repeat(" ", 5<<20), "binary": "\x00\xff", "null": "null",
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, dir := &registry{password: "right"}, t.TempDir()
				r.add(other)
				m, _ := over(t, r, dir, Settings{})
				must.Do(t, ensure(t, m, Request{Image: name, PodUID: "a", Secrets: bob}))
				overwrite(t, filepath.Join(dir, "pulled"), text)
				m, log := over(t, r, dir, Settings{})
				if err := ensure(t, m, Request{Image: name, PodUID: "b", Policy: v1.PullNever}); !errors.Is(err, ErrImageNeverPull) {
					t.Errorf("without a secret: %v", err)
				}
				must.Do(t, ensure(t, m, Request{Image: other, PodUID: "b", Policy: v1.PullNever}))
				if !strings.Contains(log.String(), "credentials are verified again") || strings.Contains(log.String(), "right") {
					t.Errorf("logged: %s", log)
				}
				must.Do(t, ensure(t, m, Request{Image: name, PodUID: "c", Secrets: bob}))
				r.alias("mirror.io/private:v1", name) // the lost record may have had this repository
				m, log = over(t, r, dir, Settings{})
				if err := ensure(t, m, Request{Image: "mirror.io/private:v1", PodUID: "d", Policy: v1.PullNever}); !errors.Is(err, ErrImageNeverPull) {
					t.Errorf("from another repository: %v", err)
				}
				if err := ensure(t, m, Request{Image: name, PodUID: "e", Secrets: bob, Policy: v1.PullNever}); err != nil || log.Len() > 0 {
					t.Errorf("with the secret, later: %v, %s", err, log)
				}
			})
		})
	}
}

func overwrite(t *testing.T, dir, text string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	must.Do(t, os.WriteFile(files[0], []byte(text), 0o600))
}

// A damaged record of a pull closes its name.
func TestG4_ADamagedRecordOfAPull(t *testing.T) {
	const name = "r.io/app:v1"
	synctest.Test(t, func(t *testing.T) {
		r, dir := &registry{fails: status.Error(codes.DeadlineExceeded, "too late")}, t.TempDir()
		m, _ := over(t, r, dir, Settings{})
		if err := ensure(t, m, Request{Image: name, PodUID: "a", Secrets: []v1.Secret{loginSecret("s", "r.io", "bob", "right")}}); !errors.Is(err, ErrImagePull) {
			t.Fatal(err)
		}
		r.fails = nil
		r.add(name)
		overwrite(t, filepath.Join(dir, "pulling"), "{")
		m, log := over(t, r, dir, Settings{})
		if err := ensure(t, m, Request{Image: name, PodUID: "b", Policy: v1.PullNever}); !errors.Is(err, ErrImageNeverPull) || log.Len() == 0 {
			t.Errorf("%v, logged %q", err, log)
		}
	})
}

// Without a record a credential is not shown to the runtime.
func TestG4_NoPullWithoutARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, dir := &registry{}, t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "pulling"), nil, 0o600); err != nil { // prevents the creation of the directory
			t.Fatal(err)
		}
		m, _ := over(t, r, dir, Settings{})
		bob := []v1.Secret{loginSecret("s", "r.io", "bob", "right")}
		if err := ensure(t, m, Request{Image: "r.io/app:v1", PodUID: "a", Secrets: bob}); !errors.Is(err, ErrImagePull) || len(r.pulls) > 0 {
			t.Errorf("%v, %d pulls", err, len(r.pulls))
		}
		must.Do(t, ensure(t, m, Request{Image: "r.io/public:v1", PodUID: "b"}))
	})
}

// No file contains a secret, other users cannot read the files, and the files of a removed image are removed.
func TestG4_RecordsHoldNoSecretsAndAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, dir := &registry{lag: time.Minute}, t.TempDir()
		m, log := over(t, r, dir, Settings{})
		bob := []v1.Secret{loginSecret("s", "r.io", "bob-the-user", "the-password")}
		go func() {
			time.Sleep(time.Second) // while it is pulled
			wantRecords(t, dir, 1)
		}()
		must.Do(t, ensure(t, m, Request{Image: "r.io/app:v1", PodUID: "a", Secrets: bob}))
		wantRecords(t, dir, 1)
		img := stored("r.io/app:v1")
		m.access.removed(img.Id, imageNames(img))
		wantRecords(t, dir, 0)
		if log.Len() > 0 {
			t.Error(log)
		}
	})
}

// Records of images that another program has removed are deleted if two lists in a row lack them, except those of pulls
// since the list began. An empty list counts for none.
func TestRecordsOfImagesThatOthersRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, dir := &registry{}, t.TempDir()
		pull := func(m *Manager, names ...string) {
			t.Helper()
			for _, name := range names {
				if err := ensure(t, m, Request{Image: name, PodUID: "a", Policy: v1.PullAlways, Secrets: []v1.Secret{loginSecret("s", "r.io", "bob", "right")}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		m, _ := over(t, r, dir, Settings{})
		pull(m, "r.io/gone-before:v1", "r.io/kept:v1")
		time.Sleep(time.Second)

		m, log := over(t, r, dir, Settings{}) // the next agent, which has read no record
		pull(m, "r.io/gone:v1", "r.io/again:v1")
		time.Sleep(time.Second)
		then := time.Now()
		time.Sleep(time.Second)
		pull(m, "r.io/again:v1", "r.io/new:v1")
		m.leases.listed(nil, time.Now())
		wantRecords(t, dir, 5)
		m.leases.listed(map[string]bool{stored("r.io/gone-before:v1").Id: true, stored("r.io/gone:v1").Id: true}, then) // without one that exists
		m.leases.listed(map[string]bool{stored("r.io/kept:v1").Id: true}, then)
		wantRecords(t, dir, 5)
		m.leases.listed(nil, then)
		m.leases.listed(map[string]bool{stored("r.io/kept:v1").Id: true}, then)
		wantRecords(t, dir, 3)
		for _, name := range []string{"r.io/kept:v1", "r.io/again:v1", "r.io/new:v1"} {
			if grants := m.access.files.image(stored(name).Id); len(grants.in) != 1 {
				t.Errorf("the record of %s is lost", name)
			}
		}
		if len(m.access.grants) != 2 {
			t.Errorf("%d records in memory, want those of two images that were pulled since", len(m.access.grants))
		}
		if log.Len() > 0 {
			t.Error(log)
		}
	})
}

func wantRecords(t *testing.T, dir string, want int) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		n++
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), "bob") || strings.Contains(string(text), "password") {
			t.Errorf("%s is in %s", text, path)
		}
		if info, _ := d.Info(); info.Mode() != 0o600 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil || n != want {
		t.Errorf("%d records, %v, want %d", n, err, want)
	}
}

// Secrets that change for ever make no record grow for ever.
func TestGrantsAreBounded(t *testing.T) {
	var g imageGrants
	for i := range 3 * maxRepositories {
		g = g.with(strings.Repeat("r", i+1), keyring.Of("bob", strings.Repeat("x", i)), time.Now())
		g = g.with("same", keyring.Of("bob", strings.Repeat("x", i)), time.Now())
	}
	last := keyring.Of("bob", strings.Repeat("x", 3*maxRepositories-1))
	if len(g.in) > maxRepositories || len(g.in["same"].with) > maxCredentials || !g.verify || !g.in["same"].allows([]keyring.Credentials{last}) {
		t.Errorf("%d repositories, %d credentials, verify %v", len(g.in), len(g.in["same"].with), g.verify)
	}
}

// Whatever is in a record, it opens no image to pods without a credential that it names.
func FuzzImageRecord(f *testing.F) {
	for _, text := range []string{"", "null", "{}", `{"image":"id","repositories":{"r.io/app":{"credentials":["` + strings.Repeat("00", 32) + `"]}}}`, `{"image":"id","repositories":null,"verify":true}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		files := newAccessFiles(t.TempDir(), logr.Discard())
		for _, dir := range []interface {
			Replace(pod types.UID, text []byte, sync bool) error
		}{files.pulled, files.pulling} {
			if err := dir.Replace(fileOf("id"), text, false); err != nil {
				t.Skip(err)
			}
		}
		grants := files.image("id")
		if grants.in == nil && !grants.verify {
			t.Errorf("%q is no record at all", text)
		}
		if len(files.intents("id")) > len(text) && len(text) > 0 {
			t.Errorf("%d pulls in %d bytes", len(files.intents("id")), len(text))
		}
	})
}
