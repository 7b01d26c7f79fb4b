'use strict';

// The report's data as objects, and the small pieces of the page that say them: swatches, tips, machines.

function reportPoints(data, shell) {
  const {count} = data.points;
  const column = (name) => shell.decode(data.points[name], count);
  const [line, what, ranks, nbytes, factor] = ['line', 'what', 'ranks', 'nbytes', 'busFactor'].map(column);
  const wrong = data.points.wrong.map((encoded) => shell.decode(encoded, count));
  const times = data.points.timesUs.map((encoded) => shell.decode(encoded, count));
  return d3.range(count).map((index) => ({
    index, line: line[index], what: what[index], ranks: ranks[index], nbytes: nbytes[index],
    wrong: wrong.map((own) => own[index]), times: times.map((own) => own[index]),
    algorithm: data.points.algorithm[index], program: data.points.program[index],
    busbw(statistic) { return (this.nbytes * factor[index]) / this.times[statistic] / 1e3; },
  }));
}

function reportCrossings(data, shell) {
  const {count} = data.crossings;
  const names = ['statistic', 'what', 'axis', 'at', 'below', 'above', 'x'];
  const columns = names.map((name) => shell.decode(data.crossings[name], count));
  return d3.range(count).map((i) => Object.fromEntries(names.map((name, k) => [name, columns[k][i]])));
}

// A new element of a class, at the end of another.
function reportPart(parent, tag, className) {
  const made = document.createElement(tag);
  made.className = className;
  parent.append(made);
  return made;
}

function reportSwatch(line, shell) {
  const svg = d3.create('svg').attr('class', 'report-swatch').attr('viewBox', '0 0 27 16').attr('aria-hidden', true);
  reportSample(svg, lineStyle(line), shell);
  return svg.node();
}

// A short piece of the line, 27 by 16.
function reportSample(g, look, shell) {
  const colour = shell.colours[look.colour];
  g.append('path').attr('d', 'M1 8H26').attr('stroke', colour).attr('stroke-width', 2).attr('stroke-dasharray', look.dash);
  g.append('path').attr('d', symbolPath(look, 14)).attr('fill', colour).attr('transform', 'translate(13.5,8)');
}

// What is said beside a point: where, and every line's figures there, the best first.
function reportTip(point, same, names, statistic, shell) {
  const where = document.createElement('p');
  const exactly = point.nbytes < 1024 ? '' : ` (${shell.number(point.nbytes)} B)`;
  where.textContent = `${sizeText(point.nbytes)}${exactly} · ${shell.t('report.n_ranks', {ranks: point.ranks})}`;
  const table = document.createElement('table');
  const exact = (value) => value.toLocaleString(shell.language, {maximumSignificantDigits: 5});
  for (const p of same) {
    const tr = table.insertRow();
    tr.className = p.index === point.index ? 'near' : '';
    const name = tr.insertCell();
    name.append(reportSwatch(p.line, shell), names[p.line]);
    for (const text of [`${exact(p.times[statistic])} µs`, `${exact(p.busbw(statistic))} GB/s`]) {
      const td = tr.insertCell();
      td.className = 'number';
      td.textContent = text;
    }
    if (p.algorithm && !names[p.line].includes(p.algorithm)) tr.insertCell().textContent = p.algorithm;
  }
  return [where, table];
}

// The points that are shown, as rows of the table.
function reportRows(choice, names) {
  const {statistic, inPlace} = choice;
  const shown = choice.shown();
  const figure = (p, i) => (p.times[i] > 0 ? p.times[i] : NaN);
  const place = (p) => `${p.ranks} ${p.nbytes}`;
  const least = d3.rollup(shown, (own) => d3.min(own, (p) => p.times[statistic]), place);
  return shown.map((p) => ({
    ...p, name: names[p.line], wrong: p.wrong[inPlace],
    median: figure(p, 2 * inPlace), min: figure(p, 2 * inPlace + 1),
    algbw: p.nbytes / p.times[statistic] / 1e3, busbw: p.busbw(statistic),
    behind: p.times[statistic] / least.get(place(p)),
  }));
}

