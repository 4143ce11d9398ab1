package timeline

// pageScript draws the page. The data enters the document only as text.
const pageScript = scriptDraw + scriptInput

// scriptDraw lays out pods in rows, and draws the visible ones on a canvas.
const scriptDraw = `'use strict';
(function () {
  const data = JSON.parse(document.getElementById('data').textContent);
  const $ = (id) => document.getElementById(id);
  const canvas = $('chart'), g = canvas.getContext('2d'), scroll = $('scroll'), tip = $('tip');
  const KINDS = {
    phase: 'phase of the pod', run: 'runs', wait: 'waits', sandbox: 'sandbox', volume: 'volume', pull: 'pull', start: 'start', hook: 'hook',
    probe: 'probe fails', stop: 'stop', work: 'work fails',
  };
  const STATES = { phase: 1, run: 1, wait: 1 };
  const AXIS = 26, CLOSED = 20, STATE = 15, LANE = 9, GAP = 6;
  const hidden = Object.create(null), opened = Object.create(null);
  let rows = [], hits = [], view = { from: 0, to: 1 }, total = 0, chosen = null, colors = {}, labels = 230;

  // The containers of each pod, in the order in which they appeared.
  data.pods = data.pods || [];
  for (const p of data.pods) {
    p.tracks = [];
    p.begin = Infinity;
    p.failed = 0;
    const at = Object.create(null);
    p.e = p.e || [];
    for (const e of p.e) {
      e.end = e.t === undefined ? data.now : e.t;
      e.pod = p;
      p.begin = Math.min(p.begin, e.b);
      if (e.f) p.failed++;
      const name = e.c || '';
      if (!(name in at)) {
        at[name] = p.tracks.length;
        p.tracks.push({ name: name, entries: [], lanes: 1 });
      }
      const track = p.tracks[at[name]];
      track.entries.push(e);
      track.lanes = Math.max(track.lanes, e.l + 1);
    }
    p.tracks.sort((a, b) => (a.name !== '') - (b.name !== ''));
    p.text = (p.n + ' ' + p.u + ' ' + p.p + ' ' + p.e.map((e) => (e.c || '') + ' ' + e.n + ' ' + (e.w || '')).join(' ')).toLowerCase();
    opened[p.u] = data.pods.length <= 8;
  }
  const earliest = data.pods.reduce((m, p) => Math.min(m, p.begin), data.since);

  function two(n) { return (n < 10 ? '0' : '') + n; }

  function clock(ms, fine) {
    const d = new Date(ms);
    const text = two(d.getHours()) + ':' + two(d.getMinutes()) + ':' + two(d.getSeconds());
    return fine ? text + '.' + String(d.getMilliseconds()).padStart(3, '0') : text;
  }

  function day(ms) {
    const d = new Date(ms);
    return d.getFullYear() + '-' + two(d.getMonth() + 1) + '-' + two(d.getDate());
  }

  function span(ms) {
    if (ms < 1000) return Math.round(ms) + ' ms';
    if (ms < 60000) return (ms / 1000).toFixed(ms < 10000 ? 2 : 1) + ' s';
    const s = Math.round(ms / 1000);
    if (s < 3600) return Math.floor(s / 60) + ' min ' + (s % 60) + ' s';
    if (s < 86400) return Math.floor(s / 3600) + ' h ' + Math.floor(s % 3600 / 60) + ' min';
    return Math.floor(s / 86400) + ' d ' + Math.floor(s % 86400 / 3600) + ' h';
  }

  function title(e) {
    let text = e.n;
    if (e.k === 'pull' || e.k === 'volume' || e.k === 'hook') text = KINDS[e.k] + ' ' + text;
    if (e.f && !STATES[e.k]) text += e.k === 'probe' ? ' fails' : ' failed';
    return text;
  }

  function colorOf(e) {
    if (e.f && (e.k === 'run' || e.k === 'wait')) return colors[e.k + 'failed'];
    return colors[e.k];
  }

  function readColors() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ['bg', 'fg', 'dim', 'line', 'alt', 'accent', 'runfailed', 'waitfailed'].concat(Object.keys(KINDS))) {
      colors[name] = style.getPropertyValue('--' + name).trim();
    }
  }

  // layout computes the rows of the visible pods.
  function layout() {
    const words = $('filter').value.toLowerCase().split(/\s+/).filter(Boolean), trouble = $('trouble').checked, by = $('sort').value;
    const pods = data.pods.filter((p) => (!trouble || p.failed > 0) && words.every((w) => p.text.includes(w)));
    const named = new Intl.Collator(undefined, { numeric: true }).compare;
    const orders = { name: () => 0, begin: (a, b) => a.begin - b.begin, restarts: (a, b) => b.r - a.r };
    pods.sort((a, b) => orders[by](a, b) || named(a.n, b.n));
    rows = [];
    let y = 0;
    for (const p of pods) {
      if (!opened[p.u]) {
        rows.push({ pod: p, y: y, h: CLOSED });
        y += CLOSED;
        continue;
      }
      for (const track of p.tracks) {
        const h = STATE + (track.lanes - 1) * LANE + GAP;
        rows.push({ pod: p, track: track, y: y, h: h });
        y += h;
      }
      y += GAP;
    }
    total = y;
    const n = data.pods.length;
    $('summary').textContent = (pods.length === n ? '' : pods.length + ' of ') + n + (n === 1 ? ' pod' : ' pods') +
      ', ' + data.pods.filter((p) => p.failed > 0).length + ' with failures, until ' + day(data.now) + ' ' + clock(data.now);
    draw();
  }

  function x(ms, width) { return labels + (ms - view.from) / (view.to - view.from) * (width - labels); }

  const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 3e4, 6e4, 12e4, 3e5, 6e5, 12e5, 18e5, 36e5, 72e5, 216e5, 432e5, 864e5, 1728e5, 6048e5, 2592e6];

  function drawAxis(width, height) {
    const wanted = (view.to - view.from) / Math.max(1, (width - labels) / 95);
    const step = STEPS.find((s) => s >= wanted) || STEPS[STEPS.length - 1];
    const zone = new Date(view.from).getTimezoneOffset() * 60000;
    g.fillStyle = colors.bg;
    g.fillRect(0, 0, width, AXIS);
    g.font = '11px system-ui, "DejaVu Sans", sans-serif';
    g.textBaseline = 'middle';
    for (let t = Math.ceil((view.from - zone) / step) * step + zone; t <= view.to; t += step) {
      const at = Math.round(x(t, width)) + 0.5;
      g.strokeStyle = colors.line;
      g.beginPath();
      g.moveTo(at, AXIS - 6);
      g.lineTo(at, height);
      g.stroke();
      g.fillStyle = colors.dim;
      const midnight = (t - zone) % 864e5 === 0;
      g.fillText(midnight ? day(t) : clock(t, step < 1000), at + 3, AXIS / 2);
    }
    g.fillStyle = colors.bg;
    g.fillRect(0, 0, labels, AXIS);
    g.fillStyle = colors.dim;
    g.fillText(day(view.from) + ', ' + span(view.to - view.from), 8, AXIS / 2);
  }

  function fit(text, width) {
    if (g.measureText(text).width <= width) return text;
    let low = 0, high = text.length;
    while (low < high) {
      const mid = (low + high + 1) >> 1;
      if (g.measureText(text.slice(0, mid) + '…').width <= width) low = mid; else high = mid - 1;
    }
    return low > 0 ? text.slice(0, low) + '…' : '';
  }

  function bar(e, y, h, width, text) {
    if (hidden[e.k] || e.end < view.from || e.b > view.to) return;
    const left = Math.max(x(e.b, width), labels), right = Math.min(x(e.end, width), width);
    const w = Math.max(right - left, 2);
    g.fillStyle = colorOf(e);
    g.fillRect(left, y, w > 4 ? w - 1 : w, h);
    if (e.f && !STATES[e.k]) {
      g.fillStyle = colors.runfailed;
      g.fillRect(left, y, Math.min(3, w), h);
    }
    if (text && w > 40) {
      g.fillStyle = e.k === 'run' ? '#fff' : e.f ? '#1b1f24' : colors.fg;
      g.fillText(fit(title(e) + (e.w && e.k === 'run' && e.t !== undefined ? ': ' + e.w : ''), w - 8), left + 4, y + h / 2 + 0.5);
    }
    hits.push({ x: left - 1, y: y, w: w + 2, h: h, e: e });
  }

  // drawClosed draws a pod in one line: a stripe for each container, or one for the pod if it has no container yet, and
  // below them the work on the pod.
  function drawClosed(row, y, width) {
    const tracks = row.pod.tracks, containers = tracks.filter((t) => t.name !== '');
    const states = hidden.run && hidden.wait || containers.length === 0 ? tracks : containers;
    const h = Math.max(1, Math.floor(11 / Math.max(1, states.length)));
    states.forEach((t, i) => {
      for (const e of t.entries) if (STATES[e.k]) bar(e, y + 3 + Math.min(i * h, 11 - h), h, width, h >= 11);
    });
    for (const t of tracks) for (const e of t.entries) if (!STATES[e.k]) bar(e, y + 14, 4, width, false);
  }

  function drawOpen(row, y, width) {
    g.font = '10px system-ui, "DejaVu Sans", sans-serif';
    for (const e of row.track.entries) {
      if (STATES[e.k]) bar(e, y + 2 + e.l * LANE, STATE - 2, width, true);
      else bar(e, y + STATE + 1 + (e.l - 1) * LANE, LANE - 2, width, false);
    }
  }

  function drawLabel(row, y, first) {
    const p = row.pod;
    g.font = (first ? '600 ' : '') + '12px system-ui, "DejaVu Sans", sans-serif';
    if (row.track && row.track.name !== '' && !first) {
      g.fillStyle = colors.dim;
      g.fillText(fit(row.track.name, labels - 36), 28, y + STATE / 2 + 1);
      return;
    }
    g.fillStyle = p.failed > 0 ? colors.waitfailed : colors.dim;
    g.fillText(row.track ? '▾' : '▸', 6, y + 10);
    g.fillStyle = p.o ? colors.dim : colors.fg;
    const extra = p.r > 0 ? ' ↻' + p.r : '';
    g.fillText(fit(p.n, labels - 30 - (extra ? 30 : 0)), 20, y + 10);
    if (extra) {
      g.fillStyle = colors.dim;
      g.fillText(extra, labels - 32, y + 10);
    }
  }

  function draw() {
    const ratio = window.devicePixelRatio || 1, width = scroll.clientWidth, height = scroll.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = width + 'px';
      canvas.style.height = height + 'px';
    }
    labels = Math.min(230, Math.round(width * 0.3));
    $('spacer').style.height = Math.max(0, total + AXIS + 8 - height) + 'px';
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.fillStyle = colors.bg;
    g.fillRect(0, 0, width, height);
    hits = [];
    const top = scroll.scrollTop - AXIS, seen = rows.filter((r) => r.y + r.h >= top && r.y <= top + height);
    seen.forEach((row) => {
      if (row.pod === chosen) {
        g.fillStyle = colors.alt;
        g.fillRect(0, row.y - top, width, row.h);
      }
    });
    drawAxis(width, height);
    g.save();
    g.beginPath();
    g.rect(0, AXIS, width, height - AXIS);
    g.clip();
    let last = null;
    for (const row of seen) {
      const y = row.y - top;
      g.textBaseline = 'middle';
      if (row.track) drawOpen(row, y, width); else { g.font = '10px system-ui, "DejaVu Sans", sans-serif'; drawClosed(row, y, width); }
      g.fillStyle = row.pod === chosen ? colors.alt : colors.bg;
      g.fillRect(0, y, labels, row.h);
      drawLabel(row, y, row.pod !== last && (!row.track || row.track === row.pod.tracks[0]));
      last = row.pod;
    }
    g.strokeStyle = colors.line;
    g.strokeRect(labels - 0.5, AXIS - 0.5, width, height);
    g.restore();
    if (brush) {
      g.fillStyle = colors.accent;
      g.globalAlpha = 0.2;
      g.fillRect(Math.min(brush.x, brush.at), 0, Math.abs(brush.at - brush.x), height);
      g.globalAlpha = 1;
    }
  }

`
