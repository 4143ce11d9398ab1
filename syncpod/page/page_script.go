package page

// script shows the state in the document. All texts enter the document as text.
const script = `'use strict';
(function () {
  const $ = (id) => document.getElementById(id);
  const rows = new Map();  // by UID: the row's elements, and the data that they show
  let state = null, tag = '', skew = 0, chosen = '', opened = '', answer = 0, silent = 0, shownPod = '', shownEvents = '', shownProblems = '', framed = '';

  function element(name, text, className) {
    const e = document.createElement(name);
    if (text !== undefined) e.textContent = text;
    if (className) e.className = className;
    return e;
  }

  function set(e, text) { if (e.textContent !== text) e.textContent = text; }

  function now() { return Date.now() + skew; }

  function age(from) {
    if (!from) return '';
    const s = Math.max(0, Math.floor((now() - from) / 1000));
    if (s < 120) return s + ' s';
    if (s < 7200) return Math.floor(s / 60) + ' min';
    if (s < 172800) return Math.floor(s / 3600) + ' h';
    return Math.floor(s / 86400) + ' d';
  }

  function clock(at) {
    const d = new Date(at);
    if (now() - at > 72e6) return d.getFullYear() + '-' + String(d.getMonth() + 1).padStart(2, '0') + '-' + String(d.getDate()).padStart(2, '0');
    return d.toTimeString().slice(0, 8);
  }

  function plural(n, noun) { return n + ' ' + noun + (n === 1 ? '' : 's'); }

  function fullName(p) { return (p.ns && p.ns !== 'default' ? p.ns + '/' : '') + (p.n || p.u || 'node'); }

  function podLink(uid) { return '#pod=' + encodeURIComponent(uid); }

  // row creates the row of a pod.
  function row(p) {
    const r = { tr: element('tr'), link: element('a'), ns: element('span', '', 'ns'), name: element('span'), pill: element('span', '', 'pill'), text: '', shown: '' };
    const cells = ['', '', 'num', 'num', 'num', 'wide'].map((c) => element('td', undefined, c));
    r.link.href = podLink(p.u);
    r.link.tabIndex = -1;
    r.link.append(r.ns, r.name);
    cells[0].append(r.link);
    cells[1].append(r.pill);
    [, , r.ready, r.restarts, r.age, r.message] = cells;
    r.tr.append(...cells);
    r.tr.addEventListener('click', (event) => { if (event.target.closest('a') === null) location.hash = podLink(p.u); });
    return r;
  }

  function update(r, p) {
    r.pod = p;
    const text = JSON.stringify(p);
    if (r.shown === text) return;
    r.shown = text;
    r.text = [p.ns, p.n, p.s, p.m || ''].join(' ').toLowerCase();
    set(r.ns, p.ns === 'default' ? '' : p.ns + '/');
    set(r.name, p.n);
    set(r.pill, p.s);
    r.pill.className = 'pill ' + p.k;
    r.pill.title = p.s;
    set(r.ready, p.r);
    set(r.message, p.m || '');
    r.message.title = p.m || '';
  }

  function restarts(p) {
    if (!p.x) return '0';
    return p.x + (p.e ? ' (' + (p.o ? 'OOMKilled ' : '') + age(p.e) + ' ago)' : '');
  }

  function visible() {
    const words = $('filter').value.toLowerCase().split(/\s+/).filter(Boolean), trouble = $('trouble').checked;
    return state.pods.filter((p) => (!trouble || p.k === 'fails' || p.k === 'unready') && words.every((w) => rows.get(p.u).text.includes(w)));
  }

  // draw brings the list up to date. It moves only rows that are out of place, so that the focus stays.
  function draw() {
    const known = new Set(state.pods.map((p) => p.u));
    for (const [uid, r] of rows) {
      if (known.has(uid)) continue;
      r.tr.remove();
      rows.delete(uid);
    }
    for (const p of state.pods) {
      if (!rows.has(p.u)) rows.set(p.u, row(p));
      update(rows.get(p.u), p);
    }
    const body = $('pods'), pods = visible(), shown = new Set(pods.map((p) => p.u));
    for (const [uid, r] of rows) if (!shown.has(uid)) r.tr.remove();
    let next = body.firstChild;
    for (const p of pods) {
      const tr = rows.get(p.u).tr;
      if (tr === next) next = next.nextSibling; else body.insertBefore(tr, next);
    }
    if (!shown.has(chosen)) chosen = pods.length ? pods[0].u : '';
    for (const p of pods) {
      const r = rows.get(p.u);
      r.link.tabIndex = p.u === chosen ? 0 : -1;
      r.tr.classList.toggle('chosen', p.u === opened);
    }
    $('table').hidden = pods.length === 0;
    $('empty').hidden = pods.length > 0;
    set($('empty'), state.pods.length ? 'No pod matches the filter.' : 'There are no pods yet.');
    set($('shown'), pods.length === state.pods.length ? '' : pods.length + ' of ' + state.pods.length);
    ages();
  }

  function ages() {
    for (const r of rows.values()) {
      set(r.age, age(r.pod.b));
      set(r.restarts, restarts(r.pod));
    }
  }

  function counts() {
    const n = (k) => state.pods.filter((p) => p.k === k).length;
    const parts = [plural(state.pods.length, 'pod')];
    for (const [k, text] of [['runs', 'running'], ['done', 'completed'], ['changes', 'changing'], ['unready', 'not ready'], ['fails', 'failing']]) {
      if (n(k)) parts.push(n(k) + ' ' + text);
    }
    set($('counts'), parts.join(' · '));
    const title = state.node ? 'Pods of ' + state.node : 'Pods';
    set($('title'), title);
    document.title = (n('fails') ? '(' + n('fails') + ') ' : '') + title;
  }

  function problems() {
    const text = JSON.stringify(state.problems);
    if (text === shownProblems) return;
    shownProblems = text;
    $('problems').hidden = state.problems.length === 0;
    const rejected = state.problems.filter((p) => p.k === 'manifest').length, others = state.problems.length - rejected;
    set($('problem-count'), [rejected ? plural(rejected, 'rejected manifest') : '', others ? plural(others, 'problem') : ''].filter(Boolean).join(', '));
    $('problem-list').replaceChildren(...state.problems.map((p) => {
      const li = element('li');
      li.append(element('b', { manifest: 'rejected', warning: 'warning', agent: 'agent' }[p.k]), p.m);
      return li;
    }));
  }

  function eventLine(e, withName) {
    const li = element('li', undefined, e.w ? 'warning' : ''), time = element('time', clock(e.t)), text = element('div');
    time.title = new Date(e.t).toString();
    if (withName) {
      const a = element('a', fullName(e));
      if (rows.has(e.u)) a.href = podLink(e.u);
      text.append(a, ' ');
    }
    text.append(element('b', e.r), e.c ? element('span', e.c + ': ', 'dim') : '', e.m);
    if (e.x > 1) text.append(element('span', ' (' + e.x + ' times)', 'dim'));
    li.append(time, text);
    return li;
  }

  function events() {
    const text = JSON.stringify(state.events);
    if ($('view-events').hidden || text === shownEvents) return;
    shownEvents = text;
    $('events').replaceChildren(...state.events.map((e) => eventLine(e, true)));
    $('no-events').hidden = state.events.length > 0;
  }

  function container(c) {
    const box = element('div', undefined, 'container');
    const kind = c.s === 'Running' ? (c.r ? 'runs' : 'unready') : c.s === 'Terminated' ? (c.w && c.w.startsWith('Completed') ? 'done' : 'fails') : c.w && c.w !== 'ContainerCreating' && c.w !== 'PodInitializing' ? 'fails' : 'changes';
    const word = c.s === 'Running' ? (c.r ? 'Running' : 'Running, not ready') : c.w || c.s;
    box.append(element('b', c.n));
    if (c.k) box.append(element('span', c.k + ' ', 'dim'));
    box.append(element('span', word, 'pill ' + kind));
    const facts = [c.i];
    if (c.t) facts.push('for ' + age(c.t));
    if (c.x) facts.push(plural(c.x, 'restart'));
    if (c.l) facts.push('last exit: ' + c.l);
    box.append(element('div', facts.join(' · ')));
    return box;
  }

  function showPod(p) {
    const text = JSON.stringify(p) + Math.floor(now() / 10000); // ages
    if (text === shownPod) return;
    shownPod = text;
    set($('pod-name'), fullName(p));
    const facts = [element('span', p.s, 'pill ' + p.k), ' ' + p.r + ' ready'];
    if (p.address) facts.push(' · ' + p.address);
    if (p.b) facts.push(' · for ' + age(p.b));
    $('pod-name').title = 'UID ' + p.u;
    $('pod-line').replaceChildren(...facts);
    $('explanation').replaceChildren(...p.explanation.split('\n').filter(Boolean).map((line) => element('p', line)));
    $('containers').replaceChildren(...p.containers.map(container));
    $('pod-events').replaceChildren(...(p.events.length ? p.events.map((e) => eventLine(e, false)) : [element('li', 'none yet', 'dim')]));
    $('pod-timeline').hidden = !state.timeline;
    $('to-pod-timeline').href = '#timeline=' + encodeURIComponent(p.ns + '/' + p.n);
  }

  // follow reads the open pod.
  async function follow(focus) {
    if (!opened) return;
    const uid = opened, mine = ++answer;
    let text = '', pod = null;
    try {
      const response = await fetch('pod?uid=' + encodeURIComponent(uid), { cache: 'no-store' });
      if (response.ok) pod = await response.json(); else text = response.status === 404 ? 'This pod is gone.' : await response.text();
    } catch (e) {
      return; // the next poll reports that the agent does not answer
    }
    if (mine !== answer) return;
    if (pod) showPod(pod); else $('explanation').replaceChildren(element('p', text));
    if (focus) $('pod-name').focus();
  }

  function frame(pod) {
    const url = 'timeline' + (pod ? '?pod=' + encodeURIComponent(pod) : '');
    $('alone').href = url;
    if (framed !== url) {
      framed = url;
      $('frame').src = url;
    }
  }

  // route shows what the URL names: a view, or a pod.
  function route(focus) {
    const [view, argument] = location.hash.slice(1).split('=', 2), name = ['events', 'timeline'].includes(view) ? view : 'pods';
    for (const v of ['pods', 'events', 'timeline']) {
      $('view-' + v).hidden = v !== name;
      if (v === name) $('to-' + v).setAttribute('aria-current', 'page'); else $('to-' + v).removeAttribute('aria-current');
    }
    let value = '';
    try { value = decodeURIComponent(argument || ''); } catch (e) { value = ''; }
    if (name === 'timeline') frame(value);
    const before = opened;
    opened = view === 'pod' ? value : '';
    $('detail').hidden = !opened;
    document.body.classList.toggle('open', opened !== '');
    if (opened && opened !== before) {
      chosen = opened;
      shownPod = '';
      for (const id of ['explanation', 'containers', 'pod-events', 'pod-line', 'pod-name']) $(id).replaceChildren();
      follow(focus);
    }
    if (!state) return;
    draw();
    events();
    if (before && !opened && name === 'pods' && rows.has(before)) rows.get(before).link.focus();
  }

  function alive(text, className) {
    set($('live'), text);
    $('live').className = className;
  }

  async function poll() {
    try {
      const response = await fetch('state', { cache: 'no-store', headers: tag ? { 'If-None-Match': tag } : {} });
      const date = Date.parse(response.headers.get('Date'));
      if (date && Math.abs(date - Date.now()) > 2000) skew = date - Date.now();
      if (response.ok) {
        tag = response.headers.get('ETag');
        state = await response.json();
        $('to-timeline').hidden = !state.timeline;
        counts();
        problems();
        draw();
        events();
      } else if (response.status !== 304) throw new Error(await response.text());
      alive('live', 'on');
      await follow(false);
    } catch (e) {
      silent = silent || Date.now();
      alive('the agent does not answer, since ' + clock(silent), 'off');
      return;
    }
    silent = 0;
  }

  async function run() {
    for (;;) {
      if (!document.hidden) await poll();
      if (state) ages();
      await new Promise((next) => setTimeout(next, 1000));
    }
  }

  function move(by) {
    const pods = visible();
    if (!pods.length) return;
    const at = Math.max(0, pods.findIndex((p) => p.u === chosen));
    const to = by === -Infinity ? 0 : by === Infinity ? pods.length - 1 : document.activeElement.closest('#pods') ? Math.min(pods.length - 1, Math.max(0, at + by)) : at;
    rows.get(chosen).link.tabIndex = -1;
    chosen = pods[to].u;
    const link = rows.get(chosen).link;
    link.tabIndex = 0;
    link.focus();
    link.scrollIntoView({ block: 'nearest' });
  }

  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const typing = event.target.id === 'filter', inList = !$('view-pods').hidden;
    if (event.key === '/' && !typing && inList) $('filter').focus();
    else if (event.key === 'Escape' && typing && $('filter').value) { $('filter').value = ''; if (state) draw(); }
    else if (event.key === 'Escape' && opened) location.hash = '#pods';
    else if (inList && state && event.key === 'ArrowDown' && !event.target.closest('#detail')) move(1);
    else if (inList && state && event.key === 'ArrowUp' && !typing && !event.target.closest('#detail')) move(-1);
    else if (inList && state && !typing && event.key === 'Home' && event.target.closest('#pods')) move(-Infinity);
    else if (inList && state && !typing && event.key === 'End' && event.target.closest('#pods')) move(Infinity);
    else return;
    event.preventDefault();
  });
  $('filter').addEventListener('input', () => { if (state) draw(); });
  $('trouble').addEventListener('change', () => { if (state) draw(); });
  $('reload').addEventListener('click', () => { $('frame').contentWindow.location.reload(); });
  window.addEventListener('hashchange', () => route(true));
  route(false);
  run();
})();
`
