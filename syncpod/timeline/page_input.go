package timeline

// scriptInput handles the user's input: tooltips, tables, zoom and filters.
const scriptInput = `  function line(element, text) {
    const child = document.createElement(element);
    child.textContent = text;
    return child;
  }

  function took(e) { return span(e.end - e.b) + (e.t === undefined ? ', goes on' : ''); }

  function showTip(hit, px, py) {
    tip.replaceChildren();
    const e = hit.e;
    tip.append(line('b', (e.c ? e.c + ': ' : '') + title(e)));
    if (e.w) tip.append(line('div', e.w));
    tip.append(line('span', clock(e.b, true) + ', ' + took(e) + (e.x > 1 ? ', ' + e.x + ' times' : '')), line('span', e.pod.n));
    tip.style.display = 'block';
    tip.style.left = Math.max(4, Math.min(px + 14, innerWidth - tip.offsetWidth - 6)) + 'px';
    tip.style.top = Math.max(4, Math.min(py + 16, innerHeight - tip.offsetHeight - 6)) + 'px';
  }

  function showDetails(p) {
    chosen = p;
    $('details').style.display = p ? 'block' : 'none';
    if (!p) return draw();
    $('pod').textContent = p.n + (p.p ? ', ' + p.p : '') + (p.o ? ', over' : '') + (p.r ? ', ' + p.r + ' restarts' : '') +
      (p.d ? ', ' + p.d + ' older entries were dropped' : '');
    $('rows').replaceChildren(...p.e.map((e) => {
      const row = document.createElement('tr');
      if (e.f) row.className = 'failed';
      row.append(line('td', clock(e.b, true)), line('td', took(e)), line('td', e.c || ''), line('td', title(e) + (e.x > 1 ? ' ×' + e.x : '')), line('td', e.w || ''));
      return row;
    }));
    draw();
  }

  function zoom(factor, at) {
    const middle = at === undefined ? (view.from + view.to) / 2 : at;
    const length = Math.max(5, Math.min((view.to - view.from) * factor, (data.now - earliest) * 4 + 60000));
    const part = (middle - view.from) / (view.to - view.from);
    view = { from: middle - length * part, to: middle + length * (1 - part) };
    draw();
  }

  function timeAt(px) { return view.from + (px - labels) / (scroll.clientWidth - labels) * (view.to - view.from); }

  function look(from, to) {
    const length = Math.max(to - from, 1000);
    view = { from: from - length * 0.02, to: to + length * 0.02 };
    draw();
  }

  let drag = null, brush = null;
  canvas.addEventListener('pointerdown', (event) => {
    const box = canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
    canvas.setPointerCapture(event.pointerId);
    if (py < AXIS && px > labels) brush = { x: px, at: px };
    else drag = { x: px, y: event.clientY, from: view.from, to: view.to, top: scroll.scrollTop, moved: false };
  });
  canvas.addEventListener('pointermove', (event) => {
    const box = canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
    if (brush) {
      brush.at = px;
      return draw();
    }
    if (drag) {
      const shift = (px - drag.x) / (scroll.clientWidth - labels) * (drag.to - drag.from);
      drag.moved = drag.moved || Math.abs(px - drag.x) + Math.abs(event.clientY - drag.y) > 4;
      if (!drag.moved) return;
      view = { from: drag.from - shift, to: drag.to - shift };
      scroll.scrollTop = drag.top - (event.clientY - drag.y);
      tip.style.display = 'none';
      return draw();
    }
    const hit = hits.findLast((h) => px >= h.x && px <= h.x + h.w && py >= h.y && py <= h.y + h.h);
    if (hit && px >= labels) showTip(hit, event.clientX, event.clientY); else tip.style.display = 'none';
  });
  canvas.addEventListener('pointerleave', () => { tip.style.display = 'none'; });
  canvas.addEventListener('pointercancel', () => { drag = brush = null; draw(); });
  canvas.addEventListener('pointerup', (event) => {
    const box = canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
    if (brush) {
      const [from, to] = [Math.min(brush.x, px), Math.max(brush.x, px)];
      brush = null;
      if (to - from > 3) view = { from: timeAt(from), to: timeAt(to) };
      return draw();
    }
    const clicked = drag && !drag.moved;
    drag = null;
    if (!clicked) return;
    const y = py + scroll.scrollTop - AXIS, row = rows.find((r) => y >= r.y && y < r.y + r.h);
    if (!row) return;
    if (px < labels) {
      opened[row.pod.u] = !opened[row.pod.u];
      layout();
    }
    showDetails(row.pod);
  });
  canvas.addEventListener('wheel', (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(Math.exp(event.deltaY * 0.002), timeAt(event.clientX - canvas.getBoundingClientRect().left));
  }, { passive: false });
  canvas.addEventListener('keydown', (event) => {
    const step = (view.to - view.from) / 10;
    const keys = {
      ArrowLeft: () => { view = { from: view.from - step, to: view.to - step }; draw(); },
      ArrowRight: () => { view = { from: view.from + step, to: view.to + step }; draw(); },
      '+': () => zoom(0.7), '=': () => zoom(0.7), '-': () => zoom(1.4), '0': () => look(earliest, data.now),
    };
    if (keys[event.key]) {
      event.preventDefault();
      keys[event.key]();
    }
  });
  scroll.addEventListener('scroll', draw);
  new ResizeObserver(draw).observe(scroll);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { readColors(); draw(); });
  $('filter').addEventListener('input', layout);
  $('trouble').addEventListener('change', layout);
  $('sort').addEventListener('change', layout);
  $('in').addEventListener('click', () => zoom(0.6));
  $('out').addEventListener('click', () => zoom(1.7));
  $('fit').addEventListener('click', () => look(earliest, data.now));
  $('hide').addEventListener('click', () => showDetails(null));
  for (const [id, is] of [['open', true], ['close', false]]) {
    $(id).addEventListener('click', () => {
      for (const p of data.pods) opened[p.u] = is;
      layout();
    });
  }
  for (const kind of Object.keys(KINDS)) {
    const button = document.createElement('button'), sample = document.createElement('i');
    button.type = 'button';
    button.setAttribute('aria-pressed', 'true');
    sample.style.background = 'var(--' + kind + ')';
    button.append(sample, KINDS[kind]);
    button.addEventListener('click', () => {
      hidden[kind] = !hidden[kind];
      button.setAttribute('aria-pressed', String(!hidden[kind]));
      draw();
    });
    $('legend').append(button);
  }
  if (data.node) {
    $('title').textContent = document.title = 'Pods of ' + data.node;
  }
  readColors();
  const asked = data.pods.find((p) => location.hash === '#' + p.n);
  if (asked) opened[asked.u] = true;
  look(Math.max(earliest, data.since), data.now);
  layout();
  if (asked) {
    showDetails(asked);
    scroll.scrollTop = Math.max(0, rows.find((r) => r.pod === asked).y - AXIS);
  }
})();
`
