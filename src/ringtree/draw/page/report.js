'use strict';

// Bench records: four charts of the same lines (time and bus bandwidth, over size and over ranks), their legend, the
// rows below, and the machines. Facts are in the DOM: data-line, data-x and data-y on what is drawn.
ringtree.view('report', {mount(element, data, shell) {
  const {t} = shell;
  const points = reportPoints(data, shell);
  const crossings = reportCrossings(data, shell);
  const looks = data.lines.map((_, i) => reportChart.style(i));
  const state = {what: 0, inPlace: 0, min: 0, ranks: 0, nbytes: 0, hidden: new Set()};
  let panels = [];

  const part = (tag, className, parent = element) => {
    const made = document.createElement(tag);
    made.className = className;
    parent.append(made);
    return made;
  };
  const bar = part('div', 'report-bar');
  const machine = part('p', 'report-machine');
  const warning = part('p', 'report-warning');
  const legend = part('div', 'report-legend');
  const charts = part('div', 'report-charts');
  const svg = d3.select(charts).append('svg');
  const tip = part('div', 'report-tip', charts);
  const heading = part('h2', 'report-heading');
  const table = reportTable.create(shell, (row) => highlight(row && {line: row.line, index: row.index}));
  element.append(...table.elements);
  const machines = part('div', 'report-machines');

  // -- what is chosen

  const statistic = () => 2 * state.inPlace + state.min;
  const here = () => points.filter((p) => p.what === state.what);
  const shown = () => here().filter((p) => !state.hidden.has(p.line) && p.times[statistic()] > 0);
  const distinct = (name) => [...new Set(here().map((p) => p[name]))].sort(d3.ascending);

  // Another collective: its own numbers of ranks and sizes, and a side that it has.
  function settle() {
    const figures = [statistic(), 0, 2, 1, 3].find((i) => here().some((p) => p.times[i] > 0));
    Object.assign(state, {inPlace: figures >> 1, min: figures & 1});
    for (const name of ['ranks', 'nbytes']) {
      if (!distinct(name).includes(state[name])) state[name] = richest(name);
    }
  }

  // The number of ranks, or the size, that most was measured at; of several the most ranks, or the size in the middle.
  function richest(name) {
    const counts = d3.rollup(here(), (own) => own.length, (p) => p[name]);
    const most = distinct(name).filter((value) => counts.get(value) === d3.max(counts.values()));
    return most[name === 'ranks' ? most.length - 1 : Math.floor(most.length / 2)];
  }

  function choose(change) {
    Object.assign(state, change);
    settle();
    redraw();
  }

  function toggle(line, alone) {
    const others = [...new Set(here().map((p) => p.line))].filter((other) => other !== line);
    if (alone) state.hidden = new Set(others.every((o) => state.hidden.has(o)) ? [] : others);
    else if (!state.hidden.delete(line)) state.hidden.add(line);
    redraw();
  }

  // -- controls

  const idOf = (text) => text.replace('.', '-');

  function select(text, values, chosen, format, change) {
    const label = part('label', '', bar);
    label.append(t(text));
    const list = part('select', '', label);
    list.id = idOf(text);
    values.forEach((value, i) => list.add(new Option(format(value), i, false, value === chosen)));
    list.disabled = values.length < 2;
    list.onchange = () => choose(change(values[list.value]));
  }

  function twoWay(name, texts, disabled) {
    const group = part('div', 'report-switch', bar);
    group.setAttribute('role', 'group');
    texts.forEach((text, i) => {
      const button = part('button', '', group);
      Object.assign(button, {type: 'button', id: idOf(text), textContent: t(text)});
      button.setAttribute('aria-pressed', state[name] === i);
      button.disabled = disabled(i);
      button.onclick = () => choose({[name]: i});
    });
  }

  function drawBar() {
    const focused = document.activeElement && bar.contains(document.activeElement) ? document.activeElement.id : '';
    bar.replaceChildren();
    const whats = data.whats.map((_, i) => i);
    select('report.what', whats, state.what, (i) => data.whats[i].join(' '), (what) => ({what}));
    select('report.ranks', distinct('ranks'), state.ranks, shell.number, (ranks) => ({ranks}));
    if (distinct('ranks').length > 1) {
      select('report.size', distinct('nbytes'), state.nbytes, reportChart.size, (nbytes) => ({nbytes}));
    }
    twoWay('inPlace', ['report.out_of_place', 'report.in_place'], (i) => !here().some((p) => p.times[2 * i] || p.times[2 * i + 1]));
    twoWay('min', ['report.median', 'report.min'], (i) => !here().some((p) => p.times[2 * state.inPlace + i]));
    if (focused) document.getElementById(focused)?.focus();
  }

  function drawLegend() {
    const lines = [...new Set(here().map((p) => p.line))];
    legend.replaceChildren(...lines.map((line) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.dataset.line = data.lines[line];
      button.title = t('report.legend_hint');
      button.setAttribute('aria-pressed', !state.hidden.has(line));
      button.append(reportSwatch(looks[line], shell), data.lines[line]);
      button.onclick = (event) => toggle(line, event.shiftKey);
      button.onpointerenter = () => highlight({line});
      button.onpointerleave = () => highlight(null);
      return button;
    }));
  }

  // -- charts

  function chartSpec(axis, isTime) {
    const [x, fixed] = axis === 0 ? ['nbytes', 'ranks'] : ['ranks', 'nbytes'];
    const at = state[fixed];
    const y = (p) => (isTime ? p.times[statistic()] : p.busbw(statistic()));
    const usable = shown().filter((p) => p[fixed] === at && p[x] > 0 && y(p) > 0);
    const lines = d3.groups(usable, (p) => p.line).map(([line, own]) => ({
      line, name: data.lines[line], look: looks[line],
      points: [...d3.index([...own].sort((a, b) => a[x] - b[x]).map((p) => ({x: p[x], y: y(p), point: p})), (p) => p.x).values()],
    }));
    const format = axis === 0 ? reportChart.size : (n) => shell.number(Math.ceil(n)); // there are no 2.1 ranks
    const where = axis === 0 ? reportRanks(at, t) : reportChart.size(at);
    return {
      lines, axis, isTime, lowerIsBetter: isTime,
      title: `${t(isTime ? 'report.time' : 'report.bandwidth')} · ${where}`,
      xName: t(axis === 0 ? 'report.bytes' : 'report.ranks'), xFormat: format,
      yFormat: isTime ? reportChart.time : reportChart.bandwidth,
      empty: t('report.nothing'),
      crossings: marks(lines, axis, at, isTime, format),
    };
  }

  // Where lines that are shown cross, and whether the best of them changes there.
  function marks(lines, axis, at, isTime, format) {
    const byLine = new Map(lines.map((line) => [line.line, line]));
    const best = (heights) => (isTime ? Math.min : Math.max)(...heights.filter((h) => !Number.isNaN(h)));
    const isBest = (m) => Math.abs(m.y / best(lines.map((line) => reportChart.heightAt(line.points, m.x))) - 1) < 1e-6;
    return crossings.filter((c) => c.what === state.what && c.statistic === statistic() && c.axis === axis && c.at === at)
      .filter((c) => byLine.has(c.below) && byLine.has(c.above))
      .map((c) => ({
        ...c, y: reportChart.heightAt(byLine.get(c.below).points, c.x),
        before: data.lines[c.below], after: data.lines[c.above],
        label: format(c.x), title: t('report.crossing', {size: format(c.x), before: data.lines[c.below], after: data.lines[c.above]}),
      }))
      .map((m) => ({...m, isBest: isBest(m)}));
  }

  function drawCharts(target, width) {
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    const gap = rem;
    const axes = [0, 1].filter((axis) => (axis === 0 ? distinct('nbytes').at(-1) > 0 : distinct('ranks').length > 1));
    if (!axes.length) axes.push(1); // a barrier on one number of ranks
    const specs = axes.flatMap((axis) => [chartSpec(axis, true), chartSpec(axis, false)]);
    const rows = specs.length / 2;
    const room = (innerHeight - charts.offsetTop - rem) / rows - gap; // all of them in one window, if it is large enough
    const size = {width: (width - gap) / 2, height: Math.max(19 * rem, Math.min(room, 34 * rem))};
    target.selectChildren().remove();
    const height = rows * (size.height + gap) - gap;
    target.attr('width', width).attr('height', height).attr('font-family', getComputedStyle(document.body).fontFamily);
    panels = specs.map((spec, i) => {
      const offset = [(i % 2) * (size.width + gap), Math.floor(i / 2) * (size.height + gap)];
      const g = target.append('g').attr('class', 'report-chart').attr('transform', `translate(${offset})`)
        .attr('data-chart', `${spec.isTime ? 'time' : 'busbw'}-${spec.axis === 0 ? 'size' : 'ranks'}`);
      return {spec, g, offset, ...reportChart.draw(g, spec, size, shell, rem)};
    });
  }

  // -- hover: the line in every chart, and the figures of all lines at that place

  function highlight(what) {
    const faded = (line) => what !== null && line.line !== what.line;
    for (const {g, spec, axis} of panels) {
      g.selectAll('.report-line').classed('faded', (_, i) => faded(spec.lines[i]));
      g.selectAll('.guide').remove();
      const own = what ? spec.crossings.filter((c) => !c.isBest && [c.below, c.above].includes(what.line)) : [];
      reportChart.drawTheirCrossings(g, own, axis, shell);
    }
    if (!what || what.index === undefined) return;
    for (const {g, places, box} of panels) {
      const place = places.find((one) => one.p.point.index === what.index);
      if (!place) continue;
      g.insert('line', '.report-lines').attr('class', 'guide').attr('stroke', shell.colours['line-strong'])
        .attr('x1', place.px).attr('x2', place.px).attr('y1', box.top).attr('y2', box.bottom);
    }
  }

  function nearest(event) {
    const [x, y] = d3.pointer(event, svg.node());
    let found = null;
    for (const {offset, places, spec} of panels) {
      for (const place of places) {
        const distance = Math.hypot(place.px + offset[0] - x, place.py + offset[1] - y);
        if (distance < 48 && (!found || distance < found.distance)) found = {distance, place, spec, x, y};
      }
    }
    return found;
  }

  function drawTip({place, spec, x, y}) {
    const point = place.p.point;
    const same = spec.lines.map((line) => line.points.find((p) => p.x === place.p.x)).filter(Boolean).map((p) => p.point);
    same.sort((a, b) => a.times[statistic()] - b.times[statistic()]);
    tip.replaceChildren(...reportTip(point, same.slice(0, 14), data.lines, looks, statistic(), shell));
    tip.hidden = false;
    const left = x + 20 + tip.offsetWidth > charts.clientWidth ? x - 20 - tip.offsetWidth : x + 20;
    tip.style.left = `${Math.max(0, left)}px`;
    tip.style.top = `${Math.max(0, y - tip.offsetHeight / 2)}px`;
  }

  function hover(event) {
    const found = event && nearest(event);
    tip.hidden = true;
    highlight(found ? {line: found.place.line.line, index: found.place.p.point.index} : null);
    if (found) drawTip(found);
  }
  svg.on('pointermove', hover).on('pointerleave', () => hover(null));

  // -- all of it

  function drawTable() {
    const figure = (p, i) => (p.times[i] > 0 ? p.times[i] : NaN);
    const fastest = d3.rollup(shown(), (own) => d3.min(own, (p) => p.times[statistic()]), (p) => `${p.ranks} ${p.nbytes}`);
    heading.textContent = `${t('report.rows')} · ${data.whats[state.what].join(' ')}`;
    table.show(shown().map((p) => ({
      ...p, name: data.lines[p.line], swatch: () => reportSwatch(looks[p.line], shell),
      median: figure(p, 2 * state.inPlace), min: figure(p, 2 * state.inPlace + 1),
      wrong: p.wrong[state.inPlace],
      algbw: p.nbytes / p.times[statistic()] / 1e3, busbw: p.busbw(statistic()),
      behind: p.times[statistic()] / fastest.get(`${p.ranks} ${p.nbytes}`),
    })));
  }

  function redraw() {
    Object.assign(element.dataset, {
      what: data.whats[state.what].join(' '), ranks: state.ranks, size: state.nbytes,
      statistic: ['time_us', 'time_min_us', 'in_place_time_us', 'in_place_time_min_us'][statistic()],
    });
    drawBar();
    drawLegend();
    machine.textContent = data.differing.length === 0 ? reportMachine(data.records[0].machine, shell) : '';
    warning.hidden = !data.differing.length;
    warning.textContent = t('report.warning', {what: data.differing.map((key) => t(REPORT_MACHINE[key])).join(', ')});
    tip.hidden = true;
    drawCharts(svg, element.clientWidth - 2 * parseFloat(getComputedStyle(element).paddingLeft));
    drawTable();
    machines.replaceChildren(...reportMachines(data, shell));
  }

  function step(by) {
    const ranks = distinct('ranks');
    choose({ranks: ranks[Math.min(Math.max(ranks.indexOf(state.ranks) + by, 0), ranks.length - 1)]});
  }

  settle();
  return {
    redraw,
    svg: () => reportPicture(svg.node(), shown().map((p) => p.line), data.lines, looks, shell),
    keys: {
      i: () => choose({inPlace: 1 - state.inPlace}), m: () => choose({min: 1 - state.min}),
      ArrowLeft: () => step(-1), ArrowRight: () => step(1),
    },
    help: [['I', 'report.key_in_place'], ['M', 'report.key_min'], ['← →', 'report.key_ranks']],
    notes: ['report.note_crossing', 'report.note_legend', 'report.note_machine'],
  };
}});
