'use strict';

// What every rank holds after each round, played here from the transfers alone. As in the proof, a chunk's contents
// are a label (a position on the whole vector) and the set of ranks whose chunk of that label was added up in it. Where
// the collective adds nothing up, the label is origin * chunks + label, and there are no sets.
//
// All chunks of all participants' buffers are one run of cells: buffer by buffer of rank by rank.
class Contents {
  static NOTHING = -1;
  static SPOILED = -2;
  static EMPTY = 0;
  static SOME = 1;
  static RIGHT = 2;
  static WRONG = 3;
  static BUFFERS = ['data', 'input', 'output', 'scratch'];
  static CHANGING = /** @type {const} */ (['label', 'sets', 'count', 'state', 'has', 'right']);
  static KEYFRAMES_NBYTES = 96 << 20;

  round = 0;
  cells = 0;
  /** @type {({round: number} & Pick<Contents, 'label' | 'sets' | 'count' | 'state' | 'has' | 'right'>)[]} */
  keyframes = [];

  /** @param {ScheduleData} data @param {Shell} shell */
  constructor(data, {columns}) {
    Object.assign(this, data);
    this.participants = data.ranks + data.switches;
    this.rows = columns(data.columns, data.transfers);
    const {promise} = data;
    const ranks = columns(promise, data.ranks, ['heldStart', 'heldCount', 'owedStart', 'owedCount', 'contributors']);
    this.promised = {...ranks, ...columns(promise, d3.sum(ranks.owedCount), ['label', 'origin'])};
    this.words = data.reduces ? Math.ceil(data.ranks / 32) : 0;
    // [buffer * participants + rank]: where its cells begin, and how many there are
    this.first = new Int32Array(4 * this.participants);
    this.length = new Int32Array(4 * this.participants);
    this.#layOut();
    this.roundFirst = new Int32Array(this.rounds + 1).fill(this.transfers);
    this.#countRounds();
    this.wanted = new Int32Array(this.cells).fill(Contents.NOTHING);
    this.rankOf = new Int32Array(this.cells);
    this.everyone = new Uint32Array(this.ranks * this.words); // [rank, word]: the contributors as bits
    this.#setPromise();
    this.label = new Int32Array(this.cells).fill(Contents.NOTHING);
    this.sets = new Uint32Array(this.cells * this.words);
    this.count = new Uint16Array(this.cells); // how many ranks have contributed
    this.state = new Uint8Array(this.cells);
    this.has = new Int32Array(this.participants); // contributions to what each rank is owed
    this.right = new Int32Array(this.participants); // chunks that are as promised
    this.#start();
    const nbytes = this.cells * (4 + 4 * this.words + 3) || 1;
    const many = Math.max(1, Math.floor(Contents.KEYFRAMES_NBYTES / nbytes));
    this.keyframeEvery = Math.max(4096, Math.ceil(this.transfers / many));
    this.#keyframe();
  }

