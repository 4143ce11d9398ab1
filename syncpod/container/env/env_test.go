package env_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/cri/critest/podtest"
	"github.com/podsync/podsync/syncpod/container/env"
)

func ptr[T any](v T) *T { return &v }

// world is a source of all objects, which records its calls.
type world struct {
	configMaps map[string]map[string]string
	secrets    map[string]map[string]string
	services   map[string][]*v1.Service
	fail       error
	calls      []string
}

func (w *world) call(kind, name string) error {
	w.calls = append(w.calls, kind+" "+name)
	return w.fail
}

func (w *world) ConfigMap(_ context.Context, namespace, name string) (*v1.ConfigMap, error) {
	if err := w.call("cm", namespace+"/"+name); err != nil {
		return nil, err
	}
	data, ok := w.configMaps[name]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
	}
	return &v1.ConfigMap{Data: data}, nil
}

func (w *world) Secret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	if err := w.call("secret", namespace+"/"+name); err != nil {
		return nil, err
	}
	data, ok := w.secrets[name]
	if !ok {
		return nil, fmt.Errorf("my store: %w", env.ErrNotFound)
	}
	s := &v1.Secret{Data: map[string][]byte{}}
	for key, value := range data {
		s.Data[key] = []byte(value)
	}
	return s, nil
}

func (w *world) Services(_ context.Context, namespace string) ([]*v1.Service, error) {
	if err := w.call("services", namespace); err != nil {
		return nil, err
	}
	return w.services[namespace], nil
}

func (w *world) FileKey(_ context.Context, _ *v1.Pod, ref *v1.FileKeySelector) (string, error) {
	if err := w.call("file", ref.VolumeName+"/"+ref.Path); err != nil {
		return "", err
	}
	if ref.Key != "K" {
		return "", env.ErrNotFound
	}
	return "from-file", nil
}

func (w *world) sources() env.Sources {
	return env.Sources{
		ConfigMaps: env.ConfigMapsFunc(w.ConfigMap),
		Secrets:    env.SecretsFunc(w.Secret),
		Services:   w,
	}
}

func pod(c v1.Container) *v1.Pod {
	c.Name = "c"
	pod := podtest.Pod("p", podtest.Namespace("ns"), podtest.UID("u-1"), func(p *v1.Pod) { p.Spec.Containers = []v1.Container{c} })
	pod.Spec.EnableServiceLinks = ptr(false)
	return pod
}

func resolve(t *testing.T, w *world, p *v1.Pod) (map[string]string, error) {
	t.Helper()
	vars, err := env.MakeEnvironment(t.Context(), env.Input{Pod: p, Container: "c", FileKey: w.FileKey}, w.sources())
	m := map[string]string{}
	for _, v := range vars {
		if _, again := m[v.Name]; again {
			t.Errorf("%s is listed twice", v.Name)
		}
		m[v.Name] = v.Value
	}
	return m, err
}

func text(name, value string) v1.EnvVar { return v1.EnvVar{Name: name, Value: value} }

func from(name string, source v1.EnvVarSource) v1.EnvVar {
	return v1.EnvVar{Name: name, ValueFrom: &source}
}

func cmKey(name, key string, optional *bool) v1.EnvVarSource {
	return v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{
		LocalObjectReference: v1.LocalObjectReference{Name: name}, Key: key, Optional: optional}}
}

func secretKey(name, key string, optional *bool) v1.EnvVarSource {
	return v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{
		LocalObjectReference: v1.LocalObjectReference{Name: name}, Key: key, Optional: optional}}
}

func fileKey(key string, optional *bool) v1.EnvVarSource {
	return v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{VolumeName: "v", Path: "f", Key: key, Optional: optional}}
}

func allOf(kind, name, prefix string, optional *bool) v1.EnvFromSource {
	ref := v1.LocalObjectReference{Name: name}
	if kind == "cm" {
		return v1.EnvFromSource{Prefix: prefix, ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: ref, Optional: optional}}
	}
	return v1.EnvFromSource{Prefix: prefix, SecretRef: &v1.SecretEnvSource{LocalObjectReference: ref, Optional: optional}}
}

