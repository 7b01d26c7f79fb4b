'use strict';

/**
 * Beside the matrix: what its colours mean, what goes directly, and the notes, traps first.
 * @param {MachineData} data @param {MachineMatrix} matrix @param {boolean} byBandwidth @param {Shell} shell
 */
function machineSide(data, matrix, byBandwidth, shell) {
  const {t} = shell;
  const hasLegend = !byBandwidth && matrix.devices.length > 1;
  return [
    ...(hasLegend ? [make('h2', {}, t('machine.legend')), machineLegend(data, matrix, shell)] : []),
    ...(data.rules.length ? [make('h2', {}, t('machine.direct')), machineRules(data, t)] : []),
    ...(data.notes.length ? [make('h2', {}, t('machine.notes')), ...machineNotes(data, t)] : []),
  ];
}

/** @param {MachineData} data @param {MachineMatrix} matrix @param {Shell} shell */
function machineLegend({kinds}, matrix, {t, number}) {
  const {gpus, devices: {length: all}} = matrix;
  const pairs = d3.range(gpus).flatMap((a) => d3.range(a + 1, all).map((b) => matrix.kind(a, b)));
  const counts = d3.rollup(pairs, (same) => same.length, (kind) => kind);
  const rows = kinds.flatMap((kind) => {
    const count = counts.get(kind);
    if (!count) return [];
    const [hue, alpha] = MachineMatrix.HUES[kind];
    const style = `background: color-mix(in srgb, var(--${hue}) ${100 * alpha}%, transparent)`;
    return [make('tr', {data: {kind, pairs: count}},
      make('td', {}, make('i.machine-swatch', {style})), make('th', {}, kind),
      make('td', {}, t(machineWords.PATHS[kind])),
      make('td.number', {}, t('machine.pairs', {count: number(count)})))];
  });
  return make('table.machine-legend', {}, ...rows);
}

/** @param {MachineData} data @param {Translate} t */
function machineRules({rules}, t) {
  const names = {p2p: 'P2P', gdr: 'GPUDirect RDMA'};
  const of = {p2p: 'machine.of_pairs', gdr: 'machine.of_gpus'};
  const rows = rules.map(({what, applies, found, total, why}) => make(
    'tr', {data: {what, applies, found, total}},
    make('th', {}, names[what]),
    make(applies ? 'td.yes' : 'td.no', {}, `${applies ? '✓' : '✕'} ${t(applies ? 'machine.yes' : 'machine.no')}`),
    make('td', {}, t(of[what], {found, total})),
    make('td.why', {}, why),
  ));
  return make('table.machine-rules', {}, ...rows);
}

/**
 * Equal notes of several things once; sources folded away.
 * @param {MachineData} data @param {Translate} t
 */
function machineNotes({notes}, t) {
  const titles = {
    unknown: 'machine.unknown', trap: 'machine.traps', assumed: 'machine.assumptions', source: 'machine.sources',
  };
  return Object.entries(titles).flatMap(/** @returns {HTMLElement[]} */ ([kind, title]) => {
    const alike = d3.groups(notes.filter((n) => n.kind === kind), (n) => n.text);
    const lines = alike.map(([text, same]) => {
      const about = same.map((n) => n.about);
      const few = about.length > 4 ? `${about.slice(0, 3).join(', ')} +${about.length - 3}` : about.join(', ');
      return make(`p.machine-note.${kind}`, {data: {note: kind}}, make('strong', {}, `${few}:`), ` ${text}`);
    });
    if (!lines.length) return [];
    if (kind !== 'source') return [make('h3', {}, t(title)), ...lines];
    return [make('details', {}, make('summary', {}, t(title, {count: lines.length})), ...lines)];
  });
}
