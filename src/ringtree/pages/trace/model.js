'use strict';

// Traces as the view needs them: columns as typed arrays, and rows of events for binary search. A row holds what one
// thread of a rank did on one channel, an event after the other, and beside it the messages sent there, which overlap.
const {make, draw, table} = elements;

/** @typedef {{events: Int32Array, start_s: Float64Array, end_s: Float64Array}} Events One after the other. */
/** @typedef {Events & {kind: Uint8Array, until_s: Float64Array[]}} Bars until_s[kind][i]: so long before the i-th. */
/** @typedef {Events & {reach_s: Float64Array, taken_s: Float64Array}} Sends When all up to the i-th have arrived. */
/** @typedef {{trace: Trace, rank: number, channel: number, bars: Bars, sends: Sends}} Row */
/** @typedef {{trace: Trace, event: number}} Item An event. */
/** @typedef {{start_s: number, end_s: number}} Interval A part of the time. */
/**
 * `rowOf` each event, `firstRow` of each rank.
 * @typedef {Omit<TraceRecord, 'events' | 'per_rank' | 'critical'> & Record<EventColumn, Numbers> & {
 *   index: number, rows: Row[], rowOf: Int32Array, firstRow: number[], perRank: Record<RankColumn, Numbers>,
 *   critical: {count: number, sums_s: number[]} & Record<CriticalColumn, Numbers>,
 * }} Trace
 */

const traceModel = (() => {
  const KINDS = ['copy', 'reduce', 'send', 'wait', 'stall', 'compute'];
  const [COPY, REDUCE, SEND, WAIT, STALL, COMPUTE] = KINDS.keys();
  const BARS = [COPY, REDUCE, WAIT, STALL, COMPUTE];
  const STEPS = ['copy', 'reduce', 'message', 'wait', 'stall', 'idle', 'compute'];

  /**
   * The first position in a rising array from `low` on whose value is over `limit`.
   * @param {Numbers} values @param {number} limit
   */
  function after(values, limit, low = 0, high = values.length) {
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (values[middle] > limit) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /**
   * The same, where it is likely to be near `low`.
   * @param {Numbers} values @param {number} limit @param {number} low
   */
  function soonAfter(values, limit, low) {
    let from = low;
    let step = 1;
    while (from + step < values.length && values[from + step] <= limit) {
      from += step;
      step *= 2;
    }
    return after(values, limit, from, Math.min(from + step, values.length));
  }

  /**
   * Events that come one after the other in as few lists as a first fit finds: one, unless several calls run at once.
   * @param {Trace} trace @param {number[]} events
   */
  function sequences(trace, events) {
    const slack = trace.span_s * 1e-12;
    /** @type {{call: number, end_s: number, events: number[]}[]} */
    const lists = [];
    for (const event of events) {
      const [call, start_s, end_s] = [trace.call[event], trace.start_s[event], trace.end_s[event]];
      /** @param {{end_s: number}} list */
      const isFree = (list) => start_s >= list.end_s - slack;
      const list = lists.find((one) => one.call === call && isFree(one)) ?? lists.find(isFree);
      if (!list) lists.push({call, end_s, events: [event]});
      else {
        list.events.push(event);
        [list.call, list.end_s] = [call, end_s];
      }
    }
    return lists.map((list) => list.events);
  }

  /** @param {Trace} trace @param {number[]} events @returns {Bars} */
  function bars(trace, events) {
    const row = {
      ...columnsOf(trace, events),
      kind: Uint8Array.from(events, (event) => trace.kind[event]),
      until_s: KINDS.map((_, kind) => new Float64Array(kind === SEND ? 0 : events.length + 1)),
    };
    for (let i = 0; i < events.length; i++) {
      for (const kind of BARS) row.until_s[kind][i + 1] = row.until_s[kind][i];
      row.until_s[row.kind[i]][i + 1] += row.end_s[i] - row.start_s[i];
    }
    return row;
  }

  /** @param {Trace} trace @param {number[]} events @returns {Events} */
  function columnsOf(trace, events) {
    return {
      events: Int32Array.from(events),
      start_s: Float64Array.from(events, (event) => trace.start_s[event]),
      end_s: Float64Array.from(events, (event) => trace.end_s[event]),
    };
  }

  /** Each value made the largest up to there. @param {Float64Array} values */
  function latest(values) {
    for (let i = 1; i < values.length; i++) values[i] = Math.max(values[i], values[i - 1]);
    return values;
  }

  /** @param {Trace} trace @param {number[]} events @returns {Sends} */
  function sends(trace, events) {
    const row = columnsOf(trace, events);
    /** @param {number} event */
    const taken_s = (event) => Math.max(trace.end_s[event], trace.end_s[trace.other[event]] || 0);
    return {...row, reach_s: latest(row.end_s.slice()), taken_s: latest(Float64Array.from(events, taken_s))};
  }

  /** Events by (rank, channel), still in the order of their starts. @param {Trace} trace */
  function lanes(trace) {
    /** @typedef {{rank: number, channel: number, bars: number[], sends: number[]}} Lane */
    /** @type {Map<number, Lane>} */
    const found = new Map();
    /** @param {number} rank @param {number} channel */
    const lane = (rank, channel) => {
      const key = channel * trace.ranks + rank;
      const known = found.get(key) ?? {rank, channel, bars: [], sends: []};
      found.set(key, known);
      return known;
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

  /** Fills in the trace's rows, and which of them each event and each rank has. @param {Trace} trace */
  function addRows(trace) {
    const {rows} = trace;
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
    for (let i = rows.length - 1; i >= 0; i--) trace.firstRow[rows[i].rank] = i;
  }

  /** The kinds that these traces may have: few programs record what they compute. @param {Trace[]} traces */
  function kindsOf(traces) {
    const hasOwnWork = traces.some((trace) => trace.kind.includes(COMPUTE));
    return [...KINDS.keys()].filter((kind) => kind !== COMPUTE || hasOwnWork);
  }

  /** @param {TraceData} data @param {Shell} shell */
  function load(data, {columns}) {
    return data.traces.map((given, index) => {
      const {events, per_rank, critical, ...facts} = given;
      const steps = columns(critical, critical.count, ['event', 'rank', 'what', 'start_s', 'end_s']);
      /** @type {Trace} */
      const trace = {
        ...facts, ...columns(events, given.count), index, perRank: columns(per_rank, given.ranks),
        critical: {...critical, ...steps}, rows: [], rowOf: new Int32Array(given.count), firstRow: [],
      };
      addRows(trace);
      return trace;
    });
  }

  /** Whether an event is of a message between two hosts. @param {Trace} trace @param {number} event */
  const isBetweenHosts = ({hosts, rank, peer, other}, event) => (
    other[event] >= 0 && hosts[rank[event]] !== hosts[peer[event]]);

  /** @param {Trace} trace */
  const hostsOf = ({hosts}) => [...new Set(hosts)];

  const found = new Float64Array(KINDS.length);

  /**
   * How long each kind lasted between two times in a row, where `low` is the first event that ends after start_s. The
   * array is the same at every call: this is the innermost of all that is drawn.
   * @param {Bars} row @param {number} start_s @param {number} end_s @param {number} low
   */
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

  return {
    KINDS, COPY, REDUCE, SEND, WAIT, STALL, COMPUTE, BARS, STEPS,
    after, soonAfter, kindsOf, isBetweenHosts, hostsOf, load, shares,
  };
})();
