package credentialprovider_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/image/keyring"
	"github.com/podsync/podsync/syncpod/credentialprovider"
)

// A node is the folder of plugins, and a configuration.
type node struct {
	*testing.T
	dir    string
	config credentialprovider.Config
}

const head = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"

func newNode(t *testing.T, providers string) *node {
	t.Helper()
	if goruntime.GOOS == "windows" {
		t.Skip("plugins of these tests are shell scripts")
	}
	n := &node{T: t, dir: t.TempDir()}
	n.config = credentialprovider.Config{File: filepath.Join(t.TempDir(), "config.yaml"), BinDir: n.dir, Env: []string{"PATH=" + os.Getenv("PATH"), "REGION=us"}}
	n.write(n.config.File, head+providers, 0o600)
	return n
}

func (n *node) write(path, text string, mode os.FileMode) {
	n.Helper()
	must.Do(n, os.WriteFile(path, []byte(text), mode))
}

// plugin writes a program that records its requests and answers with the output of a script.
func (n *node) plugin(name, script string) {
	n.Helper()
	n.write(filepath.Join(n.dir, name), "#!/bin/sh\ncat >> "+n.requests(name)+"\necho >> "+n.requests(name)+"\n"+script, 0o755)
}

func (n *node) requests(name string) string {
	return filepath.Join(filepath.Dir(n.config.File), name+".requests")
}

// asked returns the requests to a plugin.
func (n *node) asked(name string) (all []string) {
	n.Helper()
	text, err := os.ReadFile(n.requests(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		n.Fatal(err)
	}
	return strings.Fields(string(text))
}

func (n *node) provider() *credentialprovider.Provider {
	n.Helper()
	p := must.Get(credentialprovider.New(n.config))(n)
	return p
}

// manyLogins is the script of a plugin that returns logins for many registries.
func manyLogins(n int) string {
	return fmt.Sprintf(`echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Image","auth":{'
i=1; while [ $i -lt %d ]; do echo "\"r$i.example.com\":{\"username\":\"u\",\"password\":\"top-secret\"},"; i=$((i+1)); done
echo '"last.example.com":{"username":"u","password":"top-secret"}}}'`, n)
}

// answer is the script of a plugin that returns a login for a registry.
func answer(version, keyType, duration, registry, password string) string {
	if duration != "" {
		duration = `"cacheDuration":"` + duration + `",`
	}
	return fmt.Sprintf(`echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/%s","cacheKeyType":"%s",%s"auth":{"%s":{"username":"u","password":"%s"}}}'`,
		version, keyType, duration, registry, password)
}

func one(name string) string {
	return "- {name: " + name + ", matchImages: ['*.example.com'], defaultCacheDuration: 1h, apiVersion: credentialprovider.kubelet.k8s.io/v1}\n"
}

func podOf(name string, images ...string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}, Spec: v1.PodSpec{ServiceAccountName: "builder"}}
	for i, image := range images {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: fmt.Sprint("c", i), Image: image})
	}
	return pod
}

// passwords returns the password of each registry in secrets.
func passwords(t *testing.T, secrets []v1.Secret) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, s := range secrets {
		var config struct {
			Auths map[string]struct{ Username, Password string }
		}
		must.Do(t, json.Unmarshal(s.Data[v1.DockerConfigJsonKey], &config))
		for registry, a := range config.Auths {
			all[registry] = a.Password
		}
	}
	return all
}

// A plugin is called for the repositories of the images that it matches, and its credentials count as the node's.
func TestPlugin(t *testing.T) {
	n := newNode(t, one("ecr"))
	n.plugin("ecr", answer("v1", "Image", "", "a.example.com", "secret"))
	secrets, err := n.provider().PullSecrets(t.Context(), podOf("p", "a.example.com/team/app:v1", "docker.io/library/nginx", "a.b.example.com/x"))
	if err != nil || len(secrets) != 1 || secrets[0].Type != keyring.SecretTypeNode || secrets[0].Namespace != "" || passwords(t, secrets)["a.example.com"] != "secret" {
		t.Errorf("%d secrets, %v", len(secrets), err)
	}
	want := `{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"a.example.com/team/app"}`
	if asked := n.asked("ecr"); len(asked) != 1 || asked[0] != want {
		t.Errorf("it was asked %q, want %q once", asked, want)
	}
}

