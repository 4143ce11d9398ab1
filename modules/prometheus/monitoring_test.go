package prometheus_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// The alerts and the dashboard use metrics, and labels of them, that the documentation of this package lists.
func TestAlertsAndDashboardUseServedMetrics(t *testing.T) {
	documentation := must.Get(os.ReadFile("doc.go"))(t)
	labels := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^//\t((?:kubelet|storage)_\w+) +(?:gauge|counter|histogram)(?:, 1)?(.*)$`).FindAllStringSubmatch(string(documentation), -1) {
		labels[m[1]] = append(strings.Split(strings.ReplaceAll(m[2], " ", ""), ","), "instance", "le")
	}
	if len(labels) < 20 {
		t.Fatalf("%d metrics", len(labels))
	}
	folder := filepath.Join("..", "..", "docs", "monitoring")
	alerts := must.Get(os.ReadFile(filepath.Join(folder, "alerts.yaml")))(t)
	var expressions []string
	for _, m := range regexp.MustCompile(`(?m)^        expr: (.*)$`).FindAllStringSubmatch(string(alerts), -1) {
		expressions = append(expressions, m[1])
	}
	if n := strings.Count(string(alerts), "- alert: "); n != len(expressions) || n < 5 {
		t.Errorf("%d alerts with %d expressions", n, len(expressions))
	}
	text := must.Get(os.ReadFile(filepath.Join(folder, "dashboard.json")))(t)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil || len(dashboard.Panels) < 10 {
		t.Fatalf("%d panels: %v", len(dashboard.Panels), err)
	}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			expressions = append(expressions, target.Expr)
		}
	}
	for _, e := range expressions {
		metrics := regexp.MustCompile(`(?:kubelet|storage)_\w+`).FindAllString(e, -1)
		metrics = slices.Compact(metrics) // one that is compared with its past occurs several times
		if len(metrics) != 1 || strings.Count(e, "(") != strings.Count(e, ")") {
			t.Errorf("%s: want one metric, and an end of each bracket", e)
			continue
		}
		known := labels[strings.TrimSuffix(metrics[0], "_bucket")]
		if known == nil {
			t.Errorf("%s is not served", metrics[0])
		}
		for _, by := range regexp.MustCompile(`by \(([^)]*)\)`).FindAllStringSubmatch(e, -1) {
			for label := range strings.SplitSeq(strings.ReplaceAll(by[1], " ", ""), ",") {
				if !slices.Contains(known, label) {
					t.Errorf("%s: %s has no label %s", e, metrics[0], label)
				}
			}
		}
	}
}