func TestOrderAndPrecedence(t *testing.T) {
	w := &world{
		configMaps: map[string]map[string]string{"one": {"Z": "1", "B": "1"}, "two": {"B": "2", "A": "2"}},
		services:   map[string][]*v1.Service{"default": {service("kubernetes", "10.0.0.1", port("", 443))}},
	}
	p := pod(v1.Container{
		EnvFrom: []v1.EnvFromSource{allOf("cm", "one", "", nil), allOf("cm", "two", "", nil)},
		Env:     []v1.EnvVar{text("Y", "$(B)"), text("B", "$(KUBERNETES_SERVICE_HOST)"), text("Y", "$(Y)$(B)"), text("KUBERNETES_SERVICE_PORT", "1")},
	})
	vars := must.Get(env.MakeEnvironment(t.Context(), env.Input{Pod: p, Container: "c", FileKey: w.FileKey}, w.sources()))(t)
	want := []env.Var{
		{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}, {"KUBERNETES_SERVICE_PORT", "1"},
		{"KUBERNETES_PORT", "tcp://10.0.0.1:443"}, {"KUBERNETES_PORT_443_TCP", "tcp://10.0.0.1:443"},
		{"KUBERNETES_PORT_443_TCP_PROTO", "tcp"}, {"KUBERNETES_PORT_443_TCP_PORT", "443"}, {"KUBERNETES_PORT_443_TCP_ADDR", "10.0.0.1"},
		{"B", "10.0.0.1"}, {"Z", "1"}, {"A", "2"}, {"Y", "210.0.0.1"},
	}
	if !reflect.DeepEqual(values(vars), values(want)) {
		t.Errorf("got  %q\nwant %q", values(vars), values(want))
	}
}

// values returns the variables with their values, which their String hides.
func values(vars []env.Var) []string {
	var list []string
	for _, v := range vars {
		list = append(list, v.Name+"="+v.Value)
	}
	return list
}

func TestOptionalAndRequired(t *testing.T) {
	w := func() *world {
		return &world{
			configMaps: map[string]map[string]string{"cm": {"K": "from-cm"}},
			secrets:    map[string]map[string]string{"s": {"K": "from-secret"}},
		}
	}
	for name, tc := range map[string]struct {
		source v1.EnvVarSource
		want   string
		fails  string
	}{
		"ConfigMap key":                         {cmKey("cm", "K", nil), "from-cm", ""},
		"ConfigMap without the key":             {cmKey("cm", "X", nil), "", `key "X" in ConfigMap "cm"`},
		"no ConfigMap":                          {cmKey("x", "K", ptr(false)), "", `ConfigMap "x"`},
		"optional ConfigMap key":                {cmKey("cm", "X", ptr(true)), "before", ""},
		"optional ConfigMap":                    {cmKey("x", "K", ptr(true)), "before", ""},
		"Secret key":                            {secretKey("s", "K", nil), "from-secret", ""},
		"Secret without the key":                {secretKey("s", "X", ptr(false)), "", `key "X" in Secret "s"`},
		"no Secret":                             {secretKey("x", "K", nil), "", `Secret "x"`},
		"optional Secret key":                   {secretKey("s", "X", ptr(true)), "before", ""},
		"optional Secret":                       {secretKey("x", "K", ptr(true)), "before", ""},
		"file key":                              {fileKey("K", nil), "from-file", ""},
		"no file key":                           {fileKey("X", nil), "", `key "X" of file "f" in volume "v"`},
		"optional file key":                     {fileKey("X", ptr(true)), "before", ""},
		"a source of no kind":                   {v1.EnvVarSource{}, "", "no source"},
		"an optional key of a ConfigMap exists": {cmKey("cm", "K", ptr(true)), "from-cm", ""},
		"an optional key of a Secret exists":    {secretKey("s", "K", ptr(true)), "from-secret", ""},
	} {
		got, err := resolve(t, w(), pod(v1.Container{Env: []v1.EnvVar{text("V", "before"), from("V", tc.source)}}))
		if tc.fails == "" {
			if err != nil || got["V"] != tc.want {
				t.Errorf("%s: %q, error %v; want %q", name, got["V"], err, tc.want)
			}
			continue
		}
		var typed *env.Error
		if !errors.As(err, &typed) || typed.Pod != "p" || typed.Namespace != "ns" || typed.Container != "c" || typed.Item != "variable V" {
			t.Errorf("%s: error %#v, want pod, container and variable in it", name, err)
			continue
		}
		if !strings.Contains(err.Error(), tc.fails) || !strings.Contains(err.Error(), "pod ns/p, container c: variable V") {
			t.Errorf("%s: error %v, want %q", name, err, tc.fails)
		}
		if missing := tc.source != (v1.EnvVarSource{}); errors.Is(err, env.ErrNotFound) != missing {
			t.Errorf("%s: is ErrNotFound %v, want %v", name, !missing, missing)
		}
	}
}

