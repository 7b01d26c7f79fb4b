'use strict';

// Where the rows of the timeline lie: a trace under the other, or rank by rank with the traces side by side.
/** @typedef {{row: Row, isFirst: boolean, y: number, strip: Span, box: Span}} Place Of a row; the first of its rank? */
/**
 * @typedef {{
 *   rows: Place[], titles: {trace: Trace, y: number, height: number}[], at: Map<Row, Place>,
 *   height: number, total: number,
 * }} Layout `height` is a row's, `total` that of all.
 */
const traceLayout = (() => {
  const GUTTER = 118; // left of the rows: their names
  const AXIS = 28; // above them: the time
  const BAND = 24; // a trace's title
  const GAP = 4; // between the ranks where each has several rows
  const [LEAST, MOST] = [8, 52]; // a row's height

  /** @typedef {{trace?: Trace, row?: Row, isFirst?: boolean}} Entry A title, a row, or a gap. */
  /** From top to bottom. @param {Trace[]} traces @returns {Entry[]} */
  function panels(traces) {
    return traces.flatMap((trace) => {
      const rows = trace.rows.map((row, i) => ({row, isFirst: !i || trace.rows[i - 1].rank !== row.rank}));
      return traces.length > 1 ? [{trace}, ...rows] : rows;
    });
  }

  /** @param {Trace[]} traces @returns {Entry[]} */
  function interleaved(traces) {
    const ranks = Math.max(...traces.map((trace) => trace.ranks));
    return d3.range(ranks).flatMap((rank) => {
      const rows = traces.flatMap((trace) => trace.rows.filter((row) => row.rank === rank));
      return [...rows.map((row, i) => ({row, isFirst: !i})), {}];
    });
  }

  /** @param {Entry} entry @param {number} height */
  const sizeOf = (entry, height) => (entry.row ? height : entry.trace ? BAND : GAP);

  /** @param {Trace[]} traces @param {boolean} isInterleaved @param {number} available @returns {Layout} */
  function layout(traces, isInterleaved, available) {
    const entries = isInterleaved ? interleaved(traces) : panels(traces);
    const count = entries.filter((entry) => entry.row).length;
    const rest = d3.sum(entries, (entry) => sizeOf(entry, 0));
    const height = Math.max(LEAST, Math.min(MOST, Math.floor((available - AXIS - rest) / Math.max(1, count))));
    /** @type {Layout} */
    const placed = {rows: [], titles: [], height, total: 0, at: new Map()};
    for (const entry of entries) {
      const {row, trace, isFirst = false} = entry;
      const y = placed.total;
      if (row) placed.rows.push({row, isFirst, y, ...boxes(y, height)});
      if (trace) placed.titles.push({trace, y, height: BAND});
      placed.total += sizeOf(entry, height);
    }
    for (const place of placed.rows) placed.at.set(place.row, place);
    return placed;
  }

  /**
   * A row has a strip for the messages that were sent, and under it the box for what the rank did.
   * @param {number} y @param {number} height
   */
  function boxes(y, height) {
    const [pad, strip, gap] = height >= 16 ? [2, 3, 1] : [1, 1, 0];
    const top = y + pad + strip;
    return {strip: {top: y + pad, bottom: top}, box: {top: top + gap, bottom: y + height - (height >= 16 ? pad : 0)}};
  }

  /** Where an event's row is. @param {Layout} placed @param {Item} item */
  const placeOf = (placed, {trace, event}) => /** @type {Place} */ (placed.at.get(trace.rows[trace.rowOf[event]]));

  /** The row at a height, or none. @param {Layout} placed @param {number} y */
  function rowAt(placed, y) {
    return placed.rows.find((place) => place.y <= y && y < place.y + placed.height);
  }

  /** @param {Layout} placed @param {number} top @param {number} height */
  function visible(placed, top, height) {
    return placed.rows.filter((place) => place.y + placed.height > top && place.y < top + height);
  }

  return {GUTTER, AXIS, layout, placeOf, rowAt, visible};
})();
