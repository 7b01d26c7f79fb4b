'use strict';

// Beside the matrix: what its colours mean, what goes directly, and the notes, traps first.
class MachineSide {
  static NOTES = {trap: 'machine.traps', assumed: 'machine.assumptions', source: 'machine.sources'};

  constructor(element, data, matrix, shell) {
    Object.assign(this, {element, data, matrix, shell});
  }

  draw(byBandwidth) {
    const {make} = machineUnits;
    const {t} = this.shell;
    this.element.replaceChildren(
      ...(byBandwidth || this.matrix.devices.length < 2 ? [] : [make('h2', {}, t('machine.legend')), this.#legend()]),
      ...(this.data.rules.length ? [make('h2', {}, t('machine.direct')), this.#rules()] : []),
      ...(this.data.notes.length ? [make('h2', {}, t('machine.notes')), ...this.#notes()] : []),
    );
  }

  #legend() {
    const {make, PATHS} = machineUnits;
    const {t, number} = this.shell;
    const n = this.matrix.devices.length;
    const gpus = this.data.devices.filter(({kind}) => kind === 'gpu').length;
    const counts = new Map();
    for (let a = 0; a < gpus; a++) {
      for (let b = a + 1; b < n; b++) counts.set(this.matrix.kind(a, b), 1 + (counts.get(this.matrix.kind(a, b)) || 0));
    }
    const table = make('table.machine-legend');
    for (const kind of this.data.kinds.filter((name) => counts.has(name))) {
      const swatch = make('i.machine-swatch');
      const [hue, alpha] = PATHS[kind];
      Object.assign(swatch.style, {background: `color-mix(in srgb, var(--${hue}) ${100 * alpha}%, transparent)`});
      const row = make('tr', {data: {kind, pairs: counts.get(kind)}}, make('td', {}, swatch), make('th', {}, kind), make('td', {}, t(machineWords.PATHS[kind])));
      row.append(make('td.number', {}, t('machine.pairs', {count: number(counts.get(kind))})));
      table.append(row);
    }
    return table;
  }

  #rules() {
    const {make} = machineUnits;
    const {t} = this.shell;
    const names = {p2p: 'P2P', gdr: 'GPUDirect RDMA'};
    const of = {p2p: 'machine.of_pairs', gdr: 'machine.of_gpus'};
    const rows = this.data.rules.map(({what, applies, found, total, why}) => make(
      'tr', {data: {what, applies, found, total}},
      make('th', {}, names[what]),
      make(applies ? 'td.yes' : 'td.no', {}, `${applies ? '✓' : '✕'} ${t(applies ? 'machine.yes' : 'machine.no')}`),
      make('td', {}, t(of[what], {found, total})),
      make('td.why', {}, why),
    ));
    return make('table.machine-rules', {}, ...rows);
  }

  // Those that say the same of several things once; sources folded away.
  #notes() {
    const {make} = machineUnits;
    const {t} = this.shell;
    const found = [];
    for (const [kind, title] of Object.entries(MachineSide.NOTES)) {
      const alike = d3.rollup(this.data.notes.filter((n) => n.kind === kind), (same) => same.map((n) => n.about), (n) => n.text);
      if (!alike.size) continue;
      const lines = [...alike].map(([text, about]) => {
        const few = about.length > 4 ? `${about.slice(0, 3).join(', ')} +${about.length - 3}` : about.join(', ');
        return make(`p.machine-note.${kind}`, {data: {note: kind}}, make('strong', {}, `${few}:`), ` ${text}`);
      });
      if (kind === 'source') found.push(make('details', {}, make('summary', {}, t(title, {count: lines.length})), ...lines));
      else found.push(make('h3', {}, t(title)), ...lines);
    }
    return found;
  }
}
