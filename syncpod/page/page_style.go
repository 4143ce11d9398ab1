package page

// style is the style of the document.
const style = `:root { color-scheme: light dark; --bg: #f6f7f9; --panel: #fff; --fg: #1b1f24; --dim: #5a6472; --line: #e1e5ea; --hover: #f0f4fa; --chosen: #e5eefc; --accent: #1d5fd6;
  --runs: #1f7a3d; --runs-bg: #def3e4; --done: #4d5866; --done-bg: #e6e9ee; --changes: #1d5fd6; --changes-bg: #e0ebfd; --unready: #8a5a00; --unready-bg: #fdf0d0; --fails: #b3261e; --fails-bg: #fce3e1; }
@media (prefers-color-scheme: dark) { :root { --bg: #111418; --panel: #191d22; --fg: #e4e7eb; --dim: #9aa4b1; --line: #2c323a; --hover: #20262d; --chosen: #1f2f49; --accent: #82aefc;
  --runs: #7bd696; --runs-bg: #17331f; --done: #aab4c0; --done-bg: #2a3038; --changes: #8fb7ff; --changes-bg: #1b2d4b; --unready: #f0c46a; --unready-bg: #3a2e12; --fails: #ff9d95; --fails-bg: #431b19; } }
* { box-sizing: border-box; }
[hidden] { display: none !important; }
html, body { height: 100%; }
body { margin: 0; display: flex; flex-direction: column; background: var(--bg); color: var(--fg); font: 14px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
a { color: var(--accent); }
h1, h2, h3, p, ol, ul { margin: 0; }
h1 { font-size: 18px; }
h2 { font-size: 16px; }
h3 { font-size: 12px; letter-spacing: .04em; text-transform: uppercase; color: var(--dim); margin: 18px 0 6px; }
header { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 16px; padding: 12px 20px 0; background: var(--panel); border-bottom: 1px solid var(--line); }
#counts { color: var(--dim); }
#live { margin-left: auto; color: var(--dim); font-size: 12px; }
#live::before { content: ""; display: inline-block; width: 8px; height: 8px; margin-right: 6px; border-radius: 50%; background: var(--done); }
#live.on::before { background: #2fae5b; }
#live.off { color: var(--fails); }
#live.off::before { background: var(--fails); }
nav { flex-basis: 100%; display: flex; gap: 4px; margin-left: -10px; }
nav a { padding: 7px 10px; color: var(--dim); text-decoration: none; border-bottom: 2px solid transparent; margin-bottom: -1px; }
nav a:hover { color: var(--fg); }
nav a[aria-current] { color: var(--fg); font-weight: 600; border-color: var(--accent); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: -2px; border-radius: 3px; }
#problems { padding: 10px 20px; background: var(--fails-bg); border-bottom: 1px solid var(--line); max-height: 30vh; overflow: auto; }
#problems h2 { font-size: 14px; color: var(--fails); }
#problems ul { padding: 0; list-style: none; }
#problems li { margin-top: 4px; overflow-wrap: anywhere; }
#problems b { font-weight: 600; margin-right: 8px; }
main { flex: 1; min-height: 0; display: flex; }
main > section { flex: 1; min-width: 0; min-height: 0; display: flex; flex-direction: column; padding: 12px 20px 0; }
.controls { display: flex; flex-wrap: wrap; align-items: center; gap: 6px 14px; padding-bottom: 10px; color: var(--dim); }
input[type=search] { flex: 0 1 300px; min-width: 0; }
input[type=search], button { font: inherit; color: var(--fg); background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: 5px 10px; }
button { cursor: pointer; }
.split { flex: 1; min-height: 0; display: flex; gap: 16px; }
.list { flex: 1; min-width: 0; overflow: auto; background: var(--panel); border: 1px solid var(--line); border-bottom: 0; border-radius: 8px 8px 0 0; }
table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; }
th { position: sticky; top: 0; background: var(--panel); text-align: left; font-size: 12px; font-weight: 600; color: var(--dim); box-shadow: inset 0 -1px var(--line); z-index: 1; }
th, td { padding: 7px 12px; white-space: nowrap; vertical-align: top; }
td { border-bottom: 1px solid var(--line); }
.num { text-align: right; }
#pods tr { cursor: pointer; }
#pods tr:hover { background: var(--hover); }
#pods tr.chosen { background: var(--chosen); }
#pods a { display: inline-block; color: inherit; font-weight: 600; text-decoration: none; }
#pods td:first-child { white-space: normal; overflow-wrap: anywhere; min-width: 170px; }
.open .wide { display: none; }
.ns, .dim { color: var(--dim); font-weight: 400; }
td.wide { width: 45%; max-width: 0; overflow: hidden; text-overflow: ellipsis; color: var(--dim); }
.pill { display: inline-block; white-space: nowrap; max-width: 240px; overflow: hidden; text-overflow: ellipsis; vertical-align: bottom; padding: 0 9px; border-radius: 10px; font-size: 12.5px; line-height: 20px; font-weight: 600; }
.runs { color: var(--runs); background: var(--runs-bg); } .done { color: var(--done); background: var(--done-bg); }
.changes { color: var(--changes); background: var(--changes-bg); } .unready { color: var(--unready); background: var(--unready-bg); }
.fails { color: var(--fails); background: var(--fails-bg); }
#empty, #no-events { padding: 40px 20px; text-align: center; color: var(--dim); }
#detail { flex: 0 0 min(46%, 620px); min-width: 0; overflow: auto; padding: 14px 18px 24px; background: var(--panel); border: 1px solid var(--line); border-bottom: 0; border-radius: 8px 8px 0 0; }
.top { display: flex; gap: 12px; align-items: baseline; }
.top h2 { flex: 1; overflow-wrap: anywhere; outline: none; }
#close { text-decoration: none; color: var(--dim); padding: 0 6px; }
#pod-line { margin-top: 6px; color: var(--dim); overflow-wrap: anywhere; }
#explanation p { overflow-wrap: anywhere; margin-bottom: 4px; }
.container { padding: 8px 0; border-top: 1px solid var(--line); overflow-wrap: anywhere; }
.container:first-child { border-top: 0; padding-top: 0; }
.container b { margin-right: 8px; }
.container div { color: var(--dim); }
.events { list-style: none; padding: 0; }
.events li { display: grid; grid-template-columns: 78px 1fr; gap: 0 10px; padding: 5px 0; border-top: 1px solid var(--line); overflow-wrap: anywhere; }
.events li:first-child { border-top: 0; }
.events time { color: var(--dim); font-variant-numeric: tabular-nums; }
.events .warning b { color: var(--fails); }
.events b { margin-right: 8px; }
#pod-timeline { margin-top: 14px; }
#view-events { overflow: auto; }
#events { background: var(--panel); border: 1px solid var(--line); border-radius: 8px; padding: 4px 14px; margin-bottom: 14px; }
#events:empty { display: none; }
#frame { flex: 1; width: 100%; border: 1px solid var(--line); border-bottom: 0; border-radius: 8px 8px 0 0; background: var(--panel); }
footer { padding: 6px 20px; font-size: 12px; color: var(--dim); background: var(--panel); border-top: 1px solid var(--line); }
kbd { font: inherit; border: 1px solid var(--line); border-radius: 4px; padding: 0 5px; }
@media (max-width: 1000px) { .open th:nth-child(4), .open td:nth-child(4) { display: none; } #pods td:first-child { min-width: 110px; } }
@media (max-width: 760px) {
  header { padding: 10px 12px 0; } main > section { padding: 10px 10px 0; } footer { display: none; }
  .wide, th:nth-child(4), td:nth-child(4) { display: none; }
  th, td { padding: 8px 6px; } th:first-child, td:first-child { padding-left: 12px; } th:nth-child(5), td:nth-child(5) { padding-right: 12px; }
  input[type=search] { flex: 1 1 100%; }
  .list .pill { max-width: 150px; } #pods td:first-child { min-width: 90px; }
  .open .list { display: none; }
  #detail { flex: 1; }
}
`
