'use strict';

// The links between hosts as a table: a row to a column, the slower the stronger its colour.
class DoctorLinks {
  element = make('div.doctor-links');
  shown = /** @type {'bandwidth' | 'latency'} */ ('bandwidth');

  /** @param {string[]} names @param {DoctorLinkData} links @param {Shell} shell */
  constructor(names, links, shell) {
    this.names = names;
    this.links = links;
    this.shell = shell;
  }

  toggle() {
    this.show(this.shown === 'bandwidth' ? 'latency' : 'bandwidth');
  }

  /** @param {'bandwidth' | 'latency'} figure */
  show(figure) {
    this.shown = figure;
    this.redraw();
  }

  redraw() {
    const {names, links, shown, shell: {t}} = this;
    const values = shown === 'bandwidth' ? links.bandwidth_Bps : links.latency_s;
    const usual = d3.median(values.flat().filter((value) => value !== null)) ?? 1;
    const rows = values.map((row, from) => make('tr', {}, make('th', {scope: 'row'}, names[from]),
      ...row.map((value, to) => this.#cell(value, usual, from, to))));
    /** @param {'bandwidth' | 'latency'} id @param {string} words */
    const button = (id, words) => ({id: `doctor-${id}`, words, isOn: id === shown, choose: () => this.show(id)});
    const buttons = choices(t('doctor.figure'), button('bandwidth', t('doctor.bandwidth')),
      button('latency', t('doctor.latency')));
    const budget = t('doctor.budget', {pair: figures.time(links.pair_budget_s), all: figures.time(links.took_s)});
    elements.refill(this.element, buttons, make('p.doctor-note', {}, budget),
      table('table.doctor-matrix', [t('doctor.from_to'), ...names], rows));
  }

  /** @param {number | null} value @param {number} usual @param {number} from @param {number} to */
  #cell(value, usual, from, to) {
    if (value === null) return make('td', {}, '–');
    const isRate = this.shown === 'bandwidth';
    const slower = isRate ? usual / value : value / usual;
    const share = Math.min(1, Math.max(0, Math.log2(slower) / 3)); // none at the usual, all at an eighth of it
    const colour = `color-mix(in srgb, var(--vermillion) ${Math.round(60 * share)}%, transparent)`;
    const words = isRate ? figures.rate(value) : figures.time(value);
    return make('td.number', {
      style: `background: ${colour}`, title: this.#way(from, to), data: {from, to, slow: slower > 2 ? 'yes' : 'no'},
    }, words);
  }

  /** The interface and addresses of a link. @param {number} from @param {number} to */
  #way(from, to) {
    const {names, links: {ways}} = this;
    const way = ways[from][to];
    const title = `${names[from]} → ${names[to]}`;
    return way ? `${title}\n${way.interface} ${way.address} → ${way.peer_address}` : title;
  }
}
