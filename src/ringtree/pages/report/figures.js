'use strict';

// The report's data as objects, and the small pieces of the page that show them: swatches, tips, machines.

/** @typedef {ReturnType<typeof reportPoints>[number]} ReportPoint */
/** The measured cases; times in µs, 0 where there is none. @param {ReportData} data @param {Shell} shell */
function reportPoints({points}, {decode, columns}) {
  const {count} = points;
  const own = columns(points, count, ['line', 'what', 'ranks', 'nbytes', 'busFactor']);
  const [wrong, times] = [points.wrong, points.timesUs].map((of) => of.map((encoded) => decode(encoded, count)));
  return d3.range(count).map((index) => ({
    index, line: own.line[index], what: own.what[index], ranks: own.ranks[index], nbytes: own.nbytes[index],
    wrong: wrong.map((column) => column[index]), times: times.map((column) => column[index]),
    algorithm: points.algorithm[index], program: points.program[index],
    /** In GB/s. @param {number} statistic */
    busbw(statistic) { return (this.nbytes * own.busFactor[index]) / this.times[statistic] / 1e3; },
  }));
}

/** @typedef {Record<CrossingColumn, number>} Crossing */
/** @param {ReportData} data @param {Shell} shell @returns {Crossing[]} */
function reportCrossings({crossings}, {columns}) {
  const {statistic, what, axis, at, below, above, x} = columns(
    crossings, crossings.count, ['statistic', 'what', 'axis', 'at', 'below', 'above', 'x']);
  return d3.range(crossings.count).map((i) => ({
    statistic: statistic[i], what: what[i], axis: axis[i], at: at[i], below: below[i], above: above[i], x: x[i],
  }));
}

/** @param {number} line @param {Shell} shell */
const reportSwatch = (line, shell) =>
  draw('svg.report-swatch', {viewBox: '0 0 27 16', 'aria-hidden': true}, ...reportSample(lineStyle(line), shell));

/** A short piece of the line, 27 by 16. @param {LineStyle} look @param {Shell} shell */
function reportSample(look, shell) {
  const colour = shell.colours[look.colour];
  return [
    draw('path', {d: 'M1 8H26', stroke: colour, 'stroke-width': 2, 'stroke-dasharray': look.dash}),
    draw('path', {d: symbolPath(look, 14), fill: colour, transform: 'translate(13.5,8)'}),
  ];
}

/**
 * The tip at a point: its position, and every line's figures there, the best first.
 * @param {ReportPoint} point @param {ReportPoint[]} same @param {string[]} names @param {number} statistic
 * @param {Shell} shell
 */
function reportTip(point, same, names, statistic, shell) {
  const {t, number} = shell;
  const exactly = point.nbytes < 1024 ? '' : ` (${number(point.nbytes)} B)`;
  const where = `${figures.bytes(point.nbytes)}${exactly} · ${t('report.n_ranks', {ranks: point.ranks})}`;
  /** @param {number} value @param {string} unit */
  const exact = (value, unit) => make('td.number', {}, `${number(value, {maximumSignificantDigits: 5})} ${unit}`);
  const rows = same.map((p) => {
    const cells = [make('td', {}, reportSwatch(p.line, shell), names[p.line]),
      exact(p.times[statistic], 'µs'), exact(p.busbw(statistic), 'GB/s')];
    if (p.algorithm && !names[p.line].includes(p.algorithm)) cells.push(make('td', {}, p.algorithm));
    return make('tr', {className: p.index === point.index ? 'near' : ''}, ...cells);
  });
  return [make('p', {}, where), make('table', {}, make('tbody', {}, ...rows))];
}

/** @typedef {ReturnType<typeof reportRows>[number]} ReportRow */
/** The points that are shown, as rows of the table. @param {ReportChoice} choice @param {string[]} names */
function reportRows(choice, names) {
  const {statistic, inPlace} = choice;
  const shown = choice.shown();
  /** @param {ReportPoint} p @param {number} i */
  const figure = (p, i) => (p.times[i] > 0 ? p.times[i] : NaN);
  /** @param {ReportPoint} p */
  const keyOf = (p) => `${p.ranks} ${p.nbytes}`;
  const least = d3.rollup(shown, (own) => d3.min(own, (p) => p.times[statistic]), keyOf);
  return shown.map((p) => ({
    ...p, name: names[p.line], wrong: p.wrong[inPlace],
    median: figure(p, 2 * inPlace), min: figure(p, 2 * inPlace + 1),
    algbw: p.nbytes / p.times[statistic] / 1e3, busbw: p.busbw(statistic),
    behind: p.times[statistic] / (least.get(keyOf(p)) ?? NaN),
  }));
}

