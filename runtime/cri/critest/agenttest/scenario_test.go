package agenttest

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestScenariosAreValid(t *testing.T) {
	all := Scenarios()
	for seed := range uint64(500) {
		all = append(all, Random(seed))
	}
	for _, sc := range all {
		if err := sc.validate(); err != nil {
			t.Error(err)
		}
	}
}

// Equal seeds draw equal scenarios, and a scenario can be stored as JSON.
func TestScenarioIsData(t *testing.T) {
	sc := Random(7)
	if !reflect.DeepEqual(sc, Random(7)) || reflect.DeepEqual(sc.Steps, Random(8).Steps) {
		t.Error("a seed draws one scenario, and another seed another")
	}
	text, err := json.Marshal(sc)
	if err != nil {
		t.Fatal(err)
	}
	var back Scenario
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(sc, back) {
		t.Errorf("%+v was read back as %+v, error %v", sc, back, err)
	}
}

func TestConfigErrorsNameTheField(t *testing.T) {
	agent := func(Node) (Agent, error) { return nil, nil }
	step := func(s Step) Config { return Config{Agent: agent, Scenarios: []Scenario{{Name: "x", Steps: []Step{s}}}} }
	for want, cfg := range map[string]Config{
		"Config.Agent is missing":            {},
		"must not be negative":               {Agent: agent, Parallel: -1},
		"without a name":                     {Agent: agent, Scenarios: []Scenario{{}}},
		`unknown model "rkt"`:                {Agent: agent, Scenarios: []Scenario{{Name: "x", Runtime: "rkt"}}},
		`Steps[0]: unknown step "jump"`:      step(Step{Do: "jump"}),
		`no kind begins the name "what-1"`:   step(Step{Do: "add", Pod: "what-1"}),
		"negative After":                     step(Step{Do: "calm", After: -1}),
		`unknown effect "explosion"`:         step(Step{Do: "restart-runtime", Effect: "explosion"}),
		`Runtime: unknown model "docker"`:    {Agent: agent, Scenarios: []Scenario{{Name: "x", Runtime: "docker"}}},
		`known are web, deaf, leaving, two,`: step(Step{Do: "remove", Pod: "nginx"}),
	} {
		if _, err := cfg.withDefaults(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestSelect(t *testing.T) {
	got, err := Select(Scenarios(), "late", "idle")
	if err != nil || len(got) != 2 || got[0].Name != "late" {
		t.Errorf("got %v, error %v", got, err)
	}
	if _, err := Select(Scenarios(), "later"); err == nil || !strings.Contains(err.Error(), `"later"`) {
		t.Errorf("error %v, want an error and %q in it", err, `"later"`)
	}
}
