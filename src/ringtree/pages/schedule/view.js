'use strict';

// The view of a schedule: stage and buffers above, the controls below them, then the table of transfers. They
// pass each other the round that is shown and the item under the mouse.
const ICONS = {
  first: '<path d="M6 5v14M19 5l-9 7 9 7z"/>',
  back: '<path d="M16 5l-9 7 9 7z"/>',
  play: '<path class="solid" d="M7 4l13 8-13 8z"/>',
  pause: '<path d="M8 5v14M16 5v14" stroke-width="3.5"/>',
  forward: '<path d="M8 5l9 7-9 7z"/>',
  last: '<path d="M18 5v14M5 5l9 7-9 7z"/>',
};

/** @param {keyof typeof ICONS} name */
const icon = (name) => `<svg viewBox="0 0 24 24" aria-hidden="true">${ICONS[name]}</svg>`;

const MARKUP = `
  <div class="head">
    <p id="facts"></p>
    <p id="verdict" role="status"></p>
    <div id="layouts" role="radiogroup" data-t-label="schedule.layout"></div>
  </div>
  <div class="stage panel">
    <p id="caption" aria-live="polite"></p>
    <canvas id="still" aria-hidden="true"></canvas>
    <canvas id="stage" role="img" data-label="schedule.stage"></canvas>
  </div>
  <div class="buffers panel">
    <canvas id="buffers" tabindex="0" role="img" data-label="schedule.buffers"></canvas>
    <table id="contents" class="unseen"></table>
  </div>
  <div class="controls panel" role="toolbar" data-t-label="schedule.controls">
    <button type="button" class="icon" id="first" data-t-label="schedule.first">${icon('first')}</button>
    <button type="button" class="icon" id="back" data-t-label="schedule.back">${icon('back')}</button>
    <button type="button" class="icon" id="play" data-t-label="schedule.play">${icon('play')}</button>
    <button type="button" class="icon" id="forward" data-t-label="schedule.forward">${icon('forward')}</button>
    <button type="button" class="icon" id="last" data-t-label="schedule.last">${icon('last')}</button>
    <input type="range" id="scrub" min="0" step="any" value="0" data-view-keys data-t-label="schedule.scrub">
    <output id="done" for="scrub"></output>
    <button type="button" class="icon" id="slower" data-t-label="schedule.slower">−</button>
    <output id="speed"></output>
    <button type="button" class="icon" id="faster" data-t-label="schedule.faster">+</button>
  </div>
  <div class="table panel" role="table" data-label="schedule.table">
    <div class="row heads" role="row">
      <span role="columnheader" data-t="schedule.column_round"></span>
      <span role="columnheader" data-t="schedule.column_from"></span>
      <span role="columnheader" data-t="schedule.column_to"></span>
      <span role="columnheader" data-t="schedule.column_chunks"></span>
      <span role="columnheader" data-t="schedule.column_what"></span>
    </div>
    <div id="transfers" tabindex="0" role="rowgroup" data-label="schedule.table"></div>
  </div>
  <div id="tooltip" role="tooltip" hidden></div>`;

class ScheduleView {
  notes = ['schedule.note_rounds', 'schedule.note_colours'];
  help = [
    ['Space', 'schedule.key_play'],
    ['← →', 'schedule.key_step'],
    ['Home End', 'schedule.key_ends'],
    ['+ −', 'schedule.key_speed'],
    ['L', 'schedule.key_layout'],
    ['↑ ↓ Enter', 'schedule.key_table'],
    ['← → ↑ ↓', 'schedule.key_buffers'],
  ];
  /** @type {Focus} */
  focus = {row: -1, rank: -1};
  /** Updates the words and the picture. */
  shown = {done: -1, round: -1, state: '', begun: false};
  painted = '';

