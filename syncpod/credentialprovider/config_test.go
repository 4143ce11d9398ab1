package credentialprovider_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/credentialprovider"
)

// Each field of the configuration is checked, and the error names it.
func TestConfigurationIsChecked(t *testing.T) {
	const whole = "name: ecr, matchImages: [a.io], defaultCacheDuration: 1h, apiVersion: credentialprovider.kubelet.k8s.io/v1"
	attributes := func(more string) string {
		return "- {" + whole + ", tokenAttributes: {serviceAccountTokenAudience: a, cacheType: Token, requireServiceAccount: true" + more + "}}\n"
	}
	many := strings.Repeat("- {"+whole+"}\n", 65)
	for i := range 65 {
		many = strings.Replace(many, "name: ecr,", fmt.Sprintf("name: ecr%d,", i), 1)
	}
	for want, text := range map[string]string{
		"providers has no item":                "",
		"two providers":                        "- {" + whole + "}\n- {" + whole + "}\n",
		"providers has 65 items":               many,
		"providers[0].name":                    "- {" + strings.Replace(whole, "ecr", "../ecr", 1) + "}\n",
		"providers[0].matchImages has no item": "- {" + strings.Replace(whole, "[a.io]", "[]", 1) + "}\n",
		"providers[0].matchImages[0]":          "- {" + strings.Replace(whole, "a.io", "https://a.io", 1) + "}\n",
		"defaultCacheDuration is missing":      "- {" + strings.Replace(whole, "defaultCacheDuration: 1h, ", "", 1) + "}\n",
		"defaultCacheDuration is -1h":          "- {" + strings.Replace(whole, "1h", "-1h", 1) + "}\n",
		"providers[0].apiVersion":              "- {" + strings.Replace(whole, "/v1", "/v2", 1) + "}\n",
		"env[0].name":                          "- {" + whole + ", env: [{name: 'a=b', value: c}]}\n",
		`unknown field "matchImage"`:           "- {" + whole + ", matchImage: [a]}\n",
		"tokenAttributes is set, and api":      "- {" + strings.Replace(whole, "/v1", "/v1beta1", 1) + ", tokenAttributes: {}}\n",
		"serviceAccountTokenAudience":          "- {" + whole + ", tokenAttributes: {}}\n",
		"cacheType":                            "- {" + whole + ", tokenAttributes: {serviceAccountTokenAudience: a, cacheType: Pod}}\n",
		"requireServiceAccount is missing":     "- {" + whole + ", tokenAttributes: {serviceAccountTokenAudience: a, cacheType: Token}}\n",
		"requireServiceAccount is false":       "- {" + whole + ", tokenAttributes: {serviceAccountTokenAudience: a, cacheType: Token, requireServiceAccount: false, requiredServiceAccountAnnotationKeys: [a]}}\n",
		`"a" twice`:                            attributes(", requiredServiceAccountAnnotationKeys: [a], optionalServiceAccountAnnotationKeys: [a]"),
		`"a b"`:                                attributes(", optionalServiceAccountAnnotationKeys: ['a b']"),
		"Tokens or ServiceAccounts is missing": attributes(""),
		"already set":                          "- {" + whole + ", name: other}\n",
	} {
		n := newNode(t, text)
		n.plugin("ecr", "")
		if _, err := credentialprovider.New(n.config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.200s: %v, want an error with %q", text, err, want)
		}
	}
}

// The configuration may be in several files of a folder.
func TestFolderOfConfigurations(t *testing.T) {
	n := newNode(t, "")
	dir := t.TempDir()
	for file, name := range map[string]string{"b.yaml": "second", "a.json": "first", "c.txt": "ignored"} {
		n.write(filepath.Join(dir, file), head+one(name), 0o600)
		n.plugin(name, answer("v1", "Image", "", "a.example.com", name))
	}
	n.config.File = dir
	secrets, err := n.provider().PullSecrets(t.Context(), podOf("p", "a.example.com/one"))
	if err != nil || len(secrets) != 2 || secrets[0].Name != "credential-provider.first" || secrets[1].Name != "credential-provider.second" {
		t.Errorf("%d secrets, %v", len(secrets), err)
	}
}

// A file above 1 MiB, a folder with too many files and a FIFO are not read.
func TestConfigurationFilesAreBounded(t *testing.T) {
	n := newNode(t, one("ecr"))
	n.plugin("ecr", "")
	must.Do(t, os.Truncate(n.config.File, 1<<40))
	if _, err := credentialprovider.New(n.config); err == nil || !strings.Contains(err.Error(), n.config.File) {
		t.Errorf("a terabyte: %v", err)
	}
	n.config.File = t.TempDir()
	for i := range 65 {
		n.write(filepath.Join(n.config.File, fmt.Sprintf("%d.yaml", i)), head+one("ecr"), 0o600)
	}
	if _, err := credentialprovider.New(n.config); err == nil || !strings.Contains(err.Error(), "has 65 files") {
		t.Errorf("65 files: %v", err)
	}
	n.config.File = t.TempDir()
	must.Do(t, exec.Command("mkfifo", filepath.Join(n.config.File, "a.yaml")).Run())
	if _, err := credentialprovider.New(n.config); err == nil {
		t.Error("a FIFO is read")
	}
}

func TestProviderConfigIsChecked(t *testing.T) {
	n := newNode(t, one("ecr"))
	n.plugin("ecr", "")
	for want, change := range map[string]func(c *credentialprovider.Config){
		"Config.File":   func(c *credentialprovider.Config) { c.File = "" },
		"Config.BinDir": func(c *credentialprovider.Config) { c.BinDir = "plugins" },
		"no such file":  func(c *credentialprovider.Config) { c.File = filepath.Join(os.TempDir(), "podsync-nonexistent") },
	} {
		c := n.config
		change(&c)
		if _, err := credentialprovider.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}
