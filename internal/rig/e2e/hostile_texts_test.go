//go:build linux

package e2e

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

const (
	// hostileText clears a terminal, sets its title and colour, turns the direction of a text and forges a line.
	hostileText = "\x1b[2J\x1b]0;owned\x07\u009b31m\u202ecba\u2066\r\nJan  1 00:00:00.000  forged line\n"
	// canaryValue is the value of the Secret that the agent has for each name: TestHostileContainers looks for it everywhere.
	canaryValue = "h0st1le-c4n4ry&5ecret"
	// evilHost is the registry that the test serves.
	evilHost = "evil.podsync.test"
)

// texts returns the attacks whose means are texts: of a command, of an image and of a registry. They repeat a secret,
// have any length, and have characters that a terminal obeys.
func (s *siege) texts() []offence {
	long := strings.Repeat("x", 30<<10)
	all := []offence{
		{name: "text-command", attack: []string{"deaf"}, change: many(20, func(c *v1.Container) {
			c.Env, c.Command = []v1.EnvVar{{Name: "B", Value: long + hostileText}}, []string{"/$(B)"}
		}), check: (*siege).textsAreHarmless},
		{name: "text-secret", attack: []string{"deaf"}, change: many(1, func(c *v1.Container) { c.Command = []string{"/bin/app-$(PW)"} }), check: (*siege).secretIsRedacted},
		{name: "text-hook", attack: []string{"deaf"}, change: many(1, func(c *v1.Container) {
			print := &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"/bin/sh", "-c", "echo failed with $PW >&2; exit 1"}}}
			c.Lifecycle = &v1.Lifecycle{PostStart: print, PreStop: print}
		}), check: (*siege).textsAreHarmless},
		{name: "text-probe", attack: []string{"deaf"}, change: many(1, func(c *v1.Container) {
			c.LivenessProbe = &v1.Probe{PeriodSeconds: 1, FailureThreshold: 1, ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/bin/sh", "-c", "echo failed with $PW; exit 1"}}}}
		}), event: "Unhealthy", words: "probe"},
		{name: "text-message", attack: []string{"deaf"}, change: many(1, func(c *v1.Container) {
			c.Command = []string{"/bin/sh", "-c", `printf '\033[2J\033]0;owned\007\r' > /dev/termination-log; exit 1`}
		}), check: (*siege).textsAreHarmless},
	}
	if s.hosts != "" {
		all = append(all,
			offence{name: "text-registry", attack: []string{"deaf"}, change: many(5, pullEvil("refused")), event: "Failed", words: "403"},
			offence{name: "text-user", attack: []string{"deaf"}, change: many(60, pullEvil("user")), check: (*siege).textsAreHarmless},
		)
	}
	return all
}

// many gives the pod this many containers, and a variable from a Secret.
func many(count int, change func(*v1.Container)) func(*siege, level, *v1.Pod) {
	return func(_ *siege, l level, p *v1.Pod) {
		p.Spec.Containers = nil
		for i := range count {
			c := attacker(l, fmt.Sprint("app", i), "deaf")
			if i == 0 {
				c.Name = "app"
			}
			if change(&c); c.Env == nil {
				c.Env = []v1.EnvVar{{Name: "PW", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "s"}, Key: "password"}}}}
			}
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
		p.Spec.SecurityContext.RunAsNonRoot = new(true)
		if p.Spec.SecurityContext.RunAsUser == nil && count < 60 {
			p.Spec.SecurityContext.RunAsUser = new(int64(1000))
		}
		if count == 60 { // the image decides on the user
			p.Spec.SecurityContext.RunAsUser, p.Spec.SecurityContext.RunAsGroup = nil, nil
		}
	}
}

func pullEvil(repository string) func(*v1.Container) {
	return func(c *v1.Container) {
		c.Image, c.ImagePullPolicy, c.Command = evilHost+"/"+repository+":v1", v1.PullIfNotPresent, nil
	}
}

