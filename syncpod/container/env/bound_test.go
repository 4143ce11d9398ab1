package env_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/syncpod/container/env"
)

// bomb returns n variables, each ten times as long as the previous one: 10^n bytes.
func bomb(n int) []v1.EnvVar {
	vars := []v1.EnvVar{text("V0", "x")}
	for i := 1; i <= n; i++ {
		vars = append(vars, text(fmt.Sprintf("V%d", i), strings.Repeat(fmt.Sprintf("$(V%d)", i-1), 10)))
	}
	return vars
}

// A pod spec of some hundred bytes that expands to 10 GB uses no more memory than the environment limit
// of a process, and the error names the variable.
func TestExpansionIsBoundedWhileItIsMade(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	vars, err := env.MakeEnvironment(t.Context(), env.Input{Pod: pod(v1.Container{Env: bomb(10)}), Container: "c"}, env.Sources{})
	runtime.ReadMemStats(&after)
	var failed *env.Error
	if !errors.As(err, &failed) || failed.Item != "variable V6" || !strings.Contains(err.Error(), "more than 131071 bytes") || vars != nil {
		t.Errorf("%d variables, %v, want variable V6 named", len(vars), err)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 4<<20 {
		t.Errorf("%d bytes were allocated", allocated)
	}
}

// A pod may refer to large objects any number of times, also to the same one. Only maxRead bytes are read.
func TestReadsAreBounded(t *testing.T) {
	keys := map[string]string{}
	for i := range 10_000 {
		keys[fmt.Sprint("K", i)] = "x"
	}
	long := strings.Repeat("x", 100_000)
	sources := map[string]func(i int) v1.Container{
		"one ConfigMap again and again": func(i int) v1.Container {
			return v1.Container{EnvFrom: []v1.EnvFromSource{allOf("cm", "keys", "", nil)}}
		},
		"keys that are no names": func(i int) v1.Container {
			return v1.Container{EnvFrom: []v1.EnvFromSource{allOf("secret", "keys", "=", nil)}}
		},
		"large objects": func(i int) v1.Container {
			return v1.Container{Env: []v1.EnvVar{from("A", cmKey(fmt.Sprint("large", i), "A", nil))}}
		},
		"one variable again and again": func(i int) v1.Container {
			return v1.Container{Env: []v1.EnvVar{text("A", long)}}
		},
	}
	for name, of := range sources {
		c := v1.Container{Name: "c"}
		for i := range 20_000 {
			more := of(i)
			c.Env, c.EnvFrom = append(c.Env, more.Env...), append(c.EnvFrom, more.EnvFrom...)
		}
		reads := 0
		data := func(name string) map[string]string {
			if reads++; name == "keys" {
				return keys
			}
			return map[string]string{"A": "x", "other": strings.Repeat("x", 1<<20)} // few are made
		}
		_, err := env.MakeEnvironment(t.Context(), env.Input{Pod: pod(c), Container: "c"}, env.Sources{
			ConfigMaps: env.ConfigMapsFunc(func(_ context.Context, _, name string) (*v1.ConfigMap, error) {
				return &v1.ConfigMap{Data: data(name)}, nil
			}),
			Secrets: env.SecretsFunc(func(_ context.Context, _, name string) (*v1.Secret, error) {
				secret := &v1.Secret{Data: map[string][]byte{}}
				for key, value := range data(name) {
					secret.Data[key] = []byte(value)
				}
				return secret, nil
			}),
		})
		if err == nil || !strings.Contains(err.Error(), "reads more than") || reads > 32 {
			t.Errorf("%s: %v after %d reads", name, err, reads)
		}
	}
}

func TestBoundOfAVariableCountsItsName(t *testing.T) {
	for size, ok := range map[int]bool{131071 - len("A="): true, 131071 - len("A=") + 1: false} {
		value := strings.Repeat("x", size)
		for name, c := range map[string]v1.Container{
			"value":         {Env: []v1.EnvVar{text("A", value)}},
			"ConfigMap key": {Env: []v1.EnvVar{from("A", cmKey("cm", "A", nil))}},
			"ConfigMap":     {EnvFrom: []v1.EnvFromSource{allOf("cm", "cm", "", nil)}},
			"set again":     {Env: []v1.EnvVar{text("A", "x"), text("A", value)}},
		} {
			_, err := resolve(t, &world{configMaps: map[string]map[string]string{"cm": {"A": value}}}, pod(c))
			if ok != (err == nil) || err != nil && (!strings.Contains(err.Error(), "variable A: it has more than") || len(err.Error()) > 300) {
				t.Errorf("%s of %d bytes: %.300v", name, size, err)
			}
		}
	}
}

// Many short variables exceed the limit together. A replaced variable
// does not count twice.
func TestEnvironmentIsBounded(t *testing.T) {
	value := strings.Repeat("x", 100_000)
	var vars []v1.EnvVar
	for i := range 20 {
		vars = append(vars, text(fmt.Sprintf("V%d", i), value), text(fmt.Sprintf("V%d", i), value))
	}
	if _, err := resolve(t, &world{}, pod(v1.Container{Env: vars})); err != nil {
		t.Errorf("20 of 100,000 bytes, each set twice: %.300v", err)
	}
	vars = append(vars, text("LAST", value))
	if _, err := resolve(t, &world{}, pod(v1.Container{Env: vars})); err == nil || !strings.Contains(err.Error(), "variable LAST: environment, command and args have more than 2097152 bytes") {
		t.Errorf("21 of 100,000 bytes: %.300v", err)
	}
}

// For any references, the environment stays within a process's limits.
func FuzzEnvironmentIsBounded(f *testing.F) {
	f.Add("x", "$(A)$(A)", "$(B)$(B)", uint16(5000))
	f.Add("$(C)", "$$$(A", "$(B))$(", uint16(60000))
	f.Fuzz(func(t *testing.T, a, b, c string, times uint16) {
		p := pod(v1.Container{Env: []v1.EnvVar{
			text("A", strings.Repeat(a, int(times%512))), text("B", strings.Repeat(b, int(times%4096))), text("C", strings.Repeat(c, int(times))),
			text("A", "$(A)$(B)$(C)"), text("B", "$(A)$(B)$(C)"), text("C", "$(A)$(B)$(C)"),
		}})
		vars, err := env.MakeEnvironment(t.Context(), env.Input{Pod: p, Container: "c"}, env.Sources{})
		total := 0
		for _, v := range vars {
			size := len(v.Name) + len("=") + len(v.Value) + len("\x00")
			if total += size + 8; size > 128<<10 {
				t.Errorf("variable %s has %d bytes", v.Name, size)
			}
		}
		if total > 2<<20 || err != nil && len(vars) > 0 {
			t.Errorf("%d bytes, error %.300v", total, err)
		}
	})
}
