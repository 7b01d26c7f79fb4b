'use strict';

// The time of a schedule, counted in rounds: at 2.4 two rounds are done and the third is on its way.
class Player {
  // `show(position, state)` is called whenever something has changed; state is playing, paused or end. How long each
  // frame took is put down in `stats`.
  constructor(rounds, show, stats) {
    Object.assign(this, {rounds, show, stats});
    this.position = 0;
    this.target = null; // where playing ends by itself
    this.state = 'paused';
    this.speed = Player.SPEEDS.find((speed) => speed >= 1 && rounds / speed <= 24) || Player.SPEEDS.at(-1);
    this.isStill = matchMedia('(prefers-reduced-motion: reduce)');
  }

  static SPEEDS = [0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

  seek(position) {
    this.#stop();
    this.position = Math.max(0, Math.min(this.rounds, position));
    this.#tell();
  }

  toggle() {
    if (this.state === 'playing') this.seek(this.position);
    else this.#play(this.position >= this.rounds ? 0 : this.position, null);
  }

  // To the end of a round, which is seen on its way unless motion is unwanted. A step that still runs is ended first.
  forward() {
    const from = this.target ?? this.position;
    const next = Math.min(this.rounds, Math.floor(from) + 1);
    if (this.isStill.matches) this.seek(next);
    else if (from < this.rounds) this.#play(from, next, Math.max(2, this.speed));
  }

  back() {
    this.seek(Math.ceil(this.position) - 1);
  }

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

  // To the round `target`, in a step; to the end where it is null, as fast as `speed` says at the time.
  #play(from, target, stepSpeed) {
    this.#stop();
    this.position = from;
    this.target = target;
    this.state = 'playing';
    const end = target ?? this.rounds;
    let last = 0;
    this.timer = d3.timer((elapsed) => {
      const begun = performance.now();
      this.position = Math.min(end, this.position + ((elapsed - last) / 1000) * (stepSpeed || this.speed));
      last = elapsed;
      if (this.position >= end) this.seek(end);
      else this.show(this.isStill.matches ? Math.floor(this.position) : this.position, 'playing');
      this.#measure(begun);
    });
  }

  #measure(begun) {
    const {frames} = this.stats;
    frames.push({at: begun, work_ms: performance.now() - begun});
    if (frames.length > 4000) frames.splice(0, 2000);
  }

  #tell() {
    this.state = this.position >= this.rounds ? 'end' : 'paused';
    this.show(this.position, this.state);
  }
}
