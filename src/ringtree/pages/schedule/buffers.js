'use strict';

// The buffers as a grid: a row a rank, a column a chunk, each cell filled by the share of the contributions that it
// has. Where there are more than 64 ranks or chunks, a cell stands for several. A hidden table has the same text
// to screen readers (and to tests).
/**
 * A buffer, each cell of which stands for `each` chunks.
 * @typedef {{buffer: number, length: number, each: number, columns: number, x: number}} Section
 */
/** @typedef {[section: Section, line: number, column: number]} GridCell */
/**
 * Of what is behind a cell: how full it is, its state, how many cells, and the last.
 * @typedef {{share: number, state: number, many: number, only: number}} Summary
 */
class Buffers {
  static MOST = 64;
  static TALL = 14;
  static MARGIN = {left: 46, top: 58, right: 18, bottom: 16, section: 22};
  static MIRROR_AT_ONCE = 1024;

  static TITLES = ['schedule.data', 'schedule.input', 'schedule.output', 'schedule.scratch']; // by buffer
  static PLACES = ['schedule.at_data', 'schedule.at_input', 'schedule.at_output', 'schedule.at_scratch'];

  size = [0, 0];
  cellWidth = 1;
  cellHeight = 1;
  /** @type {Section[]} */
  sections = [];
  /** @type {GridCell | null} */
  focusCell = null;
  /** @type {{td: HTMLElement, at: GridCell, text: string}[]} */
  mirror = [];
  mirrorLater = 0;

  /**
   * `colourOf` gives the name of the colour that a transfer has on the stage.
   * @param {Contents} contents @param {Shell} shell @param {(row: number) => string} colourOf
   */
  constructor(contents, shell, colourOf) {
    this.contents = contents;
    this.shell = shell;
    this.colourOf = colourOf;
    this.rowsEach = Math.ceil(contents.participants / Buffers.MOST);
    this.lines = Math.ceil(contents.participants / this.rowsEach);
    for (let buffer = 0; buffer < 4; buffer++) {
      const first = buffer * contents.participants;
      const length = d3.max(contents.length.subarray(first, first + contents.participants)) ?? 0;
      const each = Math.ceil(length / Buffers.MOST);
      if (length) this.sections.push({buffer, length, each, columns: Math.ceil(length / each), x: 0});
    }
    /** @param {Section} section @param {number} line @returns {GridCell[]} */
    const row = (section, line) => d3.range(section.columns).map((column) => [section, line, column]);
    this.grid = this.sections.flatMap((section) => d3.range(this.lines).flatMap((line) => row(section, line)));
  }

  /** @param {number} width @param {number} height */
  arrange(width, height) {
    const {left, top, right, bottom, section} = Buffers.MARGIN;
    const columns = d3.sum(this.sections, (s) => s.columns);
    const room = width - left - right - section * (this.sections.length - 1);
    this.size = [width, height];
    this.cellWidth = Math.max(1, Math.min(120, room / columns));
    this.cellHeight = Math.max(1, Math.min(64, (height - top - bottom) / this.lines));
    let x = left;
    for (const s of this.sections) {
      s.x = x;
      x += s.columns * this.cellWidth + section;
    }
  }

