'use strict';

// The rows under the charts: sortable by any column, each tied to its point in the charts.
class ReportTable {
  static MOST = 1000;
  static COLUMNS = [
    // the row's field, its title, the digits after its point (null: words)
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

  // `pointed(row or null)` is called for the row under the mouse.
  constructor(element, shell, pointed) {
    Object.assign(this, {shell, pointed, rows: [], order: {key: null, down: false}});
    this.table = reportPart(element, 'table', 'report-table');
    this.note = reportPart(element, 'p', 'report-note');
  }

  show(rows) {
    this.rows = rows;
    this.#draw();
  }

  #draw() {
    const {MOST} = ReportTable;
    this.table.replaceChildren();
    this.#drawHead(this.table.createTHead().insertRow());
    const body = this.table.createTBody();
    for (const row of this.#sorted().slice(0, MOST)) this.#drawRow(body.insertRow(), row);
    const count = this.rows.length;
    this.note.textContent = count > MOST ? this.shell.t('report.more', {most: MOST, count}) : '';
  }

  #sorted() {
    const {key, down} = this.order;
    const compare = down ? d3.descending : d3.ascending;
    return key === null ? this.rows : [...this.rows].sort((a, b) => compare(a[key], b[key]));
  }

  #drawHead(tr) {
    for (const [key, text, digits] of ReportTable.COLUMNS) {
      const th = reportPart(tr, 'th', digits === null ? '' : 'number');
      th.scope = 'col';
      const isSorted = this.order.key === key;
      if (isSorted) th.setAttribute('aria-sort', this.order.down ? 'descending' : 'ascending');
      const button = reportPart(th, 'button', '');
      button.type = 'button';
      button.dataset.column = key;
      button.textContent = this.shell.t(text) + (isSorted ? (this.order.down ? ' ↓' : ' ↑') : '');
      button.onclick = () => this.#sort(key);
    }
  }

  #sort(key) {
    this.order = {key, down: this.order.key === key && !this.order.down};
    this.#draw();
    this.table.querySelector(`[data-column=${key}]`).focus();
  }

  #drawRow(tr, row) {
    tr.dataset.point = row.index;
    tr.onpointerenter = () => this.pointed(row);
    tr.onpointerleave = () => this.pointed(null);
    for (const [key, , digits] of ReportTable.COLUMNS) {
      const td = tr.insertCell();
      td.textContent = digits === null ? row[key] : this.#number(row[key], digits);
      td.className = digits === null ? '' : 'number';
      if (key === 'name') td.prepend(reportSwatch(row.line, this.shell));
      if (key === 'behind' && row.behind === 1) td.classList.add('best');
      if (key === 'wrong' && row.wrong > 0) td.classList.add('wrong');
    }
  }

  #number(value, digits) {
    if (Number.isNaN(value) || value < 0) return '–';
    return value.toLocaleString(this.shell.language, {minimumFractionDigits: digits, maximumFractionDigits: digits});
  }
}
