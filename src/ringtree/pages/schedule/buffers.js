'use strict';

// The buffers as a grid: a row a rank, a column a chunk, each cell filled by the share of the contributions that it
// has. Where there are more than 64 ranks or chunks, a cell stands for several. A table that is not seen says the same
// to screen readers (and to tests).
class Buffers {
  static MOST = 64;
  static TALL = 14;
  static MARGIN = {left: 46, top: 58, right: 18, bottom: 16, section: 22};
  static MIRROR_AT_ONCE = 1024;

  // `colourOf` gives the name of the colour that a transfer has on the stage.
  constructor(contents, shell, colourOf) {
    Object.assign(this, {contents, shell, colourOf});
    this.rowsEach = Math.ceil(contents.participants / Buffers.MOST);
    this.lines = Math.ceil(contents.participants / this.rowsEach);
    this.sections = [];
    for (let buffer = 0; buffer < 4; buffer++) {
      const length = d3.max(
        d3.range(contents.participants),
        (rank) => contents.length[buffer * contents.participants + rank],
      );
      const each = Math.ceil(length / Buffers.MOST);
      if (length) this.sections.push({buffer, length, each, columns: Math.ceil(length / each)});
    }
    this.focusCell = null;
  }

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

  // Calls visit(cell) for every cell behind one cell of the grid.
  #behind(section, line, column, visit) {
    const {contents} = this;
    const last = Math.min(contents.participants, (line + 1) * this.rowsEach);
    for (let rank = line * this.rowsEach; rank < last; rank++) {
      const at = section.buffer * contents.participants + rank;
      const end = contents.first[at] + Math.min(contents.length[at], (column + 1) * section.each);
      for (let cell = contents.first[at] + column * section.each; cell < end; cell++) visit(cell);
    }
  }

  // Of one cell of the grid: how full it is and in which state; null where there is nothing behind it.
  #summary(section, line, column) {
    const {contents} = this;
    let [many, sum, right, wrong, only] = [0, 0, 0, 0, -1];
    this.#behind(section, line, column, (cell) => {
      many++;
      sum += contents.share(cell);
      right += contents.state[cell] === Contents.RIGHT;
      wrong += contents.state[cell] === Contents.WRONG;
      only = cell;
    });
    if (!many) return null;
    const state = wrong ? Contents.WRONG : right === many ? Contents.RIGHT : sum ? Contents.SOME : Contents.EMPTY;
    return {share: sum / many, state, many, only};
  }

  #box(section, line, column) {
    const {cellWidth: w, cellHeight: h} = this;
    const gap = Math.min(w, h) > 9 ? 2 : Math.min(w, h) > 4 ? 1 : 0;
    return {x: section.x + column * w, y: Buffers.MARGIN.top + line * h, width: w - gap, height: h - gap};
  }

  paint(ink, round, focus) {
    const {colours} = this.shell;
    this.#paintHeads(ink, focus);
    const whole = [];
    const filled = {};
    for (const section of this.sections) {
      for (let line = 0; line < this.lines; line++) {
        for (let column = 0; column < section.columns; column++) {
          const summary = this.#summary(section, line, column);
          if (!summary) continue;
          const box = this.#box(section, line, column);
          whole.push(box);
          if (summary.share) (filled[this.#colour(summary)] ||= []).push({...box, ...summary});
        }
      }
    }
    ink.shape((p) => whole.forEach((b) => p.rect(b.x, b.y, b.width, b.height)), {fill: colours.raised});
    for (const [colour, boxes] of Object.entries(filled)) {
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
    if (this.focusCell) this.#outline(ink, [this.#box(...this.focusCell)], colours.ink, 2.5);
  }

  // Where a cell is too low to be filled by height, its tint says the share, in eighths.
  #paintTints(ink, boxes, colour) {
    const tint = d3.interpolateRgb(this.shell.colours.raised, colour);
    for (const [eighths, some] of d3.group(boxes, (b) => Math.ceil(b.share * 8))) {
      ink.shape((p) => some.forEach((b) => p.rect(b.x, b.y, b.width, b.height)), {fill: tint(eighths / 8)});
    }
  }

  #colour({state}) {
    if (state === Contents.RIGHT) return 'green';
    if (state === Contents.WRONG) return 'vermillion';
    return this.contents.reduces ? 'fill' : 'sky';
  }

  // A word for those to whom the colour says nothing: how many contributions, whole, spoiled.
  #paintMarks(ink, boxes, colour) {
    const {colours} = this.shell;
    const size = Math.min(13, this.cellHeight * 0.6);
    for (const {x, y, width, height, state, share, many, only} of boxes) {
      const count = this.contents.reduces && many === 1 ? `${this.contents.count[only]}` : '';
      const words = {[Contents.RIGHT]: '✓', [Contents.WRONG]: '✕'}[state] || count;
      const fill = share > 0.6 ? colours[`on-${colour}`] : colours.ink;
      if (words) ink.text(words, x + width / 2, y + height / 2, {fill, size, weight: 600});
    }
  }

  #paintHeads(ink, focus) {
    const {colours, t} = this.shell;
    const {contents} = this;
    const {left, top} = Buffers.MARGIN;
    for (const section of this.sections) {
      const words = t(
        {0: 'schedule.data', 1: 'schedule.input', 2: 'schedule.output', 3: 'schedule.scratch'}[section.buffer],
      );
      ink.text(words, section.x, 22, {fill: colours.muted, size: 12, weight: 600, anchor: 'start'});
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

  // Which cells the round writes.
  #paintRound(ink, round) {
    const {contents} = this;
    if (round < 0 || contents.roundFirst[round + 1] - contents.roundFirst[round] > 400) return;
    const written = {};
    for (let row = contents.roundFirst[round]; row < contents.roundFirst[round + 1]; row++) {
      (written[this.colourOf(row)] ||= []).push(this.#boxOf(row));
    }
    for (const [colour, boxes] of Object.entries(written)) this.#outline(ink, boxes, this.shell.colours[colour], 2);
  }

  // The box around all that a transfer writes to.
  #boxOf(row) {
    const {rows} = this.contents;
    const section = this.sections.find((s) => s.buffer === rows.target_buffer[row]);
    const line = Math.floor(rows.target[row] / this.rowsEach);
    const first = rows.target_chunk[row];
    const box = this.#box(section, line, Math.floor(first / section.each));
    const last = this.#box(section, line, Math.floor((first + rows.count[row] - 1) / section.each));
    return {...box, width: last.x + last.width - box.x};
  }

  #outline(ink, boxes, stroke, width) {
    if (!boxes.length) return;
    ink.shape((p) => boxes.forEach((b) => p.rect(b.x, b.y, b.width, b.height)), {
      stroke,
      width: Math.min(width, this.cellHeight / 4),
    });
  }

  // [section, line, column] at a point, or null.
  hit(x, y) {
    const line = Math.floor((y - Buffers.MARGIN.top) / this.cellHeight);
    const section = this.sections.find((s) => x >= s.x && x < s.x + s.columns * this.cellWidth);
    if (!section || line < 0 || line >= this.lines) return null;
    const column = Math.floor((x - section.x) / this.cellWidth);
    return this.#summary(section, line, column) ? [section, line, column] : null;
  }

  // The cell next to the one that is pointed at, for the arrow keys.
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
    return this.#summary(section, line, column) ? [section, line, column] : this.focusCell;
  }

  boxOfFocus() {
    return this.#box(...this.focusCell);
  }

  nameOfFocus() {
    return this.focusCell ? [this.focusCell[0].buffer, ...this.focusCell.slice(1)].join('.') : '';
  }

  rankOfFocus() {
    return this.focusCell && this.rowsEach === 1 ? this.focusCell[1] : -1;
  }

  // The names of what a cell of the grid stands for.
  #names(section, line, column) {
    const {contents} = this;
    const ranks = Math.min(this.rowsEach, contents.participants - line * this.rowsEach);
    const chunks = Math.min(section.each, section.length - column * section.each);
    const first = rankName(contents, line * this.rowsEach);
    const last = rankName(contents, line * this.rowsEach + ranks - 1);
    return {rank: ranks > 1 ? `${first}–${last}` : first, chunk: chunkWords(column * section.each, chunks, '–')};
  }

  words() {
    const {t} = this.shell;
    const [section, line, column] = this.focusCell;
    const {share, many, only} = this.#summary(section, line, column);
    const names = this.#names(section, line, column);
    const key = {0: 'schedule.at_data', 1: 'schedule.at_input', 2: 'schedule.at_output', 3: 'schedule.at_scratch'}[
      section.buffer
    ];
    const what =
      many === 1 ? cellWords(this.contents, only, t) : t('schedule.cell_share', {percent: Math.round(100 * share)});
    return t(key, {...names, what});
  }

  // -- the table that is not seen

  buildMirror(table) {
    this.mirror = [];
    const body = table.createTBody();
    for (let line = 0; line < this.lines; line++) {
      const tr = body.insertRow();
      for (const section of this.sections) {
        for (let column = 0; column < section.columns; column++) {
          const td = tr.insertCell();
          const {rank, chunk} = this.#names(section, line, column);
          Object.assign(td.dataset, {rank, chunk, buffer: Contents.BUFFERS[section.buffer]});
          this.mirror.push({td, at: [section, line, column], said: null});
        }
      }
    }
  }

  // At once where it is small; else when nothing has moved for a while.
  updateMirror(isPlaying) {
    clearTimeout(this.mirrorLater);
    if (this.mirror.length <= Buffers.MIRROR_AT_ONCE) this.#writeMirror();
    else if (!isPlaying) this.mirrorLater = setTimeout(() => this.#writeMirror(), 150);
  }

  #writeMirror() {
    const names = ['empty', 'some', 'right', 'spoiled'];
    for (const place of this.mirror) {
      const summary = this.#summary(...place.at);
      const only = summary?.many === 1 ? summary.only : -1;
      const origins = only < 0 ? '' : this.contents.origins(only).join();
      const position = origins ? this.contents.position(only) : '';
      const state = summary ? names[summary.state] : 'none';
      const said = [state, position, origins].join(' ');
      if (said === place.said) continue;
      place.said = said;
      Object.assign(place.td.dataset, {state, position, origins});
      place.td.textContent = origins;
    }
  }
}

// 1, 2, 4, 8, …: the least that is not below `least`.
function niceStep(least) {
  return 2 ** Math.max(0, Math.ceil(Math.log2(Math.max(least, 1))));
}