  /**
   * Calls visit(cell) for every cell behind one cell of the grid.
   * @param {GridCell} at @param {(cell: number) => void} visit
   */
  #behind([section, line, column], visit) {
    const {contents} = this;
    const last = Math.min(contents.participants, (line + 1) * this.rowsEach);
    for (let rank = line * this.rowsEach; rank < last; rank++) {
      const at = section.buffer * contents.participants + rank;
      const end = contents.first[at] + Math.min(contents.length[at], (column + 1) * section.each);
      for (let cell = contents.first[at] + column * section.each; cell < end; cell++) visit(cell);
    }
  }

  /** Null where there is nothing behind it. @param {GridCell} at @returns {Summary | null} */
  #summary(at) {
    const {contents} = this;
    let [many, sum, right, wrong, only] = [0, 0, 0, 0, -1];
    this.#behind(at, (cell) => {
      many++;
      sum += contents.share(cell);
      if (contents.state[cell] === Contents.RIGHT) right++;
      if (contents.state[cell] === Contents.WRONG) wrong++;
      only = cell;
    });
    if (!many) return null;
    const state = wrong ? Contents.WRONG : right === many ? Contents.RIGHT : sum ? Contents.SOME : Contents.EMPTY;
    return {share: sum / many, state, many, only};
  }

  /** @param {GridCell} at @returns {Box} */
  #box([section, line, column]) {
    const {cellWidth: w, cellHeight: h} = this;
    const gap = Math.min(w, h) > 9 ? 2 : Math.min(w, h) > 4 ? 1 : 0;
    return {x: section.x + column * w, y: Buffers.MARGIN.top + line * h, width: w - gap, height: h - gap};
  }

  /** @param {Ink} ink @param {number} round @param {Focus} focus */
  paint(ink, round, focus) {
    const {colours} = this.shell;
    this.#paintHeads(ink, focus);
    const whole = this.grid.flatMap((at) => {
      const summary = this.#summary(at);
      return summary ? [{...this.#box(at), ...summary}] : [];
    });
    ink.shape((p) => whole.forEach((b) => p.rect(b.x, b.y, b.width, b.height)), {fill: colours.raised});
    for (const [colour, boxes] of d3.group(whole.filter((b) => b.share), (b) => this.#colour(b))) {
      if (this.cellHeight < Buffers.TALL) this.#paintTints(ink, boxes, colours[colour]);
      else
        ink.shape(
          (p) => boxes.forEach((b) => p.rect(b.x, b.y + b.height * (1 - b.share), b.width, b.height * b.share)),
          {fill: colours[colour]},
        );
      if (this.cellWidth >= 20 && this.cellHeight >= 15) this.#paintMarks(ink, boxes, colour);
    }
    this.#paintRound(ink, round);
    if (focus.row >= 0) this.#outline(ink, [this.#boxOf(focus.row)], colours.ink, 3);
    if (this.focusCell) this.#outline(ink, [this.#box(this.focusCell)], colours.ink, 2.5);
  }

  /**
   * Where a cell is too low to be filled by height, its tint shows the share, in eighths.
   * @param {Ink} ink @param {(Box & Summary)[]} boxes @param {string} colour
   */
  #paintTints(ink, boxes, colour) {
    const tint = d3.interpolateRgb(this.shell.colours.raised, colour);
    for (const [eighths, some] of d3.group(boxes, (b) => Math.ceil(b.share * 8))) {
      ink.shape((p) => some.forEach((b) => p.rect(b.x, b.y, b.width, b.height)), {fill: tint(eighths / 8)});
    }
  }

  /** @param {Summary} summary */
  #colour({state}) {
    if (state === Contents.RIGHT) return 'green';
    if (state === Contents.WRONG) return 'vermillion';
    return this.contents.reduces ? 'fill' : 'sky';
  }

  /**
   * A word for readers who do not see the colour: how many contributions, whole, spoiled.
   * @param {Ink} ink @param {(Box & Summary)[]} boxes @param {string} colour
   */
  #paintMarks(ink, boxes, colour) {
    const {colours} = this.shell;
    const size = Math.min(13, this.cellHeight * 0.6);
    for (const {x, y, width, height, state, share, many, only} of boxes) {
      const count = this.contents.reduces && many === 1 ? `${this.contents.count[only]}` : '';
      const words = state === Contents.RIGHT ? '✓' : state === Contents.WRONG ? '✕' : count;
      const fill = share > 0.6 ? colours[`on-${colour}`] : colours.ink;
      if (words) ink.text(words, x + width / 2, y + height / 2, {fill, size, weight: 600});
    }
  }

  /** @param {Ink} ink @param {Focus} focus */
  #paintHeads(ink, focus) {
    const {colours, t} = this.shell;
    const {contents} = this;
    const {left, top} = Buffers.MARGIN;
    for (const section of this.sections) {
      const style = {fill: colours.muted, size: 12, weight: 600};
      ink.text(t(Buffers.TITLES[section.buffer]), section.x, 22, {...style, anchor: 'start'});
      const every = niceStep((section.each > 1 ? 46 : 26) / this.cellWidth);
      for (let column = 0; column < section.columns; column += every) {
        ink.text(`${column * section.each}`, section.x + (column + 0.5) * this.cellWidth - 1, top - 11, {
          fill: colours.muted,
          size: 11,
        });
      }
    }
    const every = niceStep(13 / this.cellHeight);
    for (let line = 0; line < this.lines; line++) {
      const first = line * this.rowsEach;
      const focused = focus.rank >= first && focus.rank < first + this.rowsEach;
      if (line % every && !focused) continue;
      ink.text(rankName(contents, first), left - 10, top + (line + 0.5) * this.cellHeight - 1, {
        fill: focused ? colours.ink : colours.muted,
        size: focused ? 13 : 11,
        weight: focused ? 700 : 400,
        anchor: 'end',
      });
    }
  }

  /** Which cells the round writes. @param {Ink} ink @param {number} round */
  #paintRound(ink, round) {
    const {roundFirst} = this.contents;
    if (round < 0 || roundFirst[round + 1] - roundFirst[round] > 400) return;
    const written = d3.group(d3.range(roundFirst[round], roundFirst[round + 1]), (row) => this.colourOf(row));
    for (const [colour, rows] of written) {
      this.#outline(ink, rows.map((row) => this.#boxOf(row)), this.shell.colours[colour], 2);
    }
  }

  /** The box around all that a transfer writes to. @param {number} row @returns {Box} */
  #boxOf(row) {
    const {rows} = this.contents;
    const section = this.sections.find((s) => s.buffer === rows.target_buffer[row]) ?? this.sections[0];
    const line = Math.floor(rows.target[row] / this.rowsEach);
    const first = rows.target_chunk[row];
    const box = this.#box([section, line, Math.floor(first / section.each)]);
    const last = this.#box([section, line, Math.floor((first + rows.count[row] - 1) / section.each)]);
    return {...box, width: last.x + last.width - box.x};
  }

  /** @param {Ink} ink @param {Box[]} boxes @param {string} stroke @param {number} width */
  #outline(ink, boxes, stroke, width) {
    if (!boxes.length) return;
    ink.shape((p) => boxes.forEach((b) => p.rect(b.x, b.y, b.width, b.height)), {
      stroke,
      width: Math.min(width, this.cellHeight / 4),
    });
  }

  /** What is at a point. @param {number} x @param {number} y @returns {GridCell | null} */
  hit(x, y) {
    const line = Math.floor((y - Buffers.MARGIN.top) / this.cellHeight);
    const section = this.sections.find((s) => x >= s.x && x < s.x + s.columns * this.cellWidth);
    if (!section || line < 0 || line >= this.lines) return null;
    const column = Math.floor((x - section.x) / this.cellWidth);
    return this.#summary([section, line, column]) ? [section, line, column] : null;
  }

  /**
   * The cell next to the one that is pointed at, for the arrow keys.
   * @param {number} columns @param {number} lines @returns {GridCell}
   */
  beside(columns, lines) {
    const {sections} = this;
    if (!this.focusCell) return [sections[0], 0, 0];
    let [section, line, column] = this.focusCell;
    line = Math.max(0, Math.min(this.lines - 1, line + lines));
    column += columns;
    const next = sections[sections.indexOf(section) + Math.sign(columns)];
    if ((column < 0 || column >= section.columns) && next) {
      column = columns > 0 ? 0 : next.columns - 1;
      section = next;
    }
    column = Math.max(0, Math.min(section.columns - 1, column));
    return this.#summary([section, line, column]) ? [section, line, column] : this.focusCell;
  }

  nameOfFocus() {
    return this.focusCell ? [this.focusCell[0].buffer, ...this.focusCell.slice(1)].join('.') : '';
  }

  rankOfFocus() {
    return this.focusCell && this.rowsEach === 1 ? this.focusCell[1] : -1;
  }

  /** The names of what a cell of the grid stands for. @param {GridCell} at */
  #names([section, line, column]) {
    const {contents} = this;
    const ranks = Math.min(this.rowsEach, contents.participants - line * this.rowsEach);
    const chunks = Math.min(section.each, section.length - column * section.each);
    const first = rankName(contents, line * this.rowsEach);
    const last = rankName(contents, line * this.rowsEach + ranks - 1);
    return {rank: ranks > 1 ? `${first}–${last}` : first, chunk: chunkWords(column * section.each, chunks)};
  }

  /** The summary of a cell, and the box that it is in. @param {GridCell} at */
  tip(at) {
    const {t} = this.shell;
    const {share, many, only} = this.#summary(at) ?? {share: 0, many: 0, only: -1};
    const what =
      many === 1 ? cellWords(this.contents, only, t) : t('schedule.cell_share', {percent: Math.round(100 * share)});
    return {box: this.#box(at), words: t(Buffers.PLACES[at[0].buffer], {...this.#names(at), what})};
  }

  // -- the table that is not seen

  /** @param {HTMLElement} table */
  buildMirror(table) {
    const rows = d3.range(this.lines).map(() => make('tr'));
    for (const at of this.grid) {
      const td = make('td', {data: {...this.#names(at), buffer: Contents.BUFFERS[at[0].buffer]}});
      rows[at[1]].append(td);
      this.mirror.push({td, at, text: ''});
    }
    table.append(make('tbody', {}, ...rows));
  }

  /** At once where it is small; else when nothing has moved for a while. @param {boolean} isPlaying */
  updateMirror(isPlaying) {
    clearTimeout(this.mirrorLater);
    if (this.mirror.length <= Buffers.MIRROR_AT_ONCE) this.#writeMirror();
    else if (!isPlaying) this.mirrorLater = setTimeout(() => this.#writeMirror(), 150);
  }

  #writeMirror() {
    const names = ['empty', 'some', 'right', 'spoiled'];
    for (const entry of this.mirror) {
      const summary = this.#summary(entry.at);
      const only = summary?.many === 1 ? summary.only : -1;
      const origins = only < 0 ? '' : this.contents.origins(only).join();
      const position = origins ? `${this.contents.position(only)}` : '';
      const state = summary ? names[summary.state] : 'none';
      const text = [state, position, origins].join(' ');
      if (text === entry.text) continue;
      entry.text = text;
      Object.assign(entry.td.dataset, {state, position, origins});
      entry.td.textContent = origins;
    }
  }
}

/** 1, 2, 4, 8, …: the least that is not below `least`. @param {number} least */
function niceStep(least) {
  return 2 ** Math.max(0, Math.ceil(Math.log2(Math.max(least, 1))));
}
