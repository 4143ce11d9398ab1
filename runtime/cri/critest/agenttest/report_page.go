package agenttest

// page is a report's template: it needs no other file and no script.
const page = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>What pods were promised</title>
<style>
:root { color-scheme: light dark; --ink: #1d2430; --dim: #5d6878; --line: #d8dde5; --paper: #fff; --soft: #f4f6f9; --kept: #1a7f4b; --broken: #c3262f; --none: #8a6d00;
  --asked: #6a737d; --called: #2563b8; --ran: #1a7f4b; --told: #8250a8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --dim: #9aa5b4; --line: #343c48; --paper: #14181f; --soft: #1c222b; --kept: #4cc38a; --broken: #ff7b82; --none: #d8b64a;
  --asked: #9aa5b4; --called: #6ea8ff; --ran: #4cc38a; --told: #c39be6; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 2rem 1.25rem 4rem; font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .75rem; } h3 { font-size: 1.05rem; margin: 0; }
.dim { color: var(--dim); } code { font: 13px/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }
.sums { display: flex; gap: .75rem; flex-wrap: wrap; margin: 1.25rem 0; }
.sum { border: 1px solid var(--line); border-radius: .5rem; padding: .5rem 1rem; min-width: 8rem; } .sum b { display: block; font-size: 1.6rem; line-height: 1.2; }
.kept { color: var(--kept); } .broken { color: var(--broken); } .not { color: var(--none); }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; color: var(--dim); font-size: .85rem; } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; } .wide { overflow-x: auto; }
article { border: 1px solid var(--line); border-left: 4px solid var(--broken); border-radius: .5rem; padding: 1rem 1.25rem; margin: 0 0 1.25rem; }
article p { margin: .35rem 0; }
.story { margin-top: .75rem; background: var(--soft); border-radius: .4rem; padding: .5rem .75rem; overflow-x: auto; }
.row { display: grid; grid-template-columns: 5.5rem 4rem minmax(16rem, 1fr) minmax(8rem, 30%); gap: .6rem; align-items: center; padding: .1rem .25rem; min-width: 40rem; font-size: 13px; }
.row .t { text-align: right; font-variant-numeric: tabular-nums; color: var(--dim); } .row .x { overflow-wrap: anywhere; }
.wrong { background: color-mix(in srgb, var(--broken) 16%, transparent); border-radius: .25rem; font-weight: 600; }
.bar { position: relative; height: .8rem; background: color-mix(in srgb, var(--line) 45%, transparent); border-radius: .2rem; overflow: hidden; }
.bar i { position: absolute; top: 0; bottom: 0; border-radius: .2rem; min-width: 3px; }
.asked { color: var(--asked); } .called { color: var(--called); } .ran { color: var(--ran); } .told { color: var(--told); } .now { color: var(--broken); }
i.asked { background: var(--asked); } i.called { background: var(--called); } i.ran { background: var(--ran); } i.told { background: var(--told); } i.now { background: var(--broken); }
.wrong .bar i { background: var(--broken); }
</style>
</head>
<body>
<h1>What pods were promised</h1>
<p class="dim">{{with .Agent}}<code>{{.}}</code><br>{{end}}{{.Began.Format "2006-01-02 15:04 MST"}}, {{len .Scenarios}} scenarios</p>
<div class="sums">
<div class="sum kept"><b>{{count "kept"}}</b>kept</div>
<div class="sum broken"><b>{{count "broken"}}</b>broken</div>
<div class="sum not"><b>{{count "not judged"}}</b>not judged</div>
</div>
{{with .Broken}}<h2>Broken</h2>
{{range $o := .}}<article id="{{.Promise}}">
<h3>{{.Promise}}</h3>
<p>{{.Sentence}}</p>
<p class="dim"><a href="{{.Source}}">{{if .Own}}podsync's own promise{{else}}Promised here{{end}}</a>{{with .Breaks}} · known of others: {{.}}{{end}} ·
broken {{.BrokenTimes}} times, judged {{.Judged}} times</p>
{{range $b := .Breaches}}<div class="story">
<p><b>{{.Scenario}}</b>{{with .Pod}}, pod <b>{{.}}</b>{{end}}, at {{seconds .At}} s: {{.Why}}.</p>
{{range .Story}}<div class="row{{if .Wrong}} wrong{{end}}">
<span class="t">{{seconds .At}} s</span><span class="{{.Who}}">{{.Who}}</span><span class="x">{{.Text}}</span>
<span class="bar"><i class="{{.Who}}" style="left: {{place $b .}}%; width: {{width $b .}}%"></i></span></div>
{{end}}</div>{{end}}
</article>{{end}}{{end}}
<h2>All promises</h2>
<div class="wide"><table>
<tr><th>Promise</th><th>What holds</th><th>State</th><th class="n">Judged</th><th class="n">Broken</th></tr>
{{range .Outcomes}}<tr><td>{{if eq .State "broken"}}<a href="#{{.Promise}}">{{.Promise}}</a>{{else}}{{.Promise}}{{end}}{{if .Own}} *{{end}}</td><td>{{.Sentence}}
<span class="dim">{{.Evidence}}</span></td>
<td class="{{if eq .State "kept"}}kept{{else if eq .State "broken"}}broken{{else}}not{{end}}">{{.State}}</td><td class="n">{{.Judged}}</td><td class="n">{{.BrokenTimes}}</td></tr>
{{end}}</table></div>
<p class="dim">* is podsync's own promise, which no document of Kubernetes or CRI makes.</p>
{{with .Figures}}<h2>Figures</h2>
<div class="wide"><table><tr><th>What</th><th class="n">Median</th><th class="n">Nine of ten</th><th class="n">At most</th><th class="n">Of</th></tr>
{{range .}}<tr><td>{{.Name}}</td><td class="n">{{seconds .Median}}</td><td class="n">{{seconds .P90}}</td><td class="n">{{seconds .Max}}</td><td class="n">{{.N}}</td></tr>
{{end}}</table></div>{{end}}
<h2>Scenarios</h2>
<div class="wide"><table><tr><th>Scenario</th><th class="n">Took</th><th class="n">Calls</th><th>Broken</th></tr>
{{range .Scenarios}}<tr><td>{{.Scenario.Name}}</td><td class="n">{{seconds .Took}} s</td><td class="n">{{.Calls}}</td>
<td>{{with .Err}}<span class="not">not played: {{.}}</span>{{end}}{{range $i, $b := .Broken}}{{if $i}}, {{end}}{{$b}}{{end}}</td></tr>
{{end}}</table></div>
</body>
</html>
`
