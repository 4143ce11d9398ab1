package page

// html is the document, without its style and its script.
const html = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>Pods</title>
<link rel="icon" href="data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' height='16' rx='4' fill='%231d5fd6'/%3E%3Ccircle cx='8' cy='8' r='3.5' fill='%23fff'/%3E%3C/svg%3E"/>
<style>@STYLE@</style>
</head>
<body>
<header>
<h1 id="title">Pods</h1>
<p id="counts" aria-live="polite"></p>
<p id="live" role="status">connecting</p>
<nav aria-label="Views">
<a href="#pods" id="to-pods">Pods</a>
<a href="#events" id="to-events">Events</a>
<a href="#timeline" id="to-timeline" hidden="hidden">Timeline</a>
</nav>
</header>
<section id="problems" aria-label="Problems" hidden="hidden"><h2 id="problem-count"></h2><ul id="problem-list"></ul></section>
<main>
<section id="view-pods" aria-label="Pods">
<div class="controls">
<input id="filter" type="search" placeholder="Filter: name, status, message" aria-label="Show pods whose name, status or message has these words"/>
<label><input id="trouble" type="checkbox"/> only failing or not ready</label>
<span id="shown"></span>
</div>
<div class="split">
<div class="list">
<table id="table"><thead><tr><th scope="col">Name</th><th scope="col">Status</th><th scope="col" class="num">Ready</th><th scope="col" class="num">Restarts</th><th scope="col" class="num">Age</th><th scope="col" class="wide">Message</th></tr></thead><tbody id="pods"></tbody></table>
<p id="empty" hidden="hidden"></p>
</div>
<aside id="detail" aria-label="Pod" hidden="hidden">
<div class="top"><h2 id="pod-name" tabindex="-1"></h2><a id="close" href="#pods" title="Escape" aria-label="Close">✕</a></div>
<p id="pod-line"></p>
<h3>What is next, and why</h3>
<div id="explanation"></div>
<h3>Containers</h3>
<div id="containers"></div>
<h3>Events</h3>
<ol id="pod-events" class="events"></ol>
<p id="pod-timeline" hidden="hidden"><a id="to-pod-timeline" href="#timeline">Timeline of this pod</a></p>
</aside>
</div>
</section>
<section id="view-events" aria-label="Events" hidden="hidden"><ol id="events" class="events"></ol><p id="no-events" class="dim" hidden="hidden">There were no events yet.</p></section>
<section id="view-timeline" aria-label="Timeline" hidden="hidden">
<div class="controls"><button id="reload" type="button">Reload</button><a id="alone" href="timeline" target="_blank" rel="noopener">Open alone</a></div>
<iframe id="frame" title="Timeline of pods"></iframe>
</section>
</main>
<footer><kbd>↑</kbd> <kbd>↓</kbd> choose a pod, <kbd>Enter</kbd> opens it, <kbd>Esc</kbd> closes it, <kbd>/</kbd> filters. This page only reads.</footer>
<noscript><p>This page needs JavaScript, all of which is in it.</p></noscript>
<script>@SCRIPT@</script>
</body>
</html>
`
