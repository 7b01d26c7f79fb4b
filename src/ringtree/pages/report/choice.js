'use strict';

// What of the records is looked at: which collective, side, figure, number of ranks and size, and without which lines.
/** @typedef {Pick<ReportChoice, 'what' | 'inPlace' | 'min' | 'ranks' | 'nbytes'>} Chosen */
class ReportChoice {
  static STATISTICS = ['time_us', 'time_min_us', 'in_place_time_us', 'in_place_time_min_us'];

  what = 0;
  inPlace = 0;
  min = 0;
  ranks = 0;
  nbytes = 0;
  /** The lines that are not shown. @type {Set<number>} */
  hidden = new Set();

  /** @param {ReportPoint[]} points */
  constructor(points) {
    this.points = points;
    this.#settle();
  }

  /** @param {Partial<Chosen>} change */
  set(change) {
    Object.assign(this, change);
    this.#settle();
  }

  /**
   * Shows or hides a line; alone, it hides all others, or shows all again.
   * @param {number} line @param {boolean} alone
   */
  toggle(line, alone) {
    const others = this.lines().filter((other) => other !== line);
    if (alone) this.hidden = new Set(others.every((other) => this.hidden.has(other)) ? [] : others);
    else if (!this.hidden.delete(line)) this.hidden.add(line);
  }

  /** @param {number} by */
  step(by) {
    const ranks = this.distinct('ranks');
    this.set({ranks: ranks[Math.min(Math.max(ranks.indexOf(this.ranks) + by, 0), ranks.length - 1)]});
  }

  // Which of the four times of a point: its position in STATISTICS.
  get statistic() {
    return 2 * this.inPlace + this.min;
  }

  here() {
    return this.points.filter((p) => p.what === this.what);
  }

  /** @param {number} statistic */
  has(statistic) {
    return this.here().some((p) => p.times[statistic] > 0);
  }

  /** Whether it was measured out of place (0), or in place (1). @param {number} inPlace */
  hasSide(inPlace) {
    return this.has(2 * inPlace) || this.has(2 * inPlace + 1);
  }

  shown() {
    return this.here().filter((p) => !this.hidden.has(p.line) && p.times[this.statistic] > 0);
  }

  lines() {
    return this.distinct('line');
  }

  /** @param {'line' | 'ranks' | 'nbytes'} name */
  distinct(name) {
    return d3.sort(new Set(this.here().map((p) => p[name])));
  }

  // 0: over sizes, 1: over ranks; of a barrier on one number of ranks, that one position.
  axes() {
    const overSizes = this.here().some((p) => p.nbytes > 0);
    const overRanks = !overSizes || this.distinct('ranks').length > 1;
    return [...(overSizes ? [0] : []), ...(overRanks ? [1] : [])];
  }

  // Another collective: its own numbers of ranks and sizes, and a figure that it has.
  #settle() {
    const statistic = [this.statistic, 0, 2, 1, 3].find((i) => this.has(i)) ?? 0;
    Object.assign(this, {inPlace: statistic >> 1, min: statistic & 1});
    for (const name of /** @type {const} */ (['ranks', 'nbytes'])) {
      if (!this.distinct(name).includes(this[name])) this[name] = this.#richest(name);
    }
  }

  /**
   * The number of ranks, or the size, that most was measured at; of several the most ranks, or the size in the middle.
   * @param {'ranks' | 'nbytes'} name
   */
  #richest(name) {
    const counts = d3.rollup(this.here(), (own) => own.length, (p) => p[name]);
    const most = this.distinct(name).filter((value) => counts.get(value) === d3.max(counts.values()));
    return most[name === 'ranks' ? most.length - 1 : Math.floor(most.length / 2)];
  }
}
