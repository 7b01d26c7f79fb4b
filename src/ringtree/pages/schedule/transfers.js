'use strict';

// The table of transfers. Only the rows that are seen are elements; a table too tall for a browser is scrolled in
// proportion.
class TransferTable {
  static TALLEST = 8e6;

  round = -1;
  pointed = -1;
  rowHeight = 0;
  total = 0;

  /**
   * The reader's actions call `handlers`.
   * @param {HTMLElement} element @param {Contents} contents @param {Shell} shell
   * @param {{point(row: number): void, jump(row: number): void}} handlers
   */
  constructor(element, contents, shell, handlers) {
    this.element = element;
    this.contents = contents;
    this.shell = shell;
    this.handlers = handlers;
    this.body = d3.select(element).append('div').attr('class', 'rows');
    this.arrange();
    element.addEventListener('scroll', () => this.draw(), {passive: true});
    element.addEventListener('mousemove', (event) => this.#point(this.#rowOf(event)));
    element.addEventListener('mouseleave', () => this.#point(-1));
    element.addEventListener('click', (event) => {
      if (this.#rowOf(event) >= 0) handlers.jump(this.#rowOf(event));
    });
    element.addEventListener('keydown', (event) => this.#onKey(event));
    element.setAttribute('aria-rowcount', `${contents.transfers}`);
  }

  arrange() {
    this.rowHeight = Math.round(27 * this.shell.zoom);
    this.total = this.contents.transfers * this.rowHeight;
    this.body
      .style('height', `${Math.min(this.total, TransferTable.TALLEST)}px`)
      .style('--row', `${this.rowHeight}px`);
    this.draw();
  }

  /** @param {Event} event */
  #rowOf(event) {
    const row = /** @type {HTMLElement} */ (event.target).closest('[data-row]');
    return row ? Number(row.getAttribute('data-row')) : -1;
  }

  /** @param {number} row */
  #point(row) {
    if (row !== this.pointed) this.handlers.point(row);
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    const by = {ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10}[event.key];
    if (event.key === 'Enter' && this.pointed >= 0) this.handlers.jump(this.pointed);
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    const from =
      this.pointed >= 0 ? this.pointed + by : Math.max(0, this.contents.roundFirst[Math.max(0, this.round)]);
    this.#point(Math.max(0, Math.min(this.contents.transfers - 1, from)));
    this.reveal(this.pointed);
  }

  // One pixel of the scrollbar may stand for many of the table.
  #scale() {
    const view = this.element.clientHeight;
    return this.total > TransferTable.TALLEST ? (this.total - view) / (TransferTable.TALLEST - view) : 1;
  }

  /** @param {number} row */
  reveal(row) {
    const {rowHeight} = this;
    const scale = this.#scale();
    const top = this.element.scrollTop * scale;
    const view = this.element.clientHeight;
    if (row * rowHeight >= top && (row + 1) * rowHeight <= top + view) return;
    this.element.scrollTop = Math.max(0, (row * rowHeight - (row * rowHeight < top ? 0 : view / 3)) / scale);
    this.draw();
  }

  /** Marks the round that is shown, and follows it. @param {number} round */
  setRound(round) {
    if (round === this.round) return;
    this.round = round;
    const first = this.contents.roundFirst[Math.max(0, round)];
    if (first < this.contents.transfers && !this.element.matches(':hover, :focus')) {
      this.element.scrollTop = (first * this.rowHeight) / this.#scale();
    }
    this.draw();
  }

  /** @param {number} row */
  setPointed(row) {
    this.pointed = row;
    if (row >= 0 && !this.element.matches(':hover')) this.reveal(row);
    this.draw();
  }

  draw() {
    const {contents, rowHeight} = this;
    const top = this.element.scrollTop * this.#scale();
    const first = Math.max(0, Math.floor(top / rowHeight) - 2);
    const last = Math.min(contents.transfers, Math.ceil((top + this.element.clientHeight) / rowHeight) + 2);
    const offset = this.element.scrollTop - top;
    const {rows} = contents;
    const kept = /** @type {d3.Selection<HTMLDivElement, number, any, any>} */ (this.body.selectAll('div.row'));
    const shown = kept
      .data(d3.range(first, last), (row) => row)
      .join((enter) =>
        enter
          .append('div')
          .attr('role', 'row')
          .attr('data-row', (row) => row)
          .attr('aria-rowindex', (row) => row + 1),
      );
    shown
      .style('transform', (row) => `translateY(${row * rowHeight + offset}px)`)
      .attr(
        'class',
        (row) => `row${rows.round[row] === this.round ? ' current' : ''}${row === this.pointed ? ' pointed' : ''}`,
      );
    shown
      .selectAll('span')
      .data((row) => this.#words(row))
      .join('span')
      .attr('role', 'cell')
      .text((words) => words);
    shown.select('span:last-child').attr('class', (row) => (rows.reduce[row] ? 'add' : 'store'));
  }

  /** @param {number} row */
  #words(row) {
    const {t, number} = this.shell;
    const {contents} = this;
    const {rows} = contents;
    return [
      number(rows.round[row]),
      rankName(contents, rows.source[row]),
      rankName(contents, rows.target[row]),
      transferChunks(contents, row, t),
      transferKind(contents, row, t),
    ];
  }
}