// The answer for an image is not used for another one of the same registry.
func TestEachImageHasItsAnswer(t *testing.T) {
	n := newNode(t, one("ecr"))
	n.plugin("ecr", "case $(tail -n 1 "+n.requests("ecr")+") in *one*) "+answer("v1", "Image", "", "a.example.com", "first")+";; *) "+answer("v1", "Image", "", "a.example.com", "second")+";; esac")
	secrets, err := n.provider().PullSecrets(t.Context(), podOf("p", "a.example.com/one", "a.example.com/two"))
	if err != nil || len(secrets) != 2 {
		t.Fatalf("%d secrets, %v", len(secrets), err)
	}
	for i, want := range []string{"first", "second"} {
		repository := "a.example.com/" + []string{"one", "two"}[i]
		if got := passwords(t, secrets[i:i+1])["a.example.com"]; got != want || secrets[i].Annotations[keyring.AnnotationRepository] != repository {
			t.Errorf("the password of %s is %q, want %q", secrets[i].Annotations, got, want)
		}
	}
}

// Credentials are cached for an image, a registry or all images, for as long as the plugin or the configuration says.
func TestCache(t *testing.T) {
	first, second, third := "a.example.com/one", "a.example.com/two", "b.example.com/one"
	for _, tt := range []struct {
		keyType, duration string
		runs              int
	}{{"Image", "", 3}, {"Registry", "", 2}, {"Global", "", 1}, {"Image", "0s", 6}, {"Global", "-1s", 6}} {
		n := newNode(t, one("ecr"))
		n.plugin("ecr", answer("v1", tt.keyType, tt.duration, "*.example.com", "secret"))
		p := n.provider()
		for range 2 {
			for _, name := range []string{first, second, third} {
				if secrets, err := p.PullSecrets(t.Context(), podOf("p", name)); err != nil || len(secrets) != 1 {
					t.Errorf("%+v: %d secrets, %v", tt, len(secrets), err)
				}
			}
		}
		if runs := len(n.asked("ecr")); runs != tt.runs {
			t.Errorf("%+v: %d runs", tt, runs)
		}
	}
}

func TestCacheExpires(t *testing.T) {
	n := newNode(t, one("ecr"))
	n.plugin("ecr", answer("v1", "Image", "1ms", "a.example.com", "secret"))
	p := n.provider()
	for range 2 {
		if _, err := p.PullSecrets(t.Context(), podOf("p", "a.example.com/one")); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Millisecond)
	}
	if runs := len(n.asked("ecr")); runs != 2 {
		t.Errorf("%d runs, want one after the end of the cache, too", runs)
	}
}

// Callers that want the same at the same time share a run.
func TestSharedRun(t *testing.T) {
	n := newNode(t, one("ecr"))
	n.plugin("ecr", "sleep 0.2\n"+answer("v1", "Image", "", "a.example.com", "secret"))
	p := n.provider()
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			if secrets, err := p.PullSecrets(t.Context(), podOf("p", "a.example.com/one")); err != nil || len(secrets) != 1 {
				t.Errorf("%d secrets, %v", len(secrets), err)
			}
		})
	}
	calls.Wait()
	if runs := len(n.asked("ecr")); runs != 1 {
		t.Errorf("%d runs, want 1", runs)
	}
}

// Callers that wait for a plugin share its failure: each would wait as long again otherwise.
func TestSharedFailure(t *testing.T) {
	n := newNode(t, one("ecr"))
	n.plugin("ecr", "sleep 1\nexit 3")
	p := n.provider()
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			if _, err := p.PullSecrets(t.Context(), podOf("p", "a.example.com/one")); err == nil {
				t.Error("no error")
			}
		})
	}
	calls.Wait()
	if runs := len(n.asked("ecr")); runs == 8 {
		t.Errorf("%d runs for 8 callers, want them to share", runs)
	}
}

