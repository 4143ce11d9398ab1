package keyring

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// users returns the user names of the credentials that were found.
func users(t *testing.T, image string, secrets ...v1.Secret) []string {
	t.Helper()
	k := must.Get(New(secrets))(t)
	var found []string
	for _, c := range k.Lookup(image) {
		username, _ := c.Login()
		found = append(found, username)
	}
	return found
}

// loginSecret returns a pull secret with one user for one registry.
func loginSecret(name, registry, user, password string) v1.Secret {
	return v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Type:       v1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{v1.DockerConfigJsonKey: fmt.Appendf(nil,
			`{"auths":{%q:{"username":%q,"password":%q}}}`, registry, user, password)},
	}
}

// A secret for one repository is for no other one, although its key matches that.
func TestSecretForOneRepository(t *testing.T) {
	secretFor := func(repository, user string) v1.Secret {
		return v1.Secret{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationRepository: repository}},
			Data:       map[string][]byte{v1.DockerConfigJsonKey: []byte(`{"auths":{"r.io":{"username":"` + user + `","password":"x"},"index.docker.io":{"username":"` + user + `","password":"x"}}}`)},
		}
	}
	secrets := []v1.Secret{secretFor("r.io/a", "a"), secretFor("r.io/b", "b"), secretFor("docker.io/library/nginx", "n")}
	for image, want := range map[string][]string{"r.io/a:v1": {"a"}, "r.io/b": {"b"}, "r.io/a/c": nil, "nginx": {"n"}, "busybox": nil} {
		if got := users(t, image, secrets...); !slices.Equal(got, want) {
			t.Errorf("%s: credentials of %q, want %q", image, got, want)
		}
	}
}

// A pod that names a large secret any number of times costs no more than a few of them.
func TestPullSecretsAreBounded(t *testing.T) {
	large := v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(`{"auths":{}}` + strings.Repeat(" ", 1<<20))}}
	must.Get(New(slices.Repeat([]v1.Secret{large}, 7)))(t)
	if _, err := New(slices.Repeat([]v1.Secret{large}, 80_000)); err == nil || !strings.Contains(err.Error(), "ns/s") {
		t.Errorf("80 GiB: %v", err)
	}
}

func TestLookup(t *testing.T) {
	for _, tc := range []struct {
		registry, image string
		want            bool
	}{
		{"r.io", "r.io/a/b:v1", true},
		{"https://r.io", "r.io/a", true},
		{"http://r.io/", "r.io/a", true},
		{"r.io/v1/", "r.io/a", true},
		{"https://r.io/v2/a", "r.io/a/b", true},
		{"r.io/v2", "r.io/a", false}, // a path, not the API's version
		{"r.io:5000", "r.io:5000/a", true},
		{"r.io", "r.io:5000/a", false},
		{"r.io:5000", "r.io/a", false},
		{"r.io/team", "r.io/team/app", true},
		{"r.io/team/", "r.io/team/app", true},
		{"r.io/team", "r.io/teams/app", true}, // a prefix, as in a kubelet
		{"r.io/team", "r.io/other/app", false},
		{"*.r.io", "eu.r.io/a", true},
		{"*.r.io", "r.io/a", false},
		{"*.r.io", "a.b.r.io/a", false},
		{"*.*.r.io", "a.b.r.io/a", true},
		{"eu-*.r.io", "eu-west.r.io/a", true},
		{"eu-*.r.io", "us-west.r.io/a", false},
		{"*.r.io:5000/team", "eu.r.io:5000/team/a", true},
		{"[.r.io", "x.r.io/a", false},
		{"docker.io", "nginx", true},
		{"https://index.docker.io/v1/", "nginx", true},
		{"https://index.docker.io/v1/", "team/app", true},
		{"https://index.docker.io/v1/", "r.io/app", false},
		{"*.docker.io", "nginx", false},
		{"", "nginx", false},
	} {
		got := len(users(t, tc.image, loginSecret("s", tc.registry, "u", "p"))) == 1
		if got != tc.want {
			t.Errorf("a credential for %q is found for %q: %v", tc.registry, tc.image, got)
		}
	}
}

