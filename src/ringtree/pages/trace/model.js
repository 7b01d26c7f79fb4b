'use strict';

// Traces as the view needs them: columns as typed arrays, and rows of events for binary search. A row holds what one
// thread of a rank did on one channel, an event after the other, and beside it the messages sent there, which overlap.
const traceModel = (() => {
  const KINDS = ['copy', 'reduce', 'send', 'wait', 'stall', 'compute'];
  const [COPY, REDUCE, SEND, WAIT, STALL, COMPUTE] = KINDS.keys();
  const BARS = [COPY, REDUCE, WAIT, STALL, COMPUTE];
  const STEPS = ['copy', 'reduce', 'message', 'wait', 'stall', 'idle', 'compute'];

  // The first place in a rising array from `low` on whose value is over `limit`.
  function after(values, limit, low = 0, high = values.length) {
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (values[middle] > limit) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  // The same, where it is likely to be near `low`.
  function soonAfter(values, limit, low) {
    let from = low;
    let step = 1;
    while (from + step < values.length && values[from + step] <= limit) {
      from += step;
      step *= 2;
    }
    return after(values, limit, from, Math.min(from + step, values.length));
  }

  function decodeColumns(data, decode) {
    const columns = {};
    for (const [name, column] of Object.entries(data.events)) columns[name] = decode(column, data.count);
    return columns;
  }

  // Events that come one after the other in as few lists as a first fit finds: one, unless several calls run at once.
  function sequences(trace, events) {
    const slack = trace.span_s * 1e-12;
    const lists = [];
    for (const event of events) {
      const [call, start_s] = [trace.call[event], trace.start_s[event]];
      const isFree = (list) => start_s >= list.end_s - slack;
      let list = lists.find((one) => one.call === call && isFree(one)) || lists.find(isFree);
      if (!list) lists.push(list = {events: []});
      list.call = call;
      list.events.push(event);
      list.end_s = trace.end_s[event];
    }
    return lists.map((list) => list.events);
  }

  function bars(trace, events) {
    const row = columnsOf(trace, events);
    row.kind = Uint8Array.from(events, (event) => trace.kind[event]);
    // until_s[kind][i]: how long the events before the i-th were of that kind, together
    row.until_s = KINDS.map((_, kind) => (kind === SEND ? null : new Float64Array(events.length + 1)));
    for (let i = 0; i < events.length; i++) {
      for (const kind of BARS) row.until_s[kind][i + 1] = row.until_s[kind][i];
      row.until_s[row.kind[i]][i + 1] += row.end_s[i] - row.start_s[i];
    }
    return row;
  }

  function columnsOf(trace, events) {
    return {
      events: Int32Array.from(events),
      start_s: Float64Array.from(events, (event) => trace.start_s[event]),
      end_s: Float64Array.from(events, (event) => trace.end_s[event]),
    };
  }

  // Each value made the largest up to there.
  function latest(values) {
    for (let i = 1; i < values.length; i++) values[i] = Math.max(values[i], values[i - 1]);
    return values;
  }

  function sends(trace, events) {
    const row = columnsOf(trace, events);
    const taken_s = (event) => Math.max(trace.end_s[event], trace.end_s[trace.other[event]] || 0);
    row.reach_s = latest(row.end_s.slice()); // when all up to here have arrived
    row.taken_s = latest(Float64Array.from(events, taken_s)); // and when their receivers have taken them
    return row;
  }

  // Events by (rank, channel), still in the order of their starts.
  function lanes(trace) {
    const found = new Map();
    const lane = (rank, channel) => {
      const key = channel * trace.ranks + rank;
      if (!found.has(key)) found.set(key, {rank, channel, bars: [], sends: []});
      return found.get(key);
    };
    for (let event = 0; event < trace.count; event++) {
      const {bars: busy, sends: sent} = lane(trace.rank[event], trace.channel[event]);
      (trace.kind[event] === SEND ? sent : busy).push(event);
    }
    const silent = new Set(Array(trace.ranks).keys());
    for (const {rank} of found.values()) silent.delete(rank);
    for (const rank of silent) lane(rank, 0);
    return [...found.values()].sort((a, b) => a.rank - b.rank || a.channel - b.channel);
  }

  function rowsOf(trace) {
    const rows = [];
    trace.rowOf = new Int32Array(trace.count);
    for (const lane of lanes(trace)) {
      const lists = sequences(trace, lane.bars);
      if (!lists.length) lists.push([]);
      for (const event of lane.sends) trace.rowOf[event] = rows.length;
      lists.forEach((events, i) => {
        for (const event of events) trace.rowOf[event] = rows.length;
        const {rank, channel} = lane;
        rows.push({trace, rank, channel, bars: bars(trace, events), sends: sends(trace, i ? [] : lane.sends)});
      });
    }
    return rows;
  }

  function criticalOf(data, decode) {
    const path = {count: data.count, sums_s: data.sums_s};
    for (const name of ['event', 'rank', 'what', 'start_s', 'end_s']) path[name] = decode(data[name], data.count);
    return path;
  }

  // The kinds that these traces may have: programs that say what they compute are few.
  function kindsOf(traces) {
    const hasOwnWork = traces.some((trace) => trace.kind.includes(COMPUTE));
    return [...KINDS.keys()].filter((kind) => kind !== COMPUTE || hasOwnWork);
  }

  function load(data, decode) {
    return data.traces.map((given, index) => {
      const trace = {...given, index, ...decodeColumns(given, decode)};
      trace.rows = rowsOf(trace);
      trace.firstRow = Array(trace.ranks).fill(0);
      for (let i = trace.rows.length - 1; i >= 0; i--) trace.firstRow[trace.rows[i].rank] = i;
      trace.critical = criticalOf(given.critical, decode);
      trace.ranksTable = {};
      for (const [name, column] of Object.entries(given.per_rank)) {
        trace.ranksTable[name] = decode(column, trace.ranks);
      }
      return trace;
    });
  }

  const found = new Float64Array(KINDS.length);

  // How long each kind lasted between two times in a row, where `low` is the first event that ends after start_s. The
  // array is the same at every call: this is the innermost of all that is drawn.
  function shares(row, start_s, end_s, low) {
    const high = soonAfter(row.start_s, end_s, low);
    if (high <= low) return found.fill(0);
    for (let i = 0; i < BARS.length; i++) {
      found[BARS[i]] = row.until_s[BARS[i]][high] - row.until_s[BARS[i]][low];
    }
    found[row.kind[low]] -= Math.max(0, start_s - row.start_s[low]);
    found[row.kind[high - 1]] -= Math.max(0, row.end_s[high - 1] - end_s);
    return found;
  }

  return {KINDS, COPY, REDUCE, SEND, WAIT, STALL, COMPUTE, BARS, STEPS, after, soonAfter, kindsOf, load, shares};
})();
