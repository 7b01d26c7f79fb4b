'use strict';

// The rows under the charts: sortable by any column, each tied to its point in the charts.
/** @typedef {'median' | 'min' | 'algbw' | 'busbw' | 'behind'} ReportFigure */
/** @typedef {'name' | 'algorithm' | 'ranks' | 'nbytes' | 'wrong' | ReportFigure} ReportColumn */
class ReportTable {
  static MOST = 1000;
  /**
   * The row's field, its title, the digits after its point (null: words).
   * @type {[key: ReportColumn, text: string, digits: number | null][]}
   */
  static COLUMNS = [
    ['name', 'report.line', null],
    ['algorithm', 'report.algorithm', null],
    ['ranks', 'report.ranks', 0],
    ['nbytes', 'report.bytes', 0],
    ['median', 'report.median_us', 2],
    ['min', 'report.min_us', 2],
    ['algbw', 'report.algbw', 3],
    ['busbw', 'report.busbw', 3],
    ['behind', 'report.behind', 2],
    ['wrong', 'report.wrong', 0],
  ];

  /**
   * Predicted times are one a case.
   * @type {[key: ReportColumn, text: string, digits: number | null][]}
   */
  static PREDICTED = ReportTable.COLUMNS.filter(([key]) => key !== 'min' && key !== 'wrong')
    .map(([key, text, digits]) => [key, key === 'median' ? 'report.predicted_us' : text, digits]);

  table = make('table.report-table');
  note = make('p.report-note');
  /** @type {ReportRow[]} */
  rows = [];
  order = {key: /** @type {ReportColumn | null} */ (null), down: false};

  /**
   * `pointed` is called for the row under the mouse.
   * @param {Shell} shell @param {boolean} predicted @param {(row: ReportRow | null) => void} pointed
   */
  constructor(shell, predicted, pointed) {
    this.columns = predicted ? ReportTable.PREDICTED : ReportTable.COLUMNS;
    this.shell = shell;
    this.pointed = pointed;
  }

  /** @param {ReportRow[]} rows */
  show(rows) {
    this.rows = rows;
    this.#draw();
  }

  #draw() {
    const {MOST} = ReportTable;
    const head = make('tr', {}, ...this.columns.map(([key, text, digits]) => this.#head(key, text, digits)));
    const rows = this.#sorted().slice(0, MOST).map((row) => this.#row(row));
    this.table.replaceChildren(make('thead', {}, head), make('tbody', {}, ...rows));
    const count = this.rows.length;
    this.note.textContent = count > MOST ? this.shell.t('report.more', {most: MOST, count}) : '';
  }

  #sorted() {
    const {key, down} = this.order;
    const compare = down ? d3.descending : d3.ascending;
    return key === null ? this.rows : d3.sort(this.rows, (a, b) => compare(a[key], b[key]));
  }

  /** @param {ReportColumn} key @param {string} text @param {number | null} digits */
  #head(key, text, digits) {
    const {order, shell} = this;
    const isSorted = order.key === key;
    const words = shell.t(text) + (isSorted ? (order.down ? ' ↓' : ' ↑') : '');
    const button = make('button', {type: 'button', data: {column: key}, onclick: () => this.#sort(key)}, words);
    const ariaSort = isSorted ? (order.down ? 'descending' : 'ascending') : null;
    return make(digits === null ? 'th' : 'th.number', {scope: 'col', ariaSort}, button);
  }

  /** @param {ReportColumn} key */
  #sort(key) {
    this.order = {key, down: this.order.key === key && !this.order.down};
    this.#draw();
    elements.find(`[data-column=${key}]`, this.table).focus();
  }

  /** @param {ReportRow} row */
  #row(row) {
    const cells = this.columns.map(([key, , digits]) => {
      const td = make(digits === null ? 'td' : 'td.number', {}, this.#words(row[key], digits));
      if (key === 'name') td.prepend(reportSwatch(row.line, this.shell));
      if (key === 'behind' && row.behind === 1) td.classList.add('best');
      if (key === 'wrong' && row.wrong > 0) td.classList.add('wrong');
      return td;
    });
    const tr = make('tr', {data: {point: row.index}}, ...cells);
    tr.onpointerenter = () => this.pointed(row);
    tr.onpointerleave = () => this.pointed(null);
    return tr;
  }

  /** @param {string | number} value @param {number | null} digits */
  #words(value, digits) {
    if (typeof value === 'string' || digits === null) return `${value}`;
    if (Number.isNaN(value) || value < 0) return '–';
    return this.shell.number(value, {minimumFractionDigits: digits, maximumFractionDigits: digits});
  }
}