  /** @param {HTMLElement} element @param {ScheduleData} data @param {Shell} shell */
  constructor(element, data, shell) {
    this.element = element;
    this.data = data;
    this.shell = shell;
    element.innerHTML = MARKUP;
    this.contents = new Contents(data, shell);
    this.layouts = layoutsOf(this.contents);
    this.layout = this.layouts[0];
    this.stage = new Stage(this.contents, shell);
    this.buffers = new Buffers(this.contents, shell, (row) => this.stage.colour(row));
    if (d3.sum(this.buffers.sections, (s) => s.columns) < 6) element.classList.add('few-chunks');
    this.buffers.buildMirror(this.find('#contents'));
    this.table = new TransferTable(this.find('#transfers'), this.contents, shell, {
      point: (row) => this.point({row, rank: -1}),
      jump: (row) => this.player.seek(this.contents.rows.round[row] + 0.5),
    });
    this.player = new Player(this.contents.rounds, (position, state) => this.show(position, state), shell);
    /** @param {string} id */
    const inkOf = (id) => new CanvasInk(this.find(`canvas#${id}`), shell.zoom);
    this.inks = {still: inkOf('still'), stage: inkOf('stage'), buffers: inkOf('buffers')};
    this.keys = this.listen();
    this.setLayout(this.layout);
    const resized = new ResizeObserver(() => {
      if (!element.hidden) this.redraw();
    });
    for (const name of ['stage', 'buffers', 'transfers']) resized.observe(this.find(`#${name}`));
    shell.onChange(() => this.word());
    this.word();
  }

  /** @template {string} S @param {S} selector */
  find(selector) {
    return find(selector, this.element);
  }

  /** Returns what the keys do. @returns {View['keys']} */
  listen() {
    const {player} = this;
    const clicks = {
      first: () => player.seek(0),
      back: () => player.back(),
      play: () => player.toggle(),
      forward: () => player.forward(),
      last: () => player.seek(player.rounds),
      slower: () => player.changeSpeed(-1),
      faster: () => player.changeSpeed(1),
    };
    for (const [id, act] of Object.entries(clicks)) this.find(`#${id}`).onclick = act;
    const scrub = this.find('input#scrub');
    scrub.max = `${player.rounds}`;
    scrub.oninput = () => player.seek(scrub.valueAsNumber);
    const [stage, buffers] = [this.find('#stage'), this.find('#buffers')];
    /** @param {MouseEvent} event @returns {[x: number, y: number]} */
    const at = (event) => [event.offsetX / this.shell.zoom, event.offsetY / this.shell.zoom];
    stage.onmousemove = (event) => this.point(this.stage.hit(...at(event)), event);
    buffers.onmousemove = (event) => this.pointCell(this.buffers.hit(...at(event)));
    stage.onmouseleave = () => this.point({row: -1, rank: -1});
    buffers.onmouseleave = () => this.pointCell(null);
    buffers.onblur = () => this.pointCell(null);
    buffers.onkeydown = (event) => this.moveCell(event);
    return {
      ' ': clicks.play,
      ArrowRight: clicks.forward,
      ArrowLeft: clicks.back,
      Home: clicks.first,
      End: clicks.last,
      '+': clicks.faster,
      '=': clicks.faster,
      '-': clicks.slower,
      l: () => this.nextLayout(),
    };
  }

  /** @param {KeyboardEvent} event */
  moveCell(event) {
    const by = {ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1]}[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    this.pointCell(this.buffers.beside(by[0], by[1]));
  }

  // -- layouts

  /** @param {LayoutName} name */
  setLayout(name) {
    this.layout = name;
    this.element.dataset.layout = name;
    this.find('#transfers').classList.toggle('by-tree', name === 'trees' && this.contents.trees.length > 1);
    this.wordLayouts();
    this.redraw();
  }

  // The same elements, as long as the page lives: one of them may have the focus.
  wordLayouts() {
    const words = {ring: 'schedule.ring', trees: 'schedule.trees', grid: 'schedule.grid', hosts: 'schedule.hosts'};
    d3.select(this.find('#layouts'))
      .selectAll('button')
      .data(this.layouts)
      .join('button')
      .attr('type', 'button')
      .attr('role', 'radio')
      .attr('data-layout', (name) => name)
      .attr('aria-checked', (name) => name === this.layout)
      .text((name) => this.shell.t(words[name]))
      .on('click', (_, name) => this.setLayout(name));
  }