/** @type {Record<string, string>} */
const REPORT_MACHINE = {
  cpu: 'report.machine_cpu', cores: 'report.machine_cores', caches: 'report.machine_caches',
  numa_nodes: 'report.machine_numa_nodes', memory_bytes: 'report.machine_memory_bytes', kernel: 'report.machine_kernel',
  python: 'report.machine_python', numpy: 'report.machine_numpy', ringtree: 'report.machine_ringtree',
  topology: 'report.machine_topology', source: 'report.machine_source',
};

/** @param {Record<string, MachineFact>} machine @param {string} key */
function reportValue(machine, key) {
  const value = machine[key];
  if (key === 'memory_bytes' && value) return figures.bytes(Number(value));
  return Array.isArray(value) ? value.join(', ') : String(value || '');
}

/** A case in words; types and operations are of measured ones. @param {ReportData} data @param {number} what */
const reportWhat = ({predicted, whats}, what) => (predicted ? whats[what][0] : whats[what].join(' '));

/** The machine and the versions in one line. @param {Record<string, MachineFact>} machine @param {Shell} shell */
function reportMachine(machine, shell) {
  /** @param {string} key */
  const value = (key) => reportValue(machine, key);
  return [
    machine.cpu && shell.t('report.cores_of', {cores: value('cores'), cpu: value('cpu')}),
    value('caches'), value('memory_bytes'), value('kernel'), value('python'),
    machine.source && shell.t('report.predicted', {topology: value('topology')}),
    machine.numpy && `numpy ${machine.numpy}`, machine.ringtree && `ringtree ${machine.ringtree}`,
  ].filter(Boolean).join(' · ');
}

/**
 * A column a record: its machine, its versions, and how it was measured. What differs stands out.
 * @param {ReportData} data @param {Shell} shell
 */
function reportMachines({records}, shell) {
  const {t} = shell;
  const lines = [
    ...Object.entries(REPORT_MACHINE).map(([key, text]) =>
      [t(text), ...records.map(({machine}) => reportValue(machine, key))]),
    [t('report.effort'), ...records.map(({effort}) => reportEffort(effort, shell).join(' · '))],
  ];
  const rows = lines.filter(([, ...values]) => values.some(Boolean)).map(([title, ...values]) => {
    const what = new Set(values).size > 1 ? 'td.differs' : 'td';
    return make('tr', {}, make('td', {}, title), ...values.map((value) => make(what, {}, value || '–')));
  });
  const heads = ['', ...records.map(({name}) => name)];
  return [make('h2.report-heading', {}, t('report.machines')), table('table.report-table', heads, rows)];
}

/**
 * How it was measured, in words; other programs' descriptions of themselves, verbatim.
 * @param {Record<string, unknown>} effort @param {Shell} shell
 */
function reportEffort(effort, {t}) {
  const whose = ['report.effort_rank_0', 'report.effort_average', 'report.effort_fastest', 'report.effort_slowest'];
  /** @type {Record<string, (value: any) => string>} */
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

/**
 * The charts with a legend under them, as one picture that stands alone.
 * @param {SVGElement} charts @param {number[]} shown the lines of the points that are shown
 * @param {string[]} names @param {Shell} shell
 */
function reportPicture(charts, shown, names, shell) {
  const picture = standalone(charts, shell);
  const [width, height] = ['width', 'height'].map((name) => Number(picture.getAttribute(name)));
  const lines = [...new Set(shown)];
  const columns = Math.max(1, Math.floor(width / 220));
  const legend = lines.map((line, i) => {
    const at = [20 + (i % columns) * 220, height + 18 + Math.floor(i / columns) * 24];
    const name = draw('text', {x: 36, y: 13, 'font-size': 13, fill: shell.colours.ink}, names[line]);
    return draw('g', {transform: `translate(${at})`}, ...reportSample(lineStyle(line), shell), name);
  });
  picture.append(...legend);
  picture.setAttribute('height', `${height + 30 + Math.ceil(lines.length / columns) * 24}`);
  return picture;
}