func TestLookupOrder(t *testing.T) {
	all := []v1.Secret{
		loginSecret("1", "*.r.io", "wild", "1"),
		loginSecret("2", "eu.r.io", "host", "2"),
		loginSecret("3", "eu.r.io/team", "path", "3"),
		loginSecret("4", "https://eu.r.io", "second", "4"),
		loginSecret("5", "eu.r.io/team/app", "repo", "5"),
		loginSecret("6", "eu.r.io/v1/", "host", "2"), // equal to an earlier one
	}
	if got, want := users(t, "eu.r.io/team/app", all...), []string{"repo", "path", "host", "second", "wild"}; !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
	if got, want := users(t, "eu.r.io/x", all...), []string{"host", "second", "wild"}; !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

func TestLookupKeepsTheOrderOfEquals(t *testing.T) {
	var secrets []v1.Secret
	want := make([]string, 90)
	for i := range want { // 30 for each position, one after the other
		place := i % 3
		user := fmt.Sprint("user", i)
		secrets = append(secrets, loginSecret("s", []string{"r.io/a", "r.io", "*.io"}[place], user, "p"))
		want[30*place+i/3] = user
	}
	if got := users(t, "r.io/a", secrets...); !slices.Equal(got, want) {
		t.Errorf("found %v, want them as given", got)
	}
}

func TestSecretForms(t *testing.T) {
	auth := base64.StdEncoding.EncodeToString([]byte("bob:pa:ss"))
	for name, data := range map[string]map[string][]byte{
		"config.json":     {v1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths":{"r.io":{"auth":%q}}}`, auth)},
		"cfg":             {v1.DockerConfigKey: fmt.Appendf(nil, `{"r.io":{"auth":%q,"email":"x"}}`, auth)},
		"unpadded":        {v1.DockerConfigKey: fmt.Appendf(nil, `{"r.io":{"auth":%q}}`, strings.TrimRight(auth, "="))},
		"auth wins":       {v1.DockerConfigKey: fmt.Appendf(nil, `{"r.io":{"auth":%q,"username":"x","password":"y"}}`, auth)},
		"apart":           {v1.DockerConfigKey: []byte(`{"r.io":{"username":"bob","password":"pa:ss"}}`)},
		"the newer alone": {v1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths":{"r.io":{"auth":%q}}}`, auth), v1.DockerConfigKey: []byte(`broken`)},
	} {
		k, err := New([]v1.Secret{{Data: data}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		found := k.Lookup("r.io/a")
		if len(found) != 1 || !found[0].Equal(Of("bob", "pa:ss")) {
			t.Errorf("%s: not bob's credential", name)
		}
	}
	if k, err := New([]v1.Secret{{Data: map[string][]byte{"other": []byte("x")}}}); err != nil || len(k.entries) != 0 {
		t.Errorf("a secret of another kind: %v, %v", k, err)
	}
}

// Tools end base64 with a newline, or wrap its lines, and write files in UTF-16 or with a byte order mark.
func TestG6_PullSecretsAsToolsWriteThem(t *testing.T) {
	auth := base64.StdEncoding.EncodeToString([]byte("bobby:pa:ss"))
	if !strings.HasSuffix(auth, "=") {
		t.Fatal("the text is not padded")
	}
	config := func(auth string) []byte { return fmt.Appendf(nil, `{"auths":{"r.io":{"auth":%q}}}`, auth) }
	wide := []byte("\xff\xfe")
	for _, b := range config(auth) {
		wide = append(wide, b, 0)
	}
	for name, data := range map[string][]byte{
		"a newline (kubernetes #82147)": config(auth + "\n"),
		"CRLF":                          config(auth + "\r\n"),
		"unpadded, a newline":           config(strings.TrimRight(auth, "=") + "\n"),
		"wrapped":                       config(auth[:4] + "\r\n\t" + auth[4:] + " "),
		"a byte order mark":             append([]byte("\ufeff"), config(auth)...),
		"UTF-16":                        wide,
	} {
		for _, key := range []string{v1.DockerConfigJsonKey, v1.DockerConfigKey} {
			if key == v1.DockerConfigKey && name == "UTF-16" {
				continue
			}
			if key == v1.DockerConfigKey {
				data = []byte(strings.TrimSuffix(strings.Replace(string(data), `{"auths":`, "", 1), "}"))
			}
			k, err := New([]v1.Secret{{Data: map[string][]byte{key: data}}})
			if err != nil {
				t.Errorf("%s, %s: %v", name, key, err)
				continue
			}
			if found := k.Lookup("r.io/a"); len(found) != 1 || !found[0].Equal(Of("bobby", "pa:ss")) {
				t.Errorf("%s, %s: not bobby's credential", name, key)
			}
		}
	}
}

// A secret that is not for registries, or that is still empty, keeps no pod from its image.
func TestG6_OtherSecretsAreIgnored(t *testing.T) {
	for name, secret := range map[string]v1.Secret{
		"Opaque":                {Type: v1.SecretTypeOpaque, Data: map[string][]byte{v1.DockerConfigJsonKey: []byte("none")}},
		"key of the other type": {Type: v1.SecretTypeDockercfg, Data: map[string][]byte{v1.DockerConfigJsonKey: []byte("none")}},
		"empty":                 {Type: v1.SecretTypeDockerConfigJson, Data: map[string][]byte{v1.DockerConfigJsonKey: nil}},
	} {
		if k, err := New([]v1.Secret{secret}); err != nil || len(k.Lookup("r.io/a")) > 0 {
			t.Errorf("%s: %v, %v", name, k, err)
		}
	}
}

func TestBrokenSecretsAreNamedAndNotQuoted(t *testing.T) {
	for name, data := range map[string]map[string][]byte{
		"not JSON":   {v1.DockerConfigJsonKey: []byte(`hunter2`)},
		"not base64": {v1.DockerConfigJsonKey: []byte(`{"auths":{"r.io":{"auth":"hunter2!"}}}`)},
		"no colon":   {v1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths":{"r.io":{"auth":%q}}}`, base64.StdEncoding.EncodeToString([]byte("hunter2")))},
		"wrong type": {v1.DockerConfigJsonKey: []byte(`{"auths":{"r.io":"hunter2"}}`)},
	} {
		_, err := New([]v1.Secret{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "login"}, Data: data}})
		if err == nil || !strings.Contains(err.Error(), "ns/login") || !strings.Contains(err.Error(), v1.DockerConfigJsonKey) {
			t.Errorf("%s: error %v does not name secret and key", name, err)
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: error %v quotes the secret", name, err)
		}
	}
}

func TestNothingPrintsACredential(t *testing.T) {
	secrets := []v1.Secret{loginSecret("s", "r.io", "bob", "hunter2")}
	k := must.Get(New(secrets))(t)
	holder := struct {
		k Keyring
		c []Credentials
	}{k, k.Lookup("r.io/a")}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		for _, value := range []any{k, &k, holder.c, holder.c[0], holder, &holder} {
			text := fmt.Sprintf(verb, value)
			if strings.Contains(text, "hunter2") || strings.Contains(text, fmt.Sprintf("%x", "hunter2")) {
				t.Errorf("%s of a %T prints the password: %s", verb, value, text)
			}
		}
	}
}

func TestKeyringWritesToNothing(t *testing.T) {
	secrets := []v1.Secret{loginSecret("a", "r.io", "u", "p"), loginSecret("b", "*.io", "u", "p")}
	before := []v1.Secret{*secrets[0].DeepCopy(), *secrets[1].DeepCopy()}
	if _, err := New(secrets); err != nil || !reflect.DeepEqual(secrets, before) {
		t.Errorf("the secrets were written to (%v)", err)
	}
}

func FuzzLookup(f *testing.F) {
	f.Add("*.r.io:5000/team", "eu.r.io:5000/team/app")
	f.Add("[::1]:5000", "r.io/a")
	f.Fuzz(func(t *testing.T, registry, repository string) {
		k, err := New([]v1.Secret{loginSecret("s", registry, "u", "p")})
		if err == nil && len(k.Lookup(repository)) > 1 {
			t.Error("one credential found twice")
		}
	})
}

// An entry without a login stands for a credential helper: it opens and closes
// nothing.
func TestAnEntryWithoutALoginIsNone(t *testing.T) {
	for _, entry := range []string{`{}`, `{"auth":""}`, `{"auth":"Og=="}`} {
		k, err := New([]v1.Secret{{Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(`{"auths":{"r.io":` + entry + `}}`)}}})
		if found := k.Lookup("r.io/app"); err != nil || len(found) != 0 {
			t.Errorf("%s: %v, %v, want nothing", entry, found, err)
		}
	}
}