// A failure is cached, because each start of a container would run into it again. Credentials for one image are looked up for
// that image alone (kubernetes #133079).
func TestR3_FailuresAreCached(t *testing.T) {
	n := newNode(t, one("ecr"))
	n.plugin("ecr", "exit 3")
	p := n.provider()
	for range 5 {
		if _, err := p.PullSecretsFor(t.Context(), podOf("p", "a.example.com/one", "a.example.com/two"), "a.example.com/one:v1"); err == nil {
			t.Error("no error")
		}
	}
	if asked := n.asked("ecr"); len(asked) != 1 || !strings.Contains(asked[0], `"a.example.com/one"`) {
		t.Errorf("asked %q, want once, for one image", asked)
	}
}

type pullSecrets []v1.Secret

func (s pullSecrets) PullSecrets(context.Context, *v1.Pod) ([]v1.Secret, error) {
	return s, errors.New("one is missing")
}

// A plugin that misbehaves causes an error without its output, and other plugins are still called.
func TestPluginsThatFail(t *testing.T) {
	for want, script := range map[string]string{
		"exit status 3":         "echo top-secret >&2; echo top-secret; exit 3",
		"in JSON":               "echo top-secret",
		"is not a Credential":   answer("v1beta1", "Image", "", "a.example.com", "top-secret"),
		"cacheKeyType":          answer("v1", "Some", "", "a.example.com", "top-secret"),
		"no registry":           answer("v1", "Image", "", "top secret", "top-secret"),
		"auth has 1025 items":   manyLogins(1025),
		"more than":             "yes top-secret | head -c 3000000",
		"has not ended":         "sleep 60",
		"has not ended in 50ms": "sh -c 'trap \"\" TERM; sleep 60' & sleep 60",
	} {
		n := newNode(t, one("bad")+one("good"))
		n.plugin("bad", script)
		n.plugin("good", answer("v1", "Image", "", "a.example.com", "secret"))
		n.config.Secrets = pullSecrets{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "own"}}}
		timeout := time.Minute
		if strings.Contains(want, "ended") {
			timeout = 50 * time.Millisecond
		}
		pod := podOf("p", "a.example.com/one")
		p := n.provider()
		p.SetTimeout(timeout)
		secrets, err := p.PullSecrets(t.Context(), pod)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"bad"`) || !strings.Contains(err.Error(), "one is missing") {
			t.Errorf("%.80q: %v, want an error with %q", script, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "top-secret") {
			t.Errorf("%.80q: the error shows what was printed: %v", script, err)
		}
		if timeout == time.Minute && (len(secrets) != 2 || secrets[0].Name != "own" || secrets[1].Name != "credential-provider.good") {
			t.Errorf("%.80q: %d secrets, want those of the pod and of the other plugin", script, len(secrets))
		}
	}
}

// The program of a plugin is in its folder.
func TestProgramsAreConfined(t *testing.T) {
	n := newNode(t, one("ecr"))
	must.Do(t, os.Symlink("/bin/sh", filepath.Join(n.dir, "ecr")))
	if _, err := credentialprovider.New(n.config); err == nil || !strings.Contains(err.Error(), "link out of") {
		t.Errorf("a link to /bin/sh: %v", err)
	}
	must.Do(t, os.Remove(filepath.Join(n.dir, "ecr")))
	if _, err := credentialprovider.New(n.config); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a program: %v", err)
	}
	n.plugin("real", answer("v1", "Image", "", "a.example.com", "secret"))
	must.Do(t, os.Symlink("real", filepath.Join(n.dir, "ecr")))
	must.Get(n.provider().PullSecrets(t.Context(), podOf("p", "a.example.com/one")))(t)
}

// Arguments, variables, and a plugin that has no credentials.
func TestArgumentsAndVariables(t *testing.T) {
	n := newNode(t, "- {name: ecr, matchImages: [a.example.com], defaultCacheDuration: 0s, apiVersion: credentialprovider.kubelet.k8s.io/v1beta1, args: [get, now], env: [{name: REGION, value: eu}]}\n")
	n.plugin("ecr", `[ "$*" = "get now" ] && [ "$REGION" = eu ] || exit 1
echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1beta1","cacheKeyType":"Image","auth":null}'`)
	if secrets, err := n.provider().PullSecrets(t.Context(), podOf("p", "a.example.com/one")); err != nil || len(secrets) > 0 {
		t.Errorf("%d secrets, %v", len(secrets), err)
	}
}

type accounts map[string]*v1.ServiceAccount

func (a accounts) ServiceAccount(_ context.Context, namespace, name string) (*v1.ServiceAccount, error) {
	if account, ok := a[namespace+"/"+name]; ok {
		return account, nil
	}
	return nil, errors.New("not found")
}

// tokens returns another token each time, as an API server does.
type tokens struct {
	ask *v1.ServiceAccountTokenProjection
	n   int
}

func (k *tokens) Token(_ context.Context, pod *v1.Pod, ask *v1.ServiceAccountTokenProjection) (string, error) {
	k.ask = ask
	k.n++
	return fmt.Sprint("token-", k.n, "-of-", pod.Name), nil
}

// withTokens is a node whose plugin wants tokens.
func withTokens(t *testing.T, cacheType, more string) (*node, accounts, *tokens) {
	n := newNode(t, "- {name: ecr, matchImages: [a.example.com], defaultCacheDuration: 1h, apiVersion: credentialprovider.kubelet.k8s.io/v1, "+
		"tokenAttributes: {serviceAccountTokenAudience: registry, cacheType: "+cacheType+", "+more+"}}\n")
	all, k := accounts{"default/builder": {ObjectMeta: metav1.ObjectMeta{UID: "sa", Annotations: map[string]string{"example.com/role": "r1", "other": "x"}}}}, &tokens{}
	n.config.ServiceAccounts, n.config.Tokens = all, k
	return n, all, k
}

// A plugin gets the token and the annotations that it wants, and its credentials are not for pods of other accounts.
func TestServiceAccountTokens(t *testing.T) {
	for cacheType, runs := range map[string]int{"Token": 2, "ServiceAccount": 1} {
		n, all, k := withTokens(t, cacheType, "requireServiceAccount: true, requiredServiceAccountAnnotationKeys: [example.com/role], optionalServiceAccountAnnotationKeys: [absent]")
		n.plugin("ecr", answer("v1", "Image", "", "a.example.com", "secret"))
		p := n.provider()
		for range 2 {
			for _, name := range []string{"first", "second"} {
				secrets, err := p.PullSecrets(t.Context(), podOf(name, "a.example.com/one"))
				if err != nil || len(secrets) != 1 || secrets[0].Namespace != "default" || secrets[0].Type == keyring.SecretTypeNode {
					t.Errorf("%s: %+v, %v", cacheType, secrets, err)
				}
			}
		}
		asked := n.asked("ecr")
		if len(asked) != runs || !strings.HasSuffix(asked[0], `"serviceAccountToken":"token-1-of-first","serviceAccountAnnotations":{"example.com/role":"r1"}}`) || k.ask.Audience != "registry" {
			t.Errorf("%s: it was asked %q, want %d times", cacheType, asked, runs)
		}
		all["default/builder"].Annotations["example.com/role"] = "r2"
		if _, err := p.PullSecrets(t.Context(), podOf("first", "a.example.com/one")); err != nil || len(n.asked("ecr")) != runs+1 {
			t.Errorf("%s: another annotation: %v, %d runs", cacheType, err, len(n.asked("ecr")))
		}
		delete(all["default/builder"].Annotations, "example.com/role")
		if secrets, err := p.PullSecrets(t.Context(), podOf("first", "a.example.com/one")); err != nil || len(secrets) > 0 {
			t.Errorf("%s: without the annotation: %d secrets, %v", cacheType, len(secrets), err)
		}
		pod := podOf("p", "a.example.com/one")
		pod.Spec.ServiceAccountName = ""
		if secrets, err := p.PullSecrets(t.Context(), pod); err != nil || len(secrets) > 0 {
			t.Errorf("%s: without an account: %d secrets, %v", cacheType, len(secrets), err)
		}
		pod.Spec.ServiceAccountName = "gone"
		if _, err := p.PullSecrets(t.Context(), pod); err == nil || !strings.Contains(err.Error(), "default/gone") {
			t.Errorf("%s: an account that is not there: %v", cacheType, err)
		}
	}
}

