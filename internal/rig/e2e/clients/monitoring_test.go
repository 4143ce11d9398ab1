package clients

import (
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

const monitoring = "../../../../docs/monitoring/"

// Prometheus accepts the alerts, with their expressions and templates, as promtool check rules does.
func TestPrometheusAcceptsTheAlerts(t *testing.T) {
	groups, errs := rulefmt.ParseFile(monitoring+"alerts.yaml", false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	if groups == nil || len(groups.Groups) != 1 || len(groups.Groups[0].Rules) < 5 {
		t.Errorf("%+v", groups)
	}
}

// Prometheus accepts each query of the dashboard.
func TestPrometheusAcceptsTheDashboard(t *testing.T) {
	text, err := os.ReadFile(monitoring + "dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	queries := 0
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			queries++
			if _, err := parser.NewParser(parser.Options{}).ParseExpr(strings.ReplaceAll(target.Expr, "$instance", "node")); err != nil {
				t.Errorf("%s: %v", panel.Title, err)
			}
		}
	}
	if queries < 8 {
		t.Errorf("%d queries", queries)
	}
}
