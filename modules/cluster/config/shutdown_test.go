package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/podsync/podsync/modules/cluster/config"
)

func TestShutdown(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"":                         0,
		"shutdownGracePeriod: 30s": 30 * time.Second,
		"shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s":                                                                  30 * time.Second,
		"shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 20}, {priority: 9, shutdownGracePeriodSeconds: 5}]": 25 * time.Second,
	} {
		c, warnings, err := configOf(t, text+"\n")
		if err != nil || len(warnings) > 0 {
			t.Errorf("%q: %q, %v", text, warnings, err)
			continue
		}
		if p, err := config.Shutdown(c); err != nil || p.Total() != want {
			t.Errorf("%q: %v, %v, want %v", text, p.Total(), err, want)
		}
	}
	for text, want := range map[string]string{
		"shutdownGracePeriodCriticalPods: 10s": "CriticalGracePeriod",
		"shutdownGracePeriod: 1500ms":          "whole seconds",
		"shutdownGracePeriod: 30s\nshutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 20}]":                    "only one of them",
		"shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: -1}]":                                              "shutdownGracePeriodByPodPriority[0]",
		"shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 9223372036854775807}]":                             "shutdownGracePeriodByPodPriority[0]",
		"shutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 1}, {priority: 1, shutdownGracePeriodSeconds: 1}]": "ByPriority[1].Priority",
	} {
		if _, _, err := configOf(t, text+"\n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
}
