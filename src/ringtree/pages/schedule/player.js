'use strict';

// The time of a schedule, counted in rounds: at 2.4 two rounds are done and the third is under way.
/** @typedef {'playing' | 'paused' | 'end'} PlayerState */
class Player {
  static SPEEDS = [0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

  position = 0;
  /** @type {PlayerState} */
  state = 'paused';
  /** Where playing ends by itself. @type {number | null} */
  target = null;
  /** @type {d3.Timer | null} */
  timer = null;
  isStill = matchMedia('(prefers-reduced-motion: reduce)');

  /**
   * `show` is called whenever something has changed.
   * @param {number} rounds @param {(position: number, state: PlayerState) => void} show @param {Shell} shell
   */
  constructor(rounds, show, shell) {
    this.rounds = rounds;
    this.show = show;
    this.shell = shell;
    this.speed = Player.SPEEDS.find((speed) => speed >= 1 && rounds / speed <= 24) ?? 1024;
  }

  /** @param {number} position */
  seek(position) {
    this.#stop();
    this.position = Math.max(0, Math.min(this.rounds, position));
    this.#notify();
  }

  toggle() {
    if (this.state === 'playing') this.seek(this.position);
    else this.#play(this.position >= this.rounds ? 0 : this.position, null);
  }

  // To the end of a round, which is drawn under way unless motion is unwanted. A step that still runs is ended first.
  forward() {
    const from = this.target ?? this.position;
    const next = Math.min(this.rounds, Math.floor(from) + 1);
    if (this.isStill.matches) this.seek(next);
    else if (from < this.rounds) this.#play(from, next, Math.max(2, this.speed));
  }

  back() {
    this.seek(Math.ceil(this.position) - 1);
  }

  /** @param {number} by */
  changeSpeed(by) {
    const at = Player.SPEEDS.indexOf(this.speed) + by;
    this.speed = Player.SPEEDS[Math.max(0, Math.min(Player.SPEEDS.length - 1, at))];
    this.show(this.position, this.state);
  }

  #stop() {
    this.timer?.stop();
    this.timer = null;
    this.target = null;
  }

  /**
   * To the round `target`, in a step; to the end where it is null, at the `speed` of the moment.
   * @param {number} from @param {number | null} target @param {number} [stepSpeed]
   */
  #play(from, target, stepSpeed) {
    this.#stop();
    this.position = from;
    this.target = target;
    this.state = 'playing';
    const end = target ?? this.rounds;
    let last = 0;
    this.timer = d3.timer((elapsed) => {
      const began_ms = performance.now();
      this.position = Math.min(end, this.position + ((elapsed - last) / 1000) * (stepSpeed || this.speed));
      last = elapsed;
      if (this.position >= end) this.seek(end);
      else this.show(this.isStill.matches ? Math.floor(this.position) : this.position, 'playing');
      this.shell.measure(began_ms);
    });
  }

  #notify() {
    this.state = this.position >= this.rounds ? 'end' : 'paused';
    this.show(this.position, this.state);
  }
}
