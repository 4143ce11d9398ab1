package agenttest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest"
)

// brokenReport returns the report of a history with two breaches, and with texts that a page must
// escape.
func brokenReport() *Report {
	p := newPast()
	p.wanted("web", 0, forever)
	p.ran("web", "c0", 0, 1, 8, 0)
	p.ran("web", "c0", 1, 5, forever, 0)
	p.call(critest.StopPodSandbox, "others", "", 3)
	p.acts = []act{{second(2), "", `<script>alert("1")</script>`}}
	all := newTally()
	all.judge(p.finish())
	all.report.Agent = `agent "--flag=<b>"`
	return all.done()
}

func TestReportAsText(t *testing.T) {
	var s strings.Builder
	if err := brokenReport().WriteText(&s); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"BROKEN  one-instance\n", "Known of others: kubernetes #139670\n", "pod web, at 5.00 s: c0 was started as attempt 1 while attempt 0",
		">     5.00 s  ran     c0 attempt 1 runs\n", "others-untouched *         broken", "2 broken",
	} {
		if !strings.Contains(s.String(), want) {
			t.Errorf("%q is missing in\n%s", want, s.String())
		}
	}
}

func TestReportAsPage(t *testing.T) {
	var s strings.Builder
	if err := brokenReport().WriteHTML(&s); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`<article id="one-instance">`, `class="row wrong"`, "&lt;script&gt;", "agent &#34;--flag=&lt;b&gt;&#34;", `<b>2</b>broken`} {
		if !strings.Contains(s.String(), want) {
			t.Errorf("%q is missing", want)
		}
	}
	for _, bad := range []string{"<script", "<b>\"", "ZgotmplZ", "src=", "@import"} {
		if strings.Contains(s.String(), bad) {
			t.Errorf("the page has %q", bad)
		}
	}
}

// The JSON report contains the scenarios, so that they can be run again, and the stories.
func TestReportAsJSON(t *testing.T) {
	text, err := json.Marshal(brokenReport())
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	broken := back.Broken()
	if len(broken) != 2 || broken[0].Promise != "one-instance" || len(broken[0].Breaches[0].Story) < 3 || len(back.Scenarios) != 1 {
		t.Errorf("read is %+v, want two broken promises, first %q with a story of 3 lines, and one scenario", back, "one-instance")
	}
}

// The report contains the shortest story. A long story keeps the scenario's actions.
func TestStoriesAreShort(t *testing.T) {
	p := newPast()
	p.wanted("web", 0, forever)
	p.acts = []act{{second(0), uidOf("web"), "the pod is wanted"}}
	for n := range uint32(40) {
		p.ran("web", "c0", n, float64(n), float64(n)+0.5, 1)
	}
	story := p.finish().story(at{uid: uidOf("web"), t: second(39), container: idOf("web", "c0", 39)})
	if len(story) != mostLines || story[0].Who != "asked" || !story[len(story)-1].Wrong {
		t.Errorf("the story has %d lines: %+v", len(story), story)
	}
}
