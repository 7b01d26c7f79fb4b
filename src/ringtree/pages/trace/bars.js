'use strict';

// A row's events as rectangles of whole pixels. An event is a bar, at least a pixel wide, high when the rank was busy,
// lower when it waited. Where several fall on one pixel, the column is their average: each kind as high as its share of
// the time. So the cost of a row goes with its pixels, not with its events, and the heights mean the same at any zoom.
/** @typedef {Interval & {width: number}} Scope A window and its width in pixels. */
/** @typedef {{top: number, bottom: number}} Span */
/** @typedef {(kind: number, left: number, right: number, top: number, bottom: number) => void} Rect */
const traceBars = (() => {
  const {COPY, REDUCE, SEND, WAIT, STALL, COMPUTE, after, soonAfter, shares} = traceModel;
  const WIDE_PX = 1.5; // from here on an event is a bar of its own
  const ROOMY_PX = 8; // from this width on, a gap separates it from one of its kind before it
  const HEIGHT = [1, 1, 0, 0.4, 0.7, 1]; // of the box, by kind
  const STACK = [COMPUTE, COPY, REDUCE, STALL, WAIT]; // upwards
  const BLANK = -1;

  /**
   * @param {Bars} row @param {Scope} scope @param {Span} box @param {Rect} rect
   * @param {(event: number, left: number, right: number) => void} bar for every event that is a bar of its own
   */
  function paint(row, scope, box, rect, bar) {
    const {start_s, end_s, kind, events} = row;
    const scale = scope.width / (scope.end_s - scope.start_s);
    /** @param {number} time_s */
    const at = (time_s) => (time_s - scope.start_s) * scale;
    /** @param {number} i */
    const isWide = (i) => (end_s[i] - start_s[i]) * scale >= WIDE_PX;
    let free = 0; // the first pixel that nothing was painted on
    let i = after(end_s, scope.start_s);
    while (i < events.length && start_s[i] < scope.end_s) {
      if (isWide(i)) {
        const left = Math.max(free, Math.round(at(start_s[i])));
        const right = Math.min(scope.width, Math.round(at(end_s[i])));
        const gap = i && kind[i] === kind[i - 1] && left === free && right - left > ROOMY_PX ? 1 : 0;
        rect(kind[i], left + gap, right, box.bottom - height(kind[i], box), box.bottom);
        bar(events[i], left, right);
        free = Math.max(free, right);
        i += 1;
        continue;
      }
      const column = Math.floor(at(start_s[i]));
      const until_s = scope.start_s + (column + 1) / scale;
      let next = Math.max(i + 1, soonAfter(start_s, until_s, i));
      if (next > i + 1 && isWide(next - 1)) next -= 1;
      if (free > column) rect(BLANK, column, column + 1, box.top, box.bottom);
      if (column >= 0 && next > i + 1) average(row, column, until_s - 1 / scale, until_s, i, box, rect);
      else if (column >= 0) rect(kind[i], column, column + 1, box.bottom - height(kind[i], box), box.bottom);
      free = column + 1;
      i = next;
    }
  }

  /** @param {number} kind @param {Span} box */
  const height = (kind, box) => Math.max(1, Math.round((box.bottom - box.top) * HEIGHT[kind]));

  /**
   * @param {Bars} row @param {number} column @param {number} from_s @param {number} until_s @param {number} i
   * @param {Span} box @param {Rect} rect
   */
  function average(row, column, from_s, until_s, i, box, rect) {
    const low = i && row.end_s[i - 1] > from_s ? i - 1 : i;
    const lasted_s = shares(row, from_s, until_s, low);
    const full = (box.bottom - box.top) / (until_s - from_s);
    let [bottom, sum] = [box.bottom, 0];
    for (let k = 0; k < STACK.length; k++) {
      const kind = STACK[k];
      if (!(lasted_s[kind] > 0)) continue;
      sum += lasted_s[kind] * HEIGHT[kind] * full;
      const top = Math.max(box.top, Math.min(bottom - 1, Math.round(box.bottom - sum)));
      if (top < bottom) rect(kind, column, column + 1, top, bottom);
      bottom = top;
    }
    if (bottom === box.bottom) rect(row.kind[i], column, column + 1, bottom - 1, bottom);
  }

  /**
   * When messages of this row are under way: their union, in the strip.
   * @param {Sends} row @param {Scope} scope @param {Span} box @param {Rect} rect
   */
  function paintSends(row, scope, box, rect) {
    const scale = scope.width / (scope.end_s - scope.start_s);
    let i = after(row.reach_s, scope.start_s);
    while (i < row.events.length && row.start_s[i] < scope.end_s) {
      const left = Math.max(0, Math.floor((row.start_s[i] - scope.start_s) * scale));
      let right = left + 1;
      let next = i + 1;
      for (; ; i = next) {
        next = Math.max(next, soonAfter(row.start_s, scope.start_s + right / scale, i));
        const reach = Math.min(scope.width, Math.round((row.reach_s[next - 1] - scope.start_s) * scale));
        if (reach <= right) break;
        right = reach;
      }
      i = next;
      rect(SEND, left, right, box.top, box.bottom);
    }
  }

  /**
   * The event at a time in a row, or the nearest within `reach_s`; -1 where there is none.
   * @param {Bars} row @param {number} time_s @param {number} reach_s
   */
  function barAt(row, time_s, reach_s) {
    const i = after(row.end_s, time_s);
    let [best, distance] = [-1, reach_s];
    for (const j of [i - 1, i]) {
      if (j < 0 || j >= row.events.length) continue;
      const away = Math.max(row.start_s[j] - time_s, time_s - row.end_s[j], 0);
      if (away <= distance && !(best >= 0 && away === distance)) [best, distance] = [row.events[j], away];
    }
    return best;
  }

  /**
   * The message last handed over among those that are under way at a time, or the nearest within `reach_s`.
   * @param {Sends} row @param {number} time_s @param {number} reach_s
   */
  function sendAt(row, time_s, reach_s) {
    for (let j = after(row.start_s, time_s + reach_s) - 1; j >= 0 && row.reach_s[j] >= time_s - reach_s; j--) {
      if (row.end_s[j] >= time_s - reach_s) return row.events[j];
    }
    return -1;
  }

  return {BLANK, HEIGHT, paint, paintSends, barAt, sendAt};
})();