// An API server rejects both; a kubelet uses the value.
func TestValueBeforeValueFrom(t *testing.T) {
	v := from("V", cmKey("none", "K", nil))
	v.Value = "value"
	if got, err := resolve(t, &world{}, pod(v1.Container{Env: []v1.EnvVar{v}})); err != nil || got["V"] != "value" {
		t.Errorf("%q, error %v; want the value", got["V"], err)
	}
}

func TestEnvFrom(t *testing.T) {
	w := func() *world {
		return &world{
			configMaps: map[string]map[string]string{"cm": {"A": "1", "k.dot": "2", "1ST": "3", "a b!": "4", "a=b": "5", "ü": "6", "tab\t": "7", "": "8"}},
			secrets:    map[string]map[string]string{"s": {"A": "secret"}},
		}
	}
	for name, tc := range map[string]struct {
		from  v1.EnvFromSource
		want  map[string]string
		fails string
	}{
		"names":              {allOf("cm", "cm", "", nil), map[string]string{"A": "1", "k.dot": "2", "1ST": "3", "a b!": "4"}, ""},
		"prefix":             {allOf("secret", "s", "P_", nil), map[string]string{"P_A": "secret"}, ""},
		"a prefix is a name": {allOf("cm", "cm", "P", nil), map[string]string{"PA": "1", "Pk.dot": "2", "P1ST": "3", "Pa b!": "4", "P": "8"}, ""},
		"bad prefix":         {allOf("secret", "s", "=", nil), map[string]string{}, ""},
		"no ConfigMap":       {allOf("cm", "x", "", nil), nil, `envFrom[0]: ConfigMap "x"`},
		"no Secret":          {allOf("secret", "x", "", ptr(false)), nil, `envFrom[0]: Secret "x"`},
		"optional ConfigMap": {allOf("cm", "x", "", ptr(true)), map[string]string{}, ""},
		"optional Secret":    {allOf("secret", "x", "", ptr(true)), map[string]string{}, ""},
		"nothing":            {v1.EnvFromSource{}, map[string]string{}, ""},
	} {
		got, err := resolve(t, w(), pod(v1.Container{EnvFrom: []v1.EnvFromSource{tc.from}}))
		if tc.fails != "" {
			if !errors.Is(err, env.ErrNotFound) || !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("%s: error %v, want %q", name, err, tc.fails)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %q, error %v; want %q", name, got, err, tc.want)
		}
	}
}

