'use strict';

// The mesh of ranks: a table for each place on the outer axes, and the groups of a chosen axis in colours.
class TrainMesh {
  static COLOURS = ['blue', 'orange', 'green', 'purple', 'vermillion', 'sky'];

  constructor(element, data, shell) {
    Object.assign(this, {data, shell, chosen: 0});
    this.buttons = ringtree.make('div.train-axes', {role: 'group'});
    this.tables = ringtree.make('div.train-mesh');
    element.append(this.buttons, this.tables);
  }

  step(by) {
    const count = this.data.groups.length;
    if (count) this.choose((this.chosen + by + count) % count);
  }

  choose(index) {
    this.chosen = index;
    this.redraw();
  }

  redraw() {
    const {data, shell} = this;
    const {make} = ringtree;
    const group = data.groups[this.chosen];
    this.buttons.ariaLabel = shell.t('train.groups');
    this.buttons.replaceChildren(...data.groups.map((one, i) => make('button', {
      type: 'button', ariaPressed: String(i === this.chosen), onclick: () => this.choose(i), data: {group: one.names[0]},
    }, shell.t('train.group', {names: one.names.join(', '), ranks: one.members[0].length}))));
    const of = new Map(group ? group.members.flatMap((ranks, i) => ranks.map((rank) => [rank, i])) : []);
    this.tables.replaceChildren(...this.#tables(of));
  }

  #tables(groupOf) {
    const axes = Object.entries(this.data.axes).filter(([, size]) => size > 1);
    const [down, across] = [['', 1], ['', 1], ...axes].slice(-2);
    const outer = axes.slice(0, -2);
    const each = down[1] * across[1];
    const table = (k) => this.#table(this.#place(k, outer), down, across, k * each, groupOf);
    return d3.range(this.data.ranks / each).map(table);
  }

  // Where the k-th table is on the outer axes: "pp 1, dp 0".
  #place(k, outer) {
    const words = [];
    for (const [name, size] of [...outer].reverse()) {
      words.unshift(`${name} ${k % size}`);
      k = Math.floor(k / size);
    }
    return words.join(', ');
  }

  #table(title, [downName, rows], [acrossName, columns], first, groupOf) {
    const {make} = ringtree;
    const label = (name, k) => (name ? `${name} ${k}` : '');
    const head = make('tr', {}, make('td'), ...d3.range(columns).map((c) => make('th', {scope: 'col'}, label(acrossName, c))));
    const body = d3.range(rows).map((r) => make('tr', {}, make('th', {scope: 'row'}, label(downName, r)),
      ...d3.range(columns).map((c) => this.#cell(first + r * columns + c, groupOf))));
    return make('table', {}, make('caption', {}, title), make('thead', {}, head), make('tbody', {}, ...body));
  }

  #cell(rank, groupOf) {
    const group = groupOf.get(rank);
    const colour = group === undefined ? 'line' : TrainMesh.COLOURS[group % TrainMesh.COLOURS.length];
    const said = group === undefined ? '' : this.data.groups[this.chosen].members[group].join(' ');
    return ringtree.make('td.rank', {
      style: `border-color: var(--${colour})`, title: said, data: {rank, group: group ?? ''},
    }, String(rank));
  }
}