  nextLayout() {
    this.setLayout(this.layouts[(this.layouts.indexOf(this.layout) + 1) % this.layouts.length]);
  }

  // -- what is shown

  redraw() {
    for (const ink of Object.values(this.inks)) ink.zoom = this.shell.zoom;
    this.stage.arrange(this.layout, ...this.inks.stage.size);
    this.buffers.arrange(...this.inks.buffers.size);
    this.table.arrange();
    this.painted = '';
    this.show(this.player.position, this.player.state);
  }

  /** The round that is under way or has just arrived; before the first, the first. @param {number} position */
  roundAt(position) {
    const {rounds} = this.contents;
    return rounds ? Math.max(0, Math.ceil(position) - 1) : -1;
  }

  /** @param {number} position @param {PlayerState} state */
  show(position, state) {
    if (state === 'playing' && this.element.hidden) {
      this.player.seek(position); // another view is looked at
      return;
    }
    const done = Math.floor(position);
    const round = this.roundAt(position);
    const shown = {done, round, state, begun: position > 0};
    this.contents.at(done);
    this.paint(position);
    this.find('input#scrub').value = `${position}`;
    if (Object.values(shown).join() === Object.values(this.shown).join()) return;
    this.shown = shown;
    this.table.setRound(round);
    this.buffers.updateMirror(state === 'playing');
    this.word();
    Object.assign(this.element.dataset, {round: done, state});
  }

  /** Within a round only the chunks change. @param {number} position */
  paint(position) {
    const round = this.roundAt(position);
    const {still, stage, buffers} = this.inks;
    const {row, rank} = this.focus;
    const picture = [Math.floor(position), round, row, rank, this.buffers.nameOfFocus()].join();
    if (picture !== this.painted) {
      still.clear();
      this.stage.paintStill(still, round, this.focus);
      buffers.clear();
      this.buffers.paint(buffers, round, this.focus);
      this.painted = picture;
    }
    stage.clear();
    this.stage.paintChunks(stage, position - Math.max(round, 0));
  }

  caption() {
    const {t, number} = this.shell;
    const {contents} = this;
    if (!contents.transfers) return t('schedule.nothing');
    if (!this.shown.begun) return t('schedule.before');
    const {round} = this.shown;
    return t('schedule.round', {
      round: number(round),
      transfers: number(contents.roundFirst[round + 1] - contents.roundFirst[round]),
    });
  }

  // All words that depend on the language or on the round.
  word() {
    const {t, number} = this.shell;
    const {contents, data, player} = this;
    const root = data.root === null ? '' : ` · ${t('schedule.root', {root: data.root})}`;
    this.find('#facts').textContent =
      t('schedule.facts', {
        ranks: number(data.ranks),
        chunks: number(data.chunks),
        rounds: number(data.rounds),
        transfers: number(data.transfers),
      }) + root;
    const isPlaying = player.state === 'playing';
    this.find('#caption').ariaLive = isPlaying ? 'off' : 'polite';
    this.find('#caption').textContent = this.caption();
    const done = t('schedule.done', {done: number(this.shown.done), rounds: number(contents.rounds)});
    this.find('#done').textContent = done;
    this.find('#scrub').setAttribute('aria-valuetext', done);
    this.find('#speed').textContent = t('schedule.speed', {speed: player.speed});
    this.find('#play').innerHTML = icon(isPlaying ? 'pause' : 'play');
    this.find('#play').dataset.tLabel = isPlaying ? 'schedule.pause' : 'schedule.play';
    this.shell.translate(this.find('.controls'));
    for (const element of this.element.querySelectorAll('[data-label]')) {
      element.ariaLabel = t(element.getAttribute('data-label') ?? '');
    }
    this.wordLayouts();
    this.wordVerdict();
  }