// textsAreHarmless waits until the containers have failed, and checks the reports about them.
func (s *siege) textsAreHarmless(p *v1.Pod) error {
	err := s.until(patience, func() error {
		status := s.status(p.UID)
		for _, c := range status.ContainerStatuses {
			if w := c.State.Waiting; c.RestartCount == 0 && (w == nil || w.Message == "" || w.Reason == "ContainerCreating") && c.State.Terminated == nil {
				return fmt.Errorf("container %s of %s has not failed: %+v", c.Name, p.Name, c.State)
			}
		}
		if len(status.ContainerStatuses) == 0 {
			return errors.New("no status yet")
		}
		return nil
	})
	time.Sleep(3 * time.Second)
	return errors.Join(err, s.reportsAreHarmless(p))
}

// reportsAreHarmless checks the statuses and events of a pod.
func (s *siege) reportsAreHarmless(p *v1.Pod) error {
	s.target.mu.Lock()
	defer s.target.mu.Unlock()
	for _, l := range s.target.lines[string(p.UID)] {
		sent, err := json.Marshal(l.Status)
		if err != nil {
			return err
		}
		if len(sent) > 512<<10 || len(l.Message) > 8<<10 {
			return fmt.Errorf("a status of %d bytes, or an event of %d", len(sent), len(l.Message))
		}
		texts := []string{l.Reason, l.Message}
		for _, c := range l.Status.ContainerStatuses {
			if c.State.Waiting != nil {
				texts = append(texts, c.State.Waiting.Reason, c.State.Waiting.Message)
			}
		}
		for _, text := range texts {
			if i := strings.IndexFunc(text, obeyed); i >= 0 || strings.Contains(text, "\nJan  1") || !utf8.ValidString(text) {
				return fmt.Errorf("a text that a terminal obeys: %.300q", text[max(0, i-100):])
			}
		}
	}
	return nil
}

// obeyed reports whether a terminal obeys a character, or turns text for it.
func obeyed(c rune) bool {
	return c != '\n' && c != '\t' && (unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c))
}

// secretIsRedacted waits until the runtime has refused the command, and checks that the value was replaced in its error.
func (s *siege) secretIsRedacted(p *v1.Pod) error {
	err := s.until(patience, func() error {
		for _, e := range s.events(p.UID, "Failed") {
			if strings.Contains(e, "[redacted]") {
				return nil
			}
		}
		return fmt.Errorf("%s has no event with a redacted value", p.Name)
	})
	return errors.Join(err, s.reportsAreHarmless(p))
}

// findCanary looks for the value of the Secret, and for lines that texts have forged, in everything that the agent has
// written: its log, its reports, and its records on the disk.
func (s *siege) findCanary() {
	found := func(where, text string) {
		for _, form := range []string{canaryValue, `h0st1le-c4n4ry\u00265ecret`, "h0st1le-c4n4ry%265ecret"} {
			if i := strings.Index(text, form); i >= 0 {
				s.Errorf("%s has the value of a Secret: ...%q...", where, text[max(0, i-200):min(len(text), i+100)])
				return
			}
		}
	}
	log := must.Get(os.ReadFile(s.stderr.Name()))(s)
	found("the log", string(log))
	if i := strings.IndexFunc(string(log), obeyed); i >= 0 {
		s.Errorf("the log has a character that a terminal obeys: %q", log[max(0, i-200):min(len(log), i+100)])
	}
	for line := range strings.Lines(string(log)) {
		if strings.HasPrefix(line, "Jan  1 00:00:00.000") {
			s.Errorf("a forged line in the log: %q", line)
		}
	}
	for _, of := range []string{"records", "statuses", "images", "evictions", "cgroups"} {
		err := filepath.WalkDir(filepath.Join(s.dir, "root", of), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			text, err := os.ReadFile(path)
			found(path, string(text))
			return err
		})
		if err != nil {
			s.Error(err)
		}
	}
	for _, path := range []string{"/pods", "/metrics/resource", "/metrics/cadvisor", "/stats/summary", "/healthz"} {
		resp, err := s.answer(path)
		if err != nil {
			s.Error(err)
		}
		found(path, resp)
	}
	s.target.mu.Lock()
	defer s.target.mu.Unlock()
	for uid, lines := range s.target.lines {
		for _, l := range lines {
			text, err := json.Marshal(l)
			if err != nil {
				s.Error(err)
			}
			found("a report of "+uid, string(text))
		}
	}
}

