'use strict';

// The mesh of ranks: a table for each position on the outer axes, and the groups of a chosen axis in colours.
/** @typedef {[name: string, size: number]} Axis */
class TrainMesh {
  static COLOURS = ['blue', 'orange', 'green', 'purple', 'vermillion', 'sky'];

  chosen = 0;
  buttons = make('div.train-axes', {role: 'group'});
  tables = make('div.train-mesh');

  /** @param {TrainData} data @param {Shell} shell */
  constructor(data, shell) {
    this.data = data;
    this.shell = shell;
  }

  /** @param {number} by */
  step(by) {
    const count = this.data.groups.length;
    if (count) this.choose((this.chosen + by + count) % count);
  }

  /** @param {number} index */
  choose(index) {
    this.chosen = index;
    this.redraw();
  }

  redraw() {
    const {data, shell} = this;
    const group = data.groups[this.chosen];
    this.buttons.ariaLabel = shell.t('train.groups');
    refill(this.buttons, ...data.groups.map((one, i) => make('button', {
      type: 'button', id: `train-group-${i}`, ariaPressed: `${i === this.chosen}`, onclick: () => this.choose(i),
      data: {group: one.names[0]},
    }, shell.t('train.group', {names: one.names.join(', '), ranks: one.members[0].length}))));
    const of = new Map(group ? group.members.flatMap((ranks, i) => ranks.map((rank) => [rank, i])) : []);
    this.tables.replaceChildren(...this.#tables(of));
  }

  /** @param {Map<number, number>} groupOf each rank */
  #tables(groupOf) {
    const axes = Object.entries(this.data.axes).filter(([, size]) => size > 1);
    /** @type {Axis} */
    const none = ['', 1];
    const [across = none, down = none, ...outer] = axes.reverse();
    const each = down[1] * across[1];
    return d3.range(this.data.ranks / each).map((k) =>
      this.#table(this.#position(k, outer), down, across, k * each, groupOf));
  }

  /**
   * Where the k-th table is on the outer axes, the innermost first: "pp 1, dp 0".
   * @param {number} k @param {Axis[]} outer
   */
  #position(k, outer) {
    const words = [];
    for (const [name, size] of outer) {
      words.unshift(`${name} ${k % size}`);
      k = Math.floor(k / size);
    }
    return words.join(', ');
  }

  /**
   * @param {string} title @param {Axis} down @param {Axis} across @param {number} first
   * @param {Map<number, number>} groupOf
   */
  #table(title, [downName, count], [acrossName, columns], first, groupOf) {
    /** @param {string} name @param {number} k */
    const label = (name, k) => (name ? `${name} ${k}` : '');
    const heads = d3.range(columns).map((c) => label(acrossName, c));
    const rows = d3.range(count).map((r) => make('tr', {}, make('th', {scope: 'row'}, label(downName, r)),
      ...d3.range(columns).map((c) => this.#cell(first + r * columns + c, groupOf))));
    return table('table', [make('td'), ...heads], rows, title);
  }

  /** @param {number} rank @param {Map<number, number>} groupOf */
  #cell(rank, groupOf) {
    const group = groupOf.get(rank);
    const colour = group === undefined ? 'line' : TrainMesh.COLOURS[group % TrainMesh.COLOURS.length];
    const members = group === undefined ? '' : this.data.groups[this.chosen].members[group].join(' ');
    return make('td.rank', {
      style: `border-color: var(--${colour})`, title: members, data: {rank, group: group ?? ''},
    }, String(rank));
  }
}