  wordVerdict() {
    const verdict = this.find('#verdict');
    const isEnd = this.player.state === 'end' || this.contents.rounds === 0;
    verdict.hidden = !isEnd;
    if (!isEnd) return;
    const {count, first} = this.contents.wrong();
    const {t, number} = this.shell;
    const {collective} = this.data;
    verdict.dataset.right = `${count === 0}`;
    verdict.textContent = count
      ? t('schedule.refuted', {count: number(count), collective, first: this.wordCell(first)})
      : t('schedule.proved', {collective});
  }

  /** @param {number} cell */
  wordCell(cell) {
    const {contents} = this;
    const {t} = this.shell;
    const rank = contents.rankOf[cell];
    const buffer = contents.inPlace ? 0 : 2;
    const chunk = cell - contents.cell(rank, buffer, 0);
    return t(Buffers.PLACES[buffer], {rank, chunk, what: cellWords(contents, cell, t)});
  }

  // -- what is pointed at

  /** @param {Focus} focus @param {MouseEvent} [event] */
  point({row, rank}, event) {
    if (this.focus.row === row && this.focus.rank === rank) return;
    this.focus = {row, rank};
    this.table.setPointed(row);
    this.paint(this.player.position);
    this.tip(event ? this.wordPointed() : '', event);
  }

  wordPointed() {
    const {row, rank} = this.focus;
    if (row >= 0) return transferWords(this.contents, row, this.shell.t);
    return rank >= 0 ? rankWords(this.contents, rank, this.shell.t) : '';
  }

  /** @param {GridCell | null} at */
  pointCell(at) {
    const before = this.buffers.nameOfFocus();
    this.buffers.focusCell = at;
    if (this.buffers.nameOfFocus() === before) return;
    this.focus = {row: -1, rank: this.buffers.rankOfFocus()};
    this.paint(this.player.position);
    this.tip('');
    if (!at) return;
    const {left, top} = this.find('#buffers').getBoundingClientRect();
    const {words, box} = this.buffers.tip(at);
    const {zoom} = this.shell;
    this.tip(words, {clientX: left + (box.x + box.width / 2) * zoom, clientY: top + box.y * zoom});
  }

  /**
   * Words beside a point of the window, inside it.
   * @param {string} words @param {{clientX: number, clientY: number}} [at]
   */
  tip(words, {clientX: x, clientY: y} = {clientX: 0, clientY: 0}) {
    const tooltip = this.find('#tooltip');
    tooltip.hidden = !words;
    tooltip.textContent = words;
    if (!words) return;
    const {offsetWidth: width, offsetHeight: height} = tooltip;
    tooltip.style.left = `${Math.max(8, Math.min(innerWidth - width - 8, x - width / 2))}px`;
    tooltip.style.top = `${y - height - 10 > 0 ? y - height - 10 : y + 24}px`;
  }

  // Stage and buffers side by side, as they are now.
  svg() {
    const {colours} = this.shell;
    const [[stageWidth, height], [buffersWidth, buffersHeight]] = [this.stage.size, this.buffers.size];
    const [width, whole] = [stageWidth + buffersWidth + 24, Math.max(height, buffersHeight) + 56];
    const ink = new SvgInk(width, whole, colours.surface, this.shell.font);
    const words = `${this.data.name} ${this.data.collective} · ${this.find('#facts').textContent} · ${this.caption()}`;
    ink.text(words, 20, 24, {fill: colours.ink, size: 15, weight: 600, anchor: 'start'});
    const {position} = this.player;
    const round = this.roundAt(position);
    ink.move(0, 48);
    this.stage.paintStill(ink, round, this.focus);
    this.stage.paintChunks(ink, position - Math.max(round, 0));
    ink.move(stageWidth + 12, 48);
    this.buffers.paint(ink, round, this.focus);
    return ink.svg;
  }
}

ringtree.view('schedule', {mount: (element, data, shell) => new ScheduleView(element, data, shell)});