func TestEachObjectIsAskedForOnce(t *testing.T) {
	w := &world{configMaps: map[string]map[string]string{"cm": {"K": "v"}}}
	_, err := resolve(t, w, pod(v1.Container{
		EnvFrom: []v1.EnvFromSource{allOf("cm", "cm", "", nil), allOf("secret", "x", "", ptr(true))},
		Env: []v1.EnvVar{from("A", cmKey("cm", "K", nil)), from("B", cmKey("cm", "K", nil)),
			from("C", secretKey("x", "K", ptr(true))), from("D", cmKey("y", "K", ptr(true))), from("E", cmKey("y", "K", ptr(true)))},
	}))
	if want := []string{"services default", "cm ns/cm", "secret ns/x", "cm ns/y"}; err != nil || !slices.Equal(w.calls, want) {
		t.Errorf("calls %q, error %v; want %q", w.calls, err, want)
	}
}

// The failure of a source differs from a missing object: even for an optional object, the
// container must not start without variables that may exist.
func TestFailingSourceFailsOptionalReferences(t *testing.T) {
	broken := errors.New("connection refused")
	for name, c := range map[string]v1.Container{
		"ConfigMap key": {Env: []v1.EnvVar{from("V", cmKey("cm", "K", ptr(true)))}},
		"Secret key":    {Env: []v1.EnvVar{from("V", secretKey("s", "K", ptr(true)))}},
		"file key":      {Env: []v1.EnvVar{from("V", fileKey("K", ptr(true)))}},
		"ConfigMap":     {EnvFrom: []v1.EnvFromSource{allOf("cm", "cm", "", ptr(true))}},
		"Secret":        {EnvFrom: []v1.EnvFromSource{allOf("secret", "s", "", ptr(true))}},
	} {
		w := &world{fail: broken}
		sources := w.sources()
		sources.Services = nil
		vars, err := env.MakeEnvironment(t.Context(), env.Input{Pod: pod(c), Container: "c", FileKey: w.FileKey}, sources)
		if !errors.Is(err, broken) || errors.Is(err, env.ErrNotFound) || vars != nil {
			t.Errorf("%s: %v, error %v; want the source's error", name, vars, err)
		}
		if _, err = env.MakeEnvironment(t.Context(), env.Input{Pod: pod(c), Container: "c"}, env.Sources{}); err == nil || !strings.Contains(err.Error(),
			"there is no source of ") || !strings.Contains(err.Error(), "(syncpod.Config.") {
			t.Errorf("%s: error %v without a source, want it named", name, err)
		}
	}
	if _, err := resolve(t, &world{fail: broken}, pod(v1.Container{})); !errors.Is(err, broken) {
		t.Errorf("error %v of the services, want the source's", err)
	}
}

func TestSecretValuesReachNoErrorAndNoPrint(t *testing.T) {
	const secret = "hunter2"
	w := &world{secrets: map[string]map[string]string{"s": {"K": secret, "L": secret}}}
	p := pod(v1.Container{
		EnvFrom: []v1.EnvFromSource{allOf("secret", "s", "", nil)},
		Env:     []v1.EnvVar{from("A", secretKey("s", "K", nil)), text("B", "x$(A)"), from("C", secretKey("s", "none", nil))},
	})
	vars, err := resolve(t, w, p)
	if err == nil || len(vars) > 0 {
		t.Fatalf("%v, error %v; want an error alone", vars, err)
	}
	p.Spec.Containers[0].Env = p.Spec.Containers[0].Env[:2]
	list, okErr := env.MakeEnvironment(t.Context(), env.Input{Pod: p, Container: "c", FileKey: w.FileKey}, w.sources())
	if okErr != nil || list[len(list)-1].Value != "x"+secret {
		t.Fatalf("error %v, want the value in the last variable", okErr)
	}
	printed := fmt.Sprintf("%v %+v %#v %s %v %+v", err, list, list, list, list[0], &list[0])
	if strings.Contains(printed, secret) {
		t.Errorf("the secret is in %s", printed)
	}
}

