'use strict';

// Beside the matrix: what its colours mean, what goes directly, and the notes, traps first.
class MachineSide {
  static NOTES = {trap: 'machine.traps', assumed: 'machine.assumptions', source: 'machine.sources'};

  /** @param {HTMLElement} element @param {MachineData} data @param {MachineMatrix} matrix @param {Shell} shell */
  constructor(element, data, matrix, shell) {
    this.element = element;
    this.data = data;
    this.matrix = matrix;
    this.shell = shell;
  }

  /** @param {boolean} byBandwidth */
  draw(byBandwidth) {
    const {t} = this.shell;
    this.element.replaceChildren(
      ...(byBandwidth || this.matrix.devices.length < 2 ? [] : [make('h2', {}, t('machine.legend')), this.#legend()]),
      ...(this.data.rules.length ? [make('h2', {}, t('machine.direct')), this.#rules()] : []),
      ...(this.data.notes.length ? [make('h2', {}, t('machine.notes')), ...this.#notes()] : []),
    );
  }

  #legend() {
    const {t, number} = this.shell;
    const {gpus, devices} = this.matrix;
    const pairs = d3.range(gpus).flatMap((a) => d3.range(a + 1, devices.length).map((b) => this.matrix.kind(a, b)));
    const counts = d3.rollup(pairs, (same) => same.length, (kind) => kind);
    const rows = this.data.kinds.map((kind) => {
      const [hue, alpha] = MachineMatrix.HUES[kind];
      const swatch = make('i.machine-swatch', {style: `background: color-mix(in srgb, var(--${hue}) ${100 * alpha}%, transparent)`});
      const count = counts.get(kind);
      return count ? [make('tr', {data: {kind, pairs: count}},
        make('td', {}, swatch), make('th', {}, kind), make('td', {}, t(machineWords.PATHS[kind])),
        make('td.number', {}, t('machine.pairs', {count: number(count)})))] : [];
    });
    return make('table.machine-legend', {}, ...rows.flat());
  }

  #rules() {
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
    const {t} = this.shell;
    /** @type {HTMLElement[]} */
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
