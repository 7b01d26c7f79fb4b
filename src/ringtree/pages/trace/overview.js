'use strict';

// The strip over the timeline: how busy all ranks of a trace were, over the whole time, and which window is shown.
const traceOverview = (() => {
  const HEIGHT = 34;
  const {BARS, COMPUTE, COPY, REDUCE, STALL, WAIT} = traceModel;

  /**
   * For every pixel of the whole time, how long all ranks together did each kind of thing: [kind][pixel].
   * @param {Trace} trace @param {number} width @param {number} total_s
   */
  function profile(trace, width, total_s) {
    const sums = traceModel.KINDS.map(() => new Float64Array(width));
    for (const {bars} of trace.rows) {
      let low = 0;
      for (let x = 0; x < width; x++) {
        const [from_s, until_s] = [(x / width) * total_s, ((x + 1) / width) * total_s];
        while (low < bars.events.length && bars.end_s[low] <= from_s) {
          low = traceModel.soonAfter(bars.end_s, from_s, low);
        }
        if (low === bars.events.length) break;
        const lasted_s = traceModel.shares(bars, from_s, until_s, low);
        for (const kind of BARS) sums[kind][x] += lasted_s[kind] / (until_s - from_s);
      }
    }
    return sums;
  }

  /**
   * @param {HTMLElement} root @param {Trace[]} traces @param {number} total_s
   * @param {(start_s: number, end_s: number) => void} move
   */
  function mount(root, traces, total_s, move) {
    const canvas = make('canvas.trace-profile');
    const window_ = make('div.trace-window');
    const strip = make('div.trace-strip', {}, canvas, window_);
    root.append(strip);
    let drawn = '';
    /** @type {ReturnType<typeof profile>[]} */
    let profiles = [];

    /** @param {Shell} shell */
    function paint({colours, theme, zoom}) {
      const ratio = zoom * devicePixelRatio;
      const [width, height] = [Math.round(strip.clientWidth * devicePixelRatio), Math.round(HEIGHT * ratio)];
      const key = `${width} ${height} ${theme}`;
      if (!width || key === drawn) return;
      if (canvas.width !== width) profiles = traces.map((trace) => profile(trace, width, total_s));
      [canvas.width, canvas.height, drawn] = [width, height, key];
      const pen = tracePens.pixelPen(canvas, ratio, colours);
      pen.clear();
      const band = Math.floor(height / traces.length);
      traces.forEach((trace, i) => {
        const bottom = band * (i + 1);
        for (let x = 0; x < width; x++) {
          let sum = 0;
          let from = bottom;
          for (const kind of [COMPUTE, REDUCE, COPY, STALL, WAIT]) {
            sum += (profiles[i][kind][x] / trace.rows.length) * traceBars.HEIGHT[kind] * (band - 2 * ratio);
            const top = Math.round(bottom - sum);
            if (top < from) pen.tile(kind, x, x + 1, top, from, 0);
            from = Math.min(from, top);
          }
        }
      });
      pen.show();
    }

    /** @param {MouseEvent} event */
    const timeAt = (event) => {
      const {left, width} = strip.getBoundingClientRect();
      return Math.max(0, Math.min(1, (event.clientX - left) / width)) * total_s;
    };

    // Dragging the window moves it; dragging elsewhere makes a new one; a click brings it there.
    strip.addEventListener('pointerdown', (event) => {
      strip.setPointerCapture(event.pointerId);
      const from_s = timeAt(event);
      const {start_s, end_s} = scope;
      const isMove = from_s >= start_s && from_s <= end_s && end_s - start_s < total_s * 0.999;
      strip.onpointermove = (next) => {
        const to_s = timeAt(next);
        if (isMove) move(start_s + to_s - from_s, end_s + to_s - from_s);
        else if (Math.abs(to_s - from_s) > total_s * 0.003) move(Math.min(from_s, to_s), Math.max(from_s, to_s));
      };
      strip.onpointerup = (next) => {
        strip.onpointermove = null;
        strip.onpointerup = null;
        const isClick = Math.abs(timeAt(next) - from_s) <= total_s * 0.003;
        if (isClick && !isMove) move(from_s - (end_s - start_s) / 2, from_s + (end_s - start_s) / 2);
      };
    });

    let scope = {start_s: 0, end_s: total_s};
    return {
      /** @param {Interval} next @param {Shell} shell */
      show(next, shell) {
        scope = next;
        paint(shell);
        /** @param {number} time_s */
        const part = (time_s) => `${(time_s / total_s) * 100}%`;
        window_.style.left = part(scope.start_s);
        window_.style.width = part(scope.end_s - scope.start_s);
      },
    };
  }

  return {mount};
})();