// answer returns the answer of the agent's server.
func (s *siege) answer(path string) (string, error) {
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(s.dir, "sockets", "looks"))
	}}}
	resp, err := client.Get("http://agent" + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	_, err = text.ReadFrom(resp.Body)
	return text.String(), err
}

// serveRegistry serves a registry to the runtime if it is one of containerd.sh, which reads the files of hosts beside its
// socket. The registry refuses one repository with a text of 1 MB, and has an image with a user of 1 MB in another one.
func (s *siege) serveRegistry(endpoint string) {
	hosts := filepath.Join(filepath.Dir(strings.TrimPrefix(endpoint, "unix://")), "registries")
	if config, err := os.ReadFile(filepath.Join(filepath.Dir(hosts), "config.toml")); err != nil || !bytes.Contains(config, []byte(hosts)) {
		s.Logf("no attacks by a registry: the runtime reads no %s (%v)", hosts, err)
		return
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(s.node, err)
	blobs := map[string][]byte{}
	add := func(blob []byte) (digest string) {
		digest = fmt.Sprintf("sha256:%x", sha256.Sum256(blob))
		blobs[digest] = blob
		return digest
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	must.Do(s.node, errors.Join(w.WriteHeader(&tar.Header{Name: "a", Mode: 0o644}), w.Close()))
	layerDigest := add(layer.Bytes())
	config := must.Get(json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux", "rootfs": map[string]any{"type": "layers", "diff_ids": []string{layerDigest}},
		"config": map[string]any{"User": hostileText + strings.Repeat("u", 1<<20), "Cmd": []string{"/a"}},
	}))(s.node)
	descriptor := func(kind string, blob []byte) map[string]any {
		return map[string]any{"mediaType": kind, "size": len(blob), "digest": add(blob)}
	}
	manifest := must.Get(json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": descriptor("application/vnd.oci.image.config.v1+json", config),
		"layers": []any{descriptor("application/vnd.oci.image.layer.v1.tar", layer.Bytes())},
	}))(s.node)
	manifestDigest := add(manifest)
	mux := http.NewServeMux()
	mux.HandleFunc("/v2/user/", func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		if name == "v1" {
			name = manifestDigest
		}
		blob, ok := blobs[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		kind := "application/octet-stream"
		if name == manifestDigest {
			kind = "application/vnd.oci.image.manifest.v1+json"
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Docker-Content-Digest", name)
		w.Header().Set("Content-Length", fmt.Sprint(len(blob)))
		if r.Method == http.MethodGet {
			_, _ = w.Write(blob) // the runtime may have left
		}
	})
	mux.HandleFunc("/v2/refused/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(map[string]any{"errors": []any{map[string]string{"code": "DENIED", "message": hostileText + strings.Repeat("x", 1<<20) + hostileText}}})
	})
	mux.HandleFunc("/v2/{$}", func(http.ResponseWriter, *http.Request) {})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go server.Serve(lis)
	dir := filepath.Join(hosts, evilHost)
	must.Do(s.node, os.MkdirAll(dir, 0o755))
	must.Do(s.node, os.WriteFile(filepath.Join(dir, "hosts.toml"), fmt.Appendf(nil, "server = \"http://%s\"\n[host.\"http://%[1]s\"]\ncapabilities = [\"pull\", \"resolve\"]\n", lis.Addr()), 0o644))
	s.hosts = dir
	s.Cleanup(func() {
		server.Close()
		if err := os.RemoveAll(dir); err != nil {
			s.Error(err)
		}
		if _, err := s.node.images.RemoveImage(context.Background(), &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: evilHost + "/user:v1"}}); err != nil {
			s.Error(err)
		}
	})
}
