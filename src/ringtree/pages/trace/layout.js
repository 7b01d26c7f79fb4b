'use strict';

// Where the rows of the timeline lie: a trace under the other, or rank by rank with the traces side by side.
const traceLayout = (() => {
  const GUTTER = 118; // left of the rows: who they are
  const AXIS = 28; // above them: the time
  const BAND = 24; // a trace's title
  const GAP = 4; // between the ranks where each has several rows
  const [LEAST, MOST] = [8, 52]; // a row's height

  // Entries from top to bottom: {trace} for a title, {row, isFirst} for a row, {} for a gap.
  function panels(traces) {
    return traces.flatMap((trace) => {
      const rows = trace.rows.map((row, i) => ({row, isFirst: !i || trace.rows[i - 1].rank !== row.rank}));
      return traces.length > 1 ? [{trace}, ...rows] : rows;
    });
  }

  function interleaved(traces) {
    const ranks = Math.max(...traces.map((trace) => trace.ranks));
    return Array.from({length: ranks}, (_, rank) => {
      const rows = traces.flatMap((trace) => trace.rows.filter((row) => row.rank === rank));
      return [...rows.map((row, i) => ({row, isFirst: !i})), {}];
    }).flat();
  }

  const sizeOf = (entry, height) => (entry.row ? height : entry.trace ? BAND : GAP);

  function layout(traces, isInterleaved, available) {
    const entries = isInterleaved ? interleaved(traces) : panels(traces);
    const count = entries.filter((entry) => entry.row).length;
    const rest = entries.reduce((sum, entry) => sum + sizeOf(entry, 0), 0);
    const height = Math.max(LEAST, Math.min(MOST, Math.floor((available - AXIS - rest) / Math.max(1, count))));
    const placed = {rows: [], titles: [], height, at: new Map(), GUTTER, AXIS};
    let y = 0;
    for (const entry of entries) {
      if (entry.row) placed.rows.push({...entry, y, ...boxes(y, height)});
      if (entry.trace) placed.titles.push({trace: entry.trace, y, height: BAND});
      y += sizeOf(entry, height);
    }
    for (const place of placed.rows) placed.at.set(place.row, place);
    placed.total = y;
    return placed;
  }

  // A row has a strip for the messages that were sent, and under it the box for what the rank did.
  function boxes(y, height) {
    const [pad, strip, gap] = height >= 16 ? [2, 3, 1] : [1, 1, 0];
    const top = y + pad + strip;
    return {strip: {top: y + pad, bottom: top}, box: {top: top + gap, bottom: y + height - (height >= 16 ? pad : 0)}};
  }

  // The row at a height, or none.
  function rowAt(placed, y) {
    return placed.rows.find((place) => place.y <= y && y < place.y + placed.height);
  }

  function visible(placed, top, height) {
    return placed.rows.filter((place) => place.y + placed.height > top && place.y < top + height);
  }

  return {GUTTER, AXIS, layout, rowAt, visible};
})();