// A caller without a pod gets the credentials for an image; a plugin that needs the service account of a pod is left out.
func TestImageSecrets(t *testing.T) {
	n, _, _ := withTokens(t, "ServiceAccount", "requireServiceAccount: true")
	n.plugin("ecr", answer("v1", "Image", "", "a.example.com", "secret"))
	if secrets, err := n.provider().ImageSecrets(t.Context(), "a.example.com/one:v1"); err != nil || len(secrets) != 0 || len(n.asked("ecr")) != 0 {
		t.Errorf("a plugin that requires an account: %d secrets, %v, %d runs", len(secrets), err, len(n.asked("ecr")))
	}
	n = newNode(t, one("gcr"))
	n.plugin("gcr", answer("v1", "Image", "", "*.example.com", "secret"))
	secrets := must.Get(n.provider().ImageSecrets(t.Context(), "a.example.com/one:v1"))(t)
	ring, err := keyring.New(secrets)
	if found := ring.Lookup("a.example.com/one:v1"); err != nil || len(found) != 1 || !found[0].Equal(keyring.Of("u", "secret")) || !found[0].Node() {
		t.Errorf("%v, %v", found, err)
	}
	if _, err := n.provider().ImageSecrets(t.Context(), "A B"); err == nil {
		t.Error("a name that is none has no error")
	}
}

// A plugin that returns the token itself must cache by token: another pod would have it.
func TestTokenAsPassword(t *testing.T) {
	for cacheType, ok := range map[string]bool{"Token": true, "ServiceAccount": false} {
		n, _, _ := withTokens(t, cacheType, "requireServiceAccount: false")
		n.plugin("ecr", answer("v1", "Image", "", "a.example.com", "token-1-of-p"))
		_, err := n.provider().PullSecrets(t.Context(), podOf("p", "a.example.com/one"))
		if (err == nil) != ok || err != nil && strings.Contains(err.Error(), "token-1-of-p") {
			t.Errorf("%s: %v", cacheType, err)
		}
		pod := podOf("static", "a.example.com/one")
		pod.Spec.ServiceAccountName = ""
		secrets, err := n.provider().PullSecrets(t.Context(), pod)
		if err != nil || len(secrets) != 1 || secrets[0].Type != keyring.SecretTypeNode {
			t.Errorf("%s: without an account: %d secrets, %v", cacheType, len(secrets), err)
		}
	}
}

// The images of all kinds of containers and of volumes count.
func TestImagesOfAPod(t *testing.T) {
	n := newNode(t, one("ecr"))
	n.plugin("ecr", answer("v1", "Image", "", "a.example.com", "secret"))
	pod := podOf("p", "a.example.com/one", "a.example.com/one:v2", "not an image")
	pod.Spec.InitContainers = []v1.Container{{Image: "a.example.com/init"}}
	pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Image: "a.example.com/debug"}}}
	pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "a.example.com/volume"}}}, {Name: "e"}}
	if _, err := n.provider().PullSecrets(t.Context(), pod); err != nil || len(n.asked("ecr")) != 4 {
		t.Errorf("%v, %q", err, n.asked("ecr"))
	}
}
