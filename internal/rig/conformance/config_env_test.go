package main

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/podsync/podsync/internal/rig/conformance/record"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod/container"
)

func recorded(t *testing.T, file string) (lines []string) {
	t.Helper()
	must.Do(t, record.EachLine(file, func(line []byte) error {
		lines = append(lines, string(line))
		return nil
	}))
	return lines
}

// The comparison itself notices a change of every kind of answer.
func TestChecksNoticeDifferences(t *testing.T) {
	config, env := recorded(t, "testdata/config.jsonl.gz"), recorded(t, "testdata/env.jsonl.gz")
	for _, tc := range []struct {
		name, line, old, new, path string
		check                      func([]byte) (outcome, error)
	}{
		{"sandbox", config[1], `"cpuShares":"10"`, `"cpuShares":"11"`, ".linux.resources.cpuShares", checkConfig},
		{"container", config[1], `"logPath":"c2/3.log"`, `"logPath":"c2/4.log"`, ".logPath", checkConfig},
		{"missing field", config[1], `"workingDir":"/srv","envs"`, `"envs"`, ".workingDir", checkConfig},
		{"container error", config[0], `"wantContainerError":true`, `"wantContainer":{}`, "kubelet: none", checkConfig},
		{"variable", env[0], `"E2":"0"`, `"E2":"1"`, ".E2", checkEnv},
		{"env error", env[2], `"wantError":true`, `"want":{}`, "kubelet: none", checkEnv},
	} {
		changed := strings.Replace(tc.line, tc.old, tc.new, 1)
		if changed == tc.line {
			t.Fatalf("%s: %s is not in the recorded line", tc.name, tc.old)
		}
		o := must.Get(tc.check([]byte(changed)))(t)
		if !strings.Contains(o.diff, tc.path) {
			t.Errorf("%s: diff %q does not show %s", tc.name, o.diff, tc.path)
		}
	}
}

func TestChecksRefuseOtherFormats(t *testing.T) {
	for _, line := range []string{"", "{", "{}", `{"name":"x"}`, `{"name":"x","pod":{},"options":{"mounts":[{"propagation":"nope"}]}}`, `[]`} {
		if _, err := checkConfig([]byte(line)); err == nil {
			t.Errorf("checkConfig(%q): no error", line)
		}
		if _, err := checkEnv([]byte(line)); err == nil {
			t.Errorf("checkEnv(%q): no error", line)
		}
	}
}

// What podsync is given stays as it was, for every recorded pod.
func TestRecordedInputsAreOnlyRead(t *testing.T) {
	for _, line := range recorded(t, "testdata/config.jsonl.gz") {
		var c, untouched configCase
		must.Do(t, errors.Join(json.Unmarshal([]byte(line), &c), json.Unmarshal([]byte(line), &untouched)))
		in := must.Get(c.container())(t)
		sandbox.GeneratePodSandboxConfig(c.sandbox())
		container.GenerateContainerConfig(in)
		if !reflect.DeepEqual(c, untouched) {
			t.Errorf("%s: the input was written to", c.Name)
		}
	}
	for _, line := range recorded(t, "testdata/env.jsonl.gz") {
		var c, untouched envCase
		must.Do(t, errors.Join(json.Unmarshal([]byte(line), &c), json.Unmarshal([]byte(line), &untouched)))
		c.resolve()
		if !reflect.DeepEqual(c, untouched) {
			t.Errorf("%s: the input was written to", c.Name)
		}
	}
}