func TestInputErrors(t *testing.T) {
	if _, err := env.MakeEnvironment(t.Context(), env.Input{}, env.Sources{}); err == nil || !strings.Contains(err.Error(), "Input.Pod") {
		t.Errorf("error %v, want Input.Pod named", err)
	}
	if _, err := env.MakeEnvironment(t.Context(), env.Input{Pod: pod(v1.Container{}), Container: "x"}, env.Sources{}); err == nil || !strings.Contains(err.Error(), `"x"`) {
		t.Errorf("error %v, want the container named", err)
	}
}

func TestEveryKindOfContainer(t *testing.T) {
	p := pod(v1.Container{Env: []v1.EnvVar{text("V", "regular")}})
	p.Spec.InitContainers = []v1.Container{{Name: "i", Env: []v1.EnvVar{text("V", "init")}}}
	p.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e", Env: []v1.EnvVar{text("V", "ephemeral")}}}}
	for name, want := range map[string]string{"c": "regular", "i": "init", "e": "ephemeral"} {
		vars, err := env.MakeEnvironment(t.Context(), env.Input{Pod: p, Container: name}, env.Sources{})
		if err != nil || len(vars) != 1 || vars[0].Value != want {
			t.Errorf("%s: %q, error %v; want V=%s", name, values(vars), err, want)
		}
	}
}

// For any spec, two calls return the same result, and the spec is not modified.
func TestResolveIsDeterministicAndOnlyReads(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	names := []string{"A", "B", "C", "D"}
	w := &world{
		configMaps: map[string]map[string]string{"A": {"A": "1", "B": "$(A)", "C": "3"}, "B": {"D": "4"}},
		secrets:    map[string]map[string]string{"A": {"A": "5", "D": "6"}},
		services:   map[string][]*v1.Service{"ns": {service("b", "10.0.0.2", port("x", 1)), service("a", "10.0.0.1", port("", 2))}},
	}
	pick := func() string { return names[random.IntN(len(names))] }
	for range 300 {
		var c v1.Container
		for range random.IntN(3) {
			kind := []string{"cm", "secret"}[random.IntN(2)]
			c.EnvFrom = append(c.EnvFrom, allOf(kind, pick(), []string{"", "P"}[random.IntN(2)], ptr(true)))
		}
		for range random.IntN(6) {
			c.Env = append(c.Env, []v1.EnvVar{text(pick(), "$("+pick()+")$$("+pick()+")"), from(pick(), cmKey(pick(), pick(), ptr(true))),
				from(pick(), secretKey(pick(), pick(), ptr(true)))}[random.IntN(3)])
		}
		p := pod(c)
		p.Spec.EnableServiceLinks = nil
		before := p.DeepCopy()
		first, err1 := env.MakeEnvironment(t.Context(), env.Input{Pod: p, Container: "c", FileKey: w.FileKey}, w.sources())
		second, err2 := env.MakeEnvironment(t.Context(), env.Input{Pod: p, Container: "c", FileKey: w.FileKey}, w.sources())
		if err1 != nil || err2 != nil || !slices.Equal(first, second) {
			t.Fatalf("%q, error %v; then %q, error %v", values(first), err1, values(second), err2)
		}
		if !reflect.DeepEqual(p, before) {
			t.Fatal("the pod was written to")
		}
	}
}

func BenchmarkResolve(b *testing.B) {
	w := &world{
		configMaps: map[string]map[string]string{"cm": {"A": "1", "B": "2", "C": "3"}},
		secrets:    map[string]map[string]string{"s": {"PASS": "x"}},
		services:   map[string][]*v1.Service{"default": {service("kubernetes", "10.0.0.1", port("https", 443))}},
	}
	p := pod(v1.Container{
		EnvFrom: []v1.EnvFromSource{allOf("cm", "cm", "", nil)},
		Env:     []v1.EnvVar{from("PASS", secretKey("s", "PASS", nil)), text("URL", "https://$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)/$(A)")},
	})
	b.ReportAllocs()
	for b.Loop() {
		w.calls = w.calls[:0]
		must.Get(env.MakeEnvironment(b.Context(), env.Input{Pod: p, Container: "c", FileKey: w.FileKey}, w.sources()))(b)
	}
}
