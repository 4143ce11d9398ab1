package timeline

// pageHTML is the page, without its data and its script. It is well-formed XML except for its first line, so that a
// test can parse it.
const pageHTML = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width"/>
<title>Timeline of pods</title>
<style>
:root { color-scheme: light dark; --bg: #fff; --fg: #1b1f24; --dim: #667; --line: #e4e7eb; --alt: #f7f8fa; --accent: #2563eb;
  --phase: #b8c4d6; --run: #2e8b4a; --runfailed: #d1483e; --wait: #c9ced6; --waitfailed: #e8a33d; --sandbox: #8b6fc9; --volume: #4fb3bf; --pull: #4a8fe0;
  --start: #2f6db5; --hook: #b565c9; --probe: #e2574c; --stop: #7a6a5a; --work: #c2410c; }
@media (prefers-color-scheme: dark) { :root { --bg: #15181c; --fg: #e3e6ea; --dim: #98a1ad; --line: #2b3036; --alt: #1b1f24; --accent: #7aa7ff;
  --phase: #4b5669; --runfailed: #e0675f; --wait: #555d68; } }
* { box-sizing: border-box; }
html, body { height: 100%; margin: 0; }
body { display: flex; flex-direction: column; background: var(--bg); color: var(--fg); font: 13px/1.4 system-ui, "DejaVu Sans", sans-serif; }
header { padding: 10px 14px 6px; border-bottom: 1px solid var(--line); }
h1 { font-size: 16px; margin: 0; display: inline; }
#summary { color: var(--dim); margin-left: 10px; }
.controls { display: flex; flex-wrap: wrap; gap: 6px 10px; align-items: center; margin-top: 8px; }
input[type=search] { width: 220px; }
input, select, button { font: inherit; color: inherit; background: var(--bg); border: 1px solid var(--line); border-radius: 4px; padding: 2px 8px; }
button { cursor: pointer; }
button:focus-visible, canvas:focus-visible { outline: 2px solid var(--accent); }
#legend { display: flex; flex-wrap: wrap; gap: 4px; }
#legend button { border-radius: 10px; padding: 0 8px 0 6px; font-size: 12px; }
#legend button[aria-pressed=false] { opacity: 0.4; }
#legend i { display: inline-block; width: 9px; height: 9px; border-radius: 2px; margin-right: 5px; }
#scroll { flex: 1; overflow-x: hidden; overflow-y: scroll; position: relative; min-height: 120px; }
canvas { position: sticky; top: 0; display: block; cursor: crosshair; }
#tip { position: fixed; display: none; max-width: 420px; padding: 6px 9px; border: 1px solid var(--line); border-radius: 5px; background: var(--bg);
  box-shadow: 0 3px 12px rgba(0,0,0,.25); pointer-events: none; z-index: 2; overflow-wrap: anywhere; }
#tip b { display: block; } #tip span { display: block; color: var(--dim); }
#details { display: none; max-height: 38%; overflow: auto; border-top: 2px solid var(--line); }
#details h2 { font-size: 14px; margin: 8px 14px; display: inline-block; }
#details table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
#details th { position: sticky; top: 0; background: var(--alt); text-align: left; font-weight: 600; }
#details td, #details th { padding: 2px 14px; border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere; }
#details tr.failed td { color: var(--runfailed); }
footer { color: var(--dim); padding: 3px 14px; border-top: 1px solid var(--line); font-size: 12px; }
</style>
</head>
<body>
<header>
<h1 id="title">Timeline of pods</h1><span id="summary"></span>
<div class="controls">
<input id="filter" type="search" placeholder="pod, container or reason" aria-label="Show pods whose name, containers or reasons have this text"/>
<label><input id="trouble" type="checkbox"/> only with failures</label>
<label>by <select id="sort" aria-label="Order of pods"><option value="name">name</option><option value="begin">when they came</option><option value="restarts">restarts</option></select></label>
<button id="open" type="button">open all</button>
<button id="close" type="button">close all</button>
<button id="in" type="button" aria-label="Zoom in">+</button>
<button id="out" type="button" aria-label="Zoom out">−</button>
<button id="fit" type="button">all of it</button>
<div id="legend" role="group" aria-label="What is shown"></div>
</div>
</header>
<div id="scroll"><canvas id="chart" tabindex="0" role="img" aria-label="Chart of what happened to each pod. Choose a pod for a table of it."></canvas><div id="spacer"></div></div>
<section id="details" aria-live="polite"><h2 id="pod"></h2> <button id="hide" type="button">close</button>
<table><thead><tr><th>begin</th><th>took</th><th>container</th><th>what</th><th>why</th></tr></thead><tbody id="rows"></tbody></table></section>
<footer>Drag to move, drag the time scale to choose a range, Ctrl and the wheel to zoom, arrows and + − with the keyboard. A click opens a pod, and a table of it.</footer>
<noscript><p>This page draws with JavaScript, all of which is in it.</p></noscript>
<div id="tip" role="tooltip"></div>
<script type="application/json" id="data">@DATA@</script>
<script>@SCRIPT@</script>
</body>
</html>
`
