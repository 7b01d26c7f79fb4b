'use strict';

// The elements of the view, and the words for what is on it.
const traceDom = (() => {
  const KIND_NAMES = [
    'trace.copy', 'trace.reduce', 'trace.send', 'trace.wait', 'trace.stall', 'trace.compute',
  ];
  const PEER_NAMES = ['trace.from', 'trace.from', 'trace.to', 'trace.from', 'trace.for', 'trace.peer']; // by kind
  const STEP_NAMES = [
    'trace.copy', 'trace.reduce', 'trace.message', 'trace.wait', 'trace.stall', 'trace.idle', 'trace.compute',
  ];

  const {make} = ringtree;

  // measured or simulated, with a number where several are the same; else what the trace calls itself.
  function nameOf(traces, trace, t) {
    const {source, name} = trace.facts;
    const words = {measured: t('trace.measured'), simulated: t('trace.simulated')}[source] || name || t('trace.name');
    const alike = traces.filter((other) => other.facts.source === source);
    return alike.length > 1 ? `${words} ${alike.indexOf(trace) + 1}` : words;
  }

  // What is known of an event in words: a title, the trace where there are several, and lines [name, value].
  function describe(traces, {trace, event}, t, number) {
    const lasted_s = trace.end_s[event] - trace.start_s[event];
    const [nbytes, peer, chunk] = [trace.nbytes[event], trace.peer[event], trace.chunk[event]];
    const kind = trace.kind[event];
    const call = trace.calls[trace.call[event]];
    const lines = [
      [t('trace.start'), traceUnits.moment(trace.start_s[event], 0)],
      [t('trace.duration'), traceUnits.time(lasted_s)],
    ];
    const bytes = `${traceUnits.bytes(nbytes)}${nbytes >= 1024 ? ` (${number(nbytes)} B)` : ''}`;
    if (kind !== traceModel.COMPUTE) lines.push([t('trace.bytes'), bytes]);
    const rate_Bps = bandwidth_Bps(trace, event);
    if (rate_Bps) lines.push([t('trace.rate'), traceUnits.rate(rate_Bps)]);
    if (peer >= 0) lines.push([t(PEER_NAMES[kind]), t('trace.rank_label', {rank: peer})]);
    if (chunk >= 0) lines.push([t('trace.chunk'), String(chunk)]);
    const flight_s = flight(trace, event);
    if (flight_s !== null) lines.push([t('trace.flight'), traceUnits.time(flight_s)]);
    if (call) lines.push([t('trace.call'), call]);
    const many = trace.channel[event] ? `, ${t('trace.channel_label', {channel: trace.channel[event]})}` : '';
    const title = `${t(KIND_NAMES[kind])} · ${t('trace.rank_label', {rank: trace.rank[event]})}${many}`;
    return {title, source: traces.length > 1 ? nameOf(traces, trace, t) : '', lines};
  }

  // Bytes over time, where the time is what the bytes took; else 0.
  function bandwidth_Bps(trace, event) {
    const lasted_s = trace.end_s[event] - trace.start_s[event];
    return lasted_s > 0 && trace.kind[event] !== traceModel.WAIT ? trace.nbytes[event] / lasted_s : 0;
  }

  // From handing the event's message over until its receiver had it; null where the other end is not known.
  function flight(trace, event) {
    const other = trace.other[event];
    if (other < 0) return null;
    const [send, wait] = trace.kind[event] === traceModel.SEND ? [event, other] : [other, event];
    return trace.end_s[wait] - trace.start_s[send];
  }

  function tooltip(root) {
    const box = make('div.trace-tooltip', {hidden: true, role: 'tooltip'});
    root.append(box);
    return {
      show({title, source, lines}, x, y) {
        const rows = lines.map(([name, value]) => make('tr', {}, make('th', {}, name), make('td', {}, value)));
        box.replaceChildren(make('strong', {}, title), make('span', {}, source), make('table', {}, ...rows));
        box.hidden = false;
        const left = x + 18 + box.offsetWidth > innerWidth ? x - 14 - box.offsetWidth : x + 18;
        const top = Math.min(y + 14, innerHeight - box.offsetHeight - 8);
        Object.assign(box.style, {left: `${Math.max(4, left)}px`, top: `${Math.max(4, top)}px`});
      },
      hide() { box.hidden = true; },
    };
  }

  return {KIND_NAMES, STEP_NAMES, make, nameOf, bandwidth_Bps, describe, tooltip};
})();
