'use strict';

// What was traced, how long it took and on what: a card a trace, and a table of its ranks.
const traceFacts = (() => {
  const {make, nameOf, KIND_NAMES, STEP_NAMES} = traceDom;

  const APART = ['source', 'dropped', 'missing']; // facts that are not told in the list

  // The facts that have a name of their own on the page; others keep theirs.
  function factName(key, t) {
    const known = {
      name: t('trace.fact_name'), machine: t('trace.fact_machine'), topology: t('trace.fact_topology'),
      engine: t('trace.fact_engine'),
    };
    return Object.hasOwn(known, key) ? known[key] : key;
  }

  function criticalWords({critical}, t) {
    const total_s = critical.sums_s.reduce((sum, part_s) => sum + part_s, 0);
    const parts = critical.sums_s.map((part_s, what) => [part_s, STEP_NAMES[what]]).filter(([part_s]) => part_s > 0);
    const words = parts.sort(([a], [b]) => b - a).map(([part_s, name]) => (
      `${t(name)} ${traceUnits.time(part_s, 3)} (${traceUnits.percent(part_s / total_s)})`));
    return t('trace.critical_parts', {parts: words.join(' + ')});
  }

  function card(traces, trace, {t, number}) {
    const facts = Object.entries(trace.facts).filter(([key, value]) => !APART.includes(key) && value);
    const shown = facts.flatMap(([key, value]) => [make('dt', {}, factName(key, t)), make('dd', {}, value)]);
    const counts = t('trace.counts', {
      ranks: number(trace.ranks), events: number(trace.count), messages: number(trace.messages),
      calls: number(trace.calls.length),
    });
    const dropped = Number(trace.facts.dropped || 0);
    const title = make('h2', {}, nameOf(traces, trace, t), make('b', {}, traceUnits.time(trace.span_s)));
    const lines = [title, make('p', {}, counts), make('dl', {}, ...shown)];
    if (trace.critical.count) lines.push(make('p.trace-path', {}, criticalWords(trace, t)));
    const warn = (words) => lines.push(make('p.trace-warning', {role: 'alert'}, words));
    if (dropped) warn(t('trace.dropped', {count: number(dropped)}));
    if (trace.facts.missing) warn(t('trace.missing', {who: trace.facts.missing}));
    return make('article.trace-card', {data: {trace: trace.index, makespan: trace.span_s, dropped}}, ...lines);
  }

  // How the second of two traces compares with the first, in words.
  function comparison(traces, {t}) {
    if (traces.length !== 2 || !(traces[0].all_begun_s > 0)) return [];
    const [first, second] = traces;
    const ratio = second.span_s / first.span_s;
    const words = t('trace.comparison', {
      first: nameOf(traces, first, t), second: nameOf(traces, second, t), ratio: Number(ratio.toPrecision(3)),
      begun_ratio: Number((second.all_begun_s / first.all_begun_s).toPrecision(3)),
    });
    return [make('p.trace-comparison', {data: {ratio}}, words)];
  }

  function cards(root, traces, shell) {
    root.replaceChildren(...traces.map((trace) => card(traces, trace, shell)), ...comparison(traces, shell));
  }

  // -- the table of ranks

  const REST = ['idle_s', 'sent_nbytes', 'received_nbytes'];
  const BAR_PX = 96; // the whole time

  // What a rank may spend its time on, in any of the traces.
  const kindsOf = (traces) => traceModel.kindsOf(traces).filter((kind) => kind !== traceModel.SEND);
  const column = (kind) => `${traceModel.KINDS[kind]}_s`;

  function headings(kinds, t) {
    return [t('trace.rank'), t('trace.share'), ...kinds.map((kind) => t(KIND_NAMES[kind])),
      t('trace.idle'), t('trace.sent'), t('trace.received')];
  }

  function rankRow(trace, rank, kinds) {
    const table = trace.ranksTable;
    const share_px = (kind) => (trace.span_s > 0 ? (table[column(kind)][rank] / trace.span_s) * BAR_PX : 0);
    const parts = kinds.map((kind) => [kind, share_px(kind)]);
    const cells = [...kinds.map(column), ...REST].map((name) => {
      const value = table[name][rank];
      const words = name.endsWith('_s') ? traceUnits.time(value, 3) : traceUnits.bytes(value);
      return make('td', {data: {[name.replace('_', '')]: value}}, value ? words : '–');
    });
    const bar = make('td.trace-share', {}, tracePens.swatch(parts, 10));
    return make('tr', {data: {rank}}, make('th', {scope: 'row'}, String(rank)), bar, ...cells);
  }

  function rankTable(traces, trace, {t}) {
    const kinds = kindsOf(traces);
    const head = make('tr', {}, ...headings(kinds, t).map((words) => make('th', {scope: 'col'}, words)));
    const rows = Array.from({length: trace.ranks}, (_, rank) => rankRow(trace, rank, kinds));
    const caption = traces.length > 1 ? nameOf(traces, trace, t) : t('trace.ranks');
    return make('table.trace-ranks', {data: {trace: trace.index}}, make('caption', {}, caption),
      make('thead', {}, head), make('tbody', {}, ...rows));
  }

  function ranks(root, traces, shell) {
    root.replaceChildren(...traces.map((trace) => rankTable(traces, trace, shell)));
  }

  return {cards, ranks};
})();
