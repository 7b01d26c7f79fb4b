'use strict';

// The elements of the view, and the words for what is on it.
const traceDom = (() => {
  // By kind.
  const KIND_NAMES = ['trace.copy', 'trace.reduce', 'trace.send', 'trace.wait', 'trace.stall', 'trace.compute'];
  const PEER_NAMES = ['trace.from', 'trace.from', 'trace.to', 'trace.from', 'trace.for', 'trace.peer'];
  // By the number of a step of a critical path.
  const STEP_NAMES = [
    'trace.copy', 'trace.reduce', 'trace.message', 'trace.wait', 'trace.stall', 'trace.idle', 'trace.compute',
  ];

  /**
   * measured or simulated, with a number where several are the same; else what the trace calls itself.
   * @param {Trace[]} traces @param {Trace} trace @param {Translate} t
   */
  function nameOf(traces, trace, t) {
    const {source, name} = trace.facts;
    const words = {measured: t('trace.measured'), simulated: t('trace.simulated')}[source] || name || t('trace.name');
    const alike = traces.filter((other) => other.facts.source === source);
    return alike.length > 1 ? `${words} ${alike.indexOf(trace) + 1}` : words;
  }

  /**
   * A rank's name, with its host where there are several.
   * @param {Trace} trace @param {number} rank @param {Translate} t
   */
  function rankName(trace, rank, t) {
    const several = traceModel.hostsOf(trace).length > 1;
    return several ? t('trace.rank_on_host', {rank, host: trace.hosts[rank]}) : t('trace.rank_label', {rank});
  }

  /**
   * What is known of an event in words: a title, the trace where there are several, and lines [name, value].
   * @param {Trace[]} traces @param {Item} item @param {Shell} shell 
   */
  function describe(traces, {trace, event}, {t, number}) {
    const lasted_s = trace.end_s[event] - trace.start_s[event];
    const [nbytes, peer, chunk] = [trace.nbytes[event], trace.peer[event], trace.chunk[event]];
    const kind = trace.kind[event];
    const call = trace.calls[trace.call[event]];
    const start_s = trace.start_s[event];
    /** @type {TipContent['lines']} */
    const lines = [
      [t('trace.start'), figures.moment(start_s, start_s)],
      [t('trace.duration'), figures.time(lasted_s, 4)],
    ];
    const bytes = `${figures.bytes(nbytes, 4)}${nbytes >= 1024 ? ` (${number(nbytes)} B)` : ''}`;
    if (kind !== traceModel.COMPUTE) lines.push([t('trace.bytes'), bytes]);
    const rate_Bps = bandwidth_Bps(trace, event);
    if (rate_Bps) lines.push([t('trace.rate'), figures.rate(rate_Bps)]);
    if (peer >= 0) lines.push([t(PEER_NAMES[kind]), rankName(trace, peer, t)]);
    if (chunk >= 0) lines.push([t('trace.chunk'), String(chunk)]);
    const flight_s = flight(trace, event);
    if (flight_s !== null) lines.push([t('trace.flight'), figures.time(flight_s, 4)]);
    if (call) lines.push([t('trace.call'), call]);
    const many = trace.channel[event] ? `, ${t('trace.channel_label', {channel: trace.channel[event]})}` : '';
    const title = `${t(KIND_NAMES[kind])} · ${rankName(trace, trace.rank[event], t)}${many}`;
    return {title, source: traces.length > 1 ? nameOf(traces, trace, t) : '', lines};
  }

  /** Bytes over time, for events whose time their bytes took; else 0. @param {Trace} trace @param {number} event */
  function bandwidth_Bps(trace, event) {
    const lasted_s = trace.end_s[event] - trace.start_s[event];
    return lasted_s > 0 && trace.kind[event] !== traceModel.WAIT ? trace.nbytes[event] / lasted_s : 0;
  }

  /**
   * From handing the event's message over until its receiver had it; null where the other end is not known.
   * @param {Trace} trace @param {number} event
   */
  function flight(trace, event) {
    const other = trace.other[event];
    if (other < 0) return null;
    const [send, wait] = trace.kind[event] === traceModel.SEND ? [event, other] : [other, event];
    return trace.end_s[wait] - trace.start_s[send];
  }

  return {KIND_NAMES, STEP_NAMES, nameOf, rankName, bandwidth_Bps, describe};
})();