  #layOut() {
    for (let rank = 0; rank < this.participants; rank++) {
      const isRank = rank < this.ranks;
      const lengths = [
        isRank && this.inPlace ? this.chunks : 0,
        isRank && !this.inPlace ? this.promised.heldCount[rank] : 0,
        isRank && !this.inPlace ? this.promised.owedCount[rank] : 0,
        this.scratch,
      ];
      lengths.forEach((length, buffer) => {
        this.first[buffer * this.participants + rank] = this.cells;
        this.length[buffer * this.participants + rank] = length;
        this.cells += length;
      });
    }
  }

  #countRounds() {
    const round = this.rows.round;
    for (let row = this.transfers - 1; row >= 0; row--) this.roundFirst[round[row]] = row;
    for (let r = this.rounds - 1; r >= 0; r--)
      this.roundFirst[r] = Math.min(this.roundFirst[r], this.roundFirst[r + 1]);
  }

  /** @param {number} rank @param {number} buffer @param {number} chunk */
  cell(rank, buffer, chunk) {
    return this.first[buffer * this.participants + rank] + chunk;
  }

  /** Where the rank's input or output begins. @param {number} rank @param {number} buffer @param {number} start */
  #window(rank, buffer, start) {
    return this.inPlace ? this.cell(rank, 0, start) : this.cell(rank, buffer, 0);
  }

  #setPromise() {
    const {owedStart, owedCount, label, origin, contributors} = this.promised;
    for (let i = 0; i < 4 * this.participants; i++) {
      this.rankOf.fill(i % this.participants, this.first[i], this.first[i] + this.length[i]);
    }
    for (let rank = 0, i = 0; rank < this.ranks; rank++) {
      const at = this.#window(rank, 2, owedStart[rank]);
      for (let k = 0; k < owedCount[rank]; k++, i++) {
        this.wanted[at + k] = this.reduces ? label[i] : origin[i] * this.chunks + label[i];
      }
    }
    for (let rank = 0; rank < this.ranks && this.reduces; rank++) {
      for (let r = 0; r < contributors[rank]; r++) this.everyone[rank * this.words + (r >> 5)] |= 1 << (r & 31);
    }
  }

  #start() {
    const {heldStart, heldCount} = this.promised;
    for (let rank = 0; rank < this.ranks; rank++) {
      const at = this.#window(rank, 1, heldStart[rank]);
      for (let k = 0; k < heldCount[rank]; k++) {
        this.label[at + k] = heldStart[rank] + k + (this.reduces ? 0 : rank * this.chunks);
        if (this.reduces) this.sets[(at + k) * this.words + (rank >> 5)] = 1 << (rank & 31);
        this.#judge(at + k);
      }
    }
  }

  /** Brings count and state of a cell up to date with its label and set, and what its rank has. @param {number} cell */
  #judge(cell) {
    const rank = this.rankOf[cell];
    const [before, beforeRight] = [this.#counted(cell, rank), this.#isRight(cell)];
    this.#examine(cell, rank);
    if (this.wanted[cell] === Contents.NOTHING) return;
    this.has[rank] += this.#counted(cell, rank) - before;
    this.right[rank] += this.#isRight(cell) - beforeRight;
  }

  /** @param {number} cell */
  #isRight(cell) {
    return Number(this.state[cell] === Contents.RIGHT);
  }

  /** The contributions to a cell that count towards what is owed. @param {number} cell @param {number} rank */
  #counted(cell, rank) {
    return this.reduces ? Math.min(this.count[cell], this.contributors(rank)) : this.#isRight(cell);
  }

  /** @param {number} cell @param {number} rank */
  #examine(cell, rank) {
    const label = this.label[cell];
    if (label < 0) {
      this.count[cell] = 0;
      this.state[cell] = label === Contents.NOTHING ? Contents.EMPTY : Contents.WRONG;
      return;
    }
    let right = label === this.wanted[cell];
    let count = this.words ? 0 : 1;
    for (let w = 0; w < this.words; w++) {
      const bits = this.sets[cell * this.words + w];
      count += popcount(bits);
      right &&= bits === this.everyone[rank * this.words + w];
    }
    this.count[cell] = count;
    this.state[cell] = right ? Contents.RIGHT : Contents.SOME;
  }

  /** Goes to what there is after `round` rounds, from the nearest keyframe or from here. @param {number} round */
  at(round) {
    const frame = round < this.round && this.keyframes.findLast((f) => f.round <= round);
    if (frame) {
      for (const name of Contents.CHANGING) this[name].set(frame[name]);
      this.round = frame.round;
    }
    while (this.round < round) {
      this.#play(this.roundFirst[this.round], this.roundFirst[this.round + 1]);
      this.round++;
      const last = this.keyframes[this.keyframes.length - 1];
      if (this.roundFirst[this.round] - this.roundFirst[last.round] >= this.keyframeEvery) this.#keyframe();
    }
  }

  #keyframe() {
    const {label, sets, count, state, has, right} = this;
    this.keyframes.push({
      round: this.round, label: label.slice(), sets: sets.slice(), count: count.slice(), state: state.slice(),
      has: has.slice(), right: right.slice(),
    });
  }

  /**
   * One round: everything is read as it was at its start, and written in the listed order.
   * @param {number} low @param {number} high
   */
  #play(low, high) {
    const {rows, words} = this;
    let moves = 0;
    for (let row = low; row < high; row++) moves += rows.count[row];
    const labels = new Int32Array(moves);
    const sets = new Uint32Array(moves * words);
    for (let row = low, m = 0; row < high; row++) {
      const from = this.cell(rows.source[row], rows.source_buffer[row], rows.source_chunk[row]);
      const count = rows.count[row];
      labels.set(this.label.subarray(from, from + count), m);
      sets.set(this.sets.subarray(from * words, (from + count) * words), m * words);
      m += count;
    }
    for (let row = low, m = 0; row < high; row++) {
      const to = this.cell(rows.target[row], rows.target_buffer[row], rows.target_chunk[row]);
      for (let k = 0; k < rows.count[row]; k++, m++) this.#write(to + k, labels[m], sets, m, rows.reduce[row]);
    }
  }

  /** @param {number} cell @param {number} label @param {Uint32Array} sets @param {number} m @param {number} reduce */
  #write(cell, label, sets, m, reduce) {
    const {words} = this;
    let written = label;
    if (reduce) {
      let spoiled = !this.reduces || label < 0 || this.label[cell] !== label;
      for (let w = 0; w < words && !this.repeats; w++)
        spoiled ||= (this.sets[cell * words + w] & sets[m * words + w]) !== 0;
      if (spoiled) written = Contents.SPOILED;
    }
    for (let w = 0; w < words; w++) {
      const added = reduce ? this.sets[cell * words + w] : 0;
      this.sets[cell * words + w] = added | sets[m * words + w];
    }
    this.label[cell] = written;
    this.#judge(cell);
  }

  /** The ranks that have contributed to what is in a cell. @param {number} cell */
  origins(cell) {
    const label = this.label[cell];
    if (label < 0) return [];
    if (!this.reduces) return [Math.floor(label / this.chunks)];
    return d3.range(this.ranks).filter((r) => this.sets[cell * this.words + (r >> 5)] & (1 << (r & 31)));
  }

  /** Which chunk of the whole vector is in a cell. @param {number} cell */
  position(cell) {
    return this.reduces ? this.label[cell] : this.label[cell] % this.chunks;
  }

  /** How many ranks have to contribute to a chunk here before it is whole. @param {number} rank */
  contributors(rank) {
    if (!this.reduces) return 1;
    return (rank < this.ranks ? this.promised.contributors[rank] : this.ranks) || 1;
  }

  /** How full a cell is: the share of the contributions that it is to have. @param {number} cell */
  share(cell) {
    const state = this.state[cell];
    if (state !== Contents.SOME || !this.reduces) return state === Contents.EMPTY ? 0 : 1;
    return Math.min(1, this.count[cell] / this.contributors(this.rankOf[cell]));
  }

  /** How far a rank is with what it is owed: {share of the contributions, complete}. @param {number} rank */
  progress(rank) {
    const owed = rank < this.ranks ? this.promised.owedCount[rank] : 0;
    if (!owed) return {share: 0, complete: false};
    return {share: this.has[rank] / (owed * this.contributors(rank)), complete: this.right[rank] === owed};
  }

  /** The cells that are not as promised: how many, and the first. */
  wrong() {
    const count = d3.sum(this.promised.owedCount) - d3.sum(this.right);
    if (!count) return {count, first: -1};
    return {count, first: this.wanted.findIndex((label, cell) => label >= 0 && this.state[cell] !== Contents.RIGHT)};
  }
}

/** @param {number} bits */
function popcount(bits) {
  bits -= (bits >>> 1) & 0x55555555;
  bits = (bits & 0x33333333) + ((bits >>> 2) & 0x33333333);
  return (((bits + (bits >>> 4)) & 0x0f0f0f0f) * 0x01010101) >>> 24;
}