const REPORT_MACHINE = {
  cpu: 'report.machine_cpu', cores: 'report.machine_cores', caches: 'report.machine_caches',
  numa_nodes: 'report.machine_numa_nodes', memory_bytes: 'report.machine_memory_bytes', kernel: 'report.machine_kernel',
  python: 'report.machine_python', numpy: 'report.machine_numpy', ringtree: 'report.machine_ringtree',
};

function reportValue(machine, key) {
  const value = machine[key];
  if (value === undefined || value === null || value === '' || value === 0) return '';
  if (key === 'memory_bytes') return sizeText(value);
  return Array.isArray(value) ? value.join(', ') : String(value);
}

// The machine and the versions in one line.
function reportMachine(machine, shell) {
  const said = (key) => reportValue(machine, key);
  return [
    machine.cpu && shell.t('report.cores_of', {cores: said('cores'), cpu: machine.cpu}),
    said('caches'), said('memory_bytes'), said('kernel'), said('python'),
    machine.numpy && `numpy ${machine.numpy}`, machine.ringtree && `ringtree ${machine.ringtree}`,
  ].filter(Boolean).join(' · ');
}

// A column a record: its machine, its versions, and how it was measured. What differs stands out.
function reportMachines(data, shell) {
  const heading = document.createElement('h2');
  heading.className = 'report-heading';
  heading.textContent = shell.t('report.machines');
  const table = document.createElement('table');
  table.className = 'report-table';
  const head = table.createTHead().insertRow();
  for (const name of ['', ...data.records.map((record) => record.name)]) {
    const th = document.createElement('th');
    th.scope = 'col';
    th.textContent = name;
    head.append(th);
  }
  const body = table.createTBody();
  const row = (title, values) => {
    if (!values.some(Boolean)) return;
    const tr = body.insertRow();
    tr.insertCell().textContent = title;
    for (const value of values) {
      const td = tr.insertCell();
      td.textContent = value || '–';
      if (values.some((other) => other !== values[0])) td.className = 'differs';
    }
  };
  for (const [key, text] of Object.entries(REPORT_MACHINE)) {
    row(shell.t(text), data.records.map((record) => reportValue(record.machine, key)));
  }
  const effort = (record) => reportEffort(record.effort, shell).join(' · ');
  row(shell.t('report.effort'), data.records.map(effort));
  return [heading, table];
}

// How it was measured, in words; what other programs say of themselves, as they say it.
function reportEffort(effort, {t}) {
  const whose = ['report.effort_rank_0', 'report.effort_average', 'report.effort_fastest', 'report.effort_slowest'];
  const words = {
    warmup: (count) => t('report.effort_warmup', {count}),
    iterations: (count) => t('report.effort_iterations', {count}),
    check: (isChecked) => t(isChecked ? 'report.effort_checked' : 'report.effort_unchecked'),
    across: (which) => (whose[which] ? t(whose[which]) : ''),
    symmetric: (isSymmetric) => (isSymmetric ? t('report.effort_symmetric') : ''),
  };
  return Object.entries(effort).filter(([, value]) => value !== null)
    .map(([name, value]) => (words[name] ? words[name](value) : `${name} ${value}`)).filter(Boolean);
}

// The charts with a legend under them, as one picture that stands alone.
function reportPicture(node, shown, names, shell) {
  const copy = d3.select(node.cloneNode(true));
  const [width, height] = [Number(copy.attr('width')), Number(copy.attr('height'))];
  const lines = [...new Set(shown)];
  const columns = Math.max(1, Math.floor(width / 220));
  copy.selectAll('.guide').remove();
  copy.selectAll('.faded').classed('faded', false);
  copy.insert('rect', ':first-child').attr('width', '100%').attr('height', '100%').attr('fill', shell.colours.page);
  lines.forEach((line, i) => {
    const at = [20 + (i % columns) * 220, height + 18 + Math.floor(i / columns) * 24];
    const g = copy.append('g').attr('transform', `translate(${at})`);
    reportSample(g, lineStyle(line), shell);
    g.append('text').attr('x', 36).attr('y', 13).attr('font-size', 13).attr('fill', shell.colours.ink).text(names[line]);
  });
  return copy.attr('height', height + 30 + Math.ceil(lines.length / columns) * 24).node();
}
