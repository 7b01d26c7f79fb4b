'use strict';

// What was traced, how long it took and on what: a card a trace, and a table of its ranks.
const traceFacts = (() => {
  const {nameOf, KIND_NAMES, STEP_NAMES} = traceDom;

  // Facts that are not in the list.
  const APART = ['source', 'dropped', 'missing', 'hosts', 'early arrivals'];
  const CLOCK = 'clock of host ';

  // The facts that have a name of their own on the page; others keep theirs.
  const NAMES = new Map([
    ['name', 'trace.fact_name'], ['machine', 'trace.fact_machine'], ['topology', 'trace.fact_topology'],
    ['engine', 'trace.fact_engine'],
  ]);

  /** @param {Trace} trace @param {Translate} t */
  function criticalWords({critical: {sums_s}}, t) {
    const words = d3.sort(sums_s.keys(), (what) => -sums_s[what]).filter((what) => sums_s[what] > 0).map((what) => (
      `${t(STEP_NAMES[what])} ${figures.time(sums_s[what])} (${figures.percent(sums_s[what] / d3.sum(sums_s))})`));
    return t('trace.critical_parts', {parts: words.join(' + ')});
  }

  /**
   * The hosts, and how well their clocks are known.
   * @param {Trace} trace @param {Translate} t @param {Shell['number']} number
   */
  function hostWords(trace, t, number) {
    const count = number(traceModel.hostsOf(trace).length);
    if (traceModel.hostsOf(trace).length < 2) return '';
    if (trace.facts.source === 'simulated') return t('trace.hosts', {count});
    if (trace.clock_error_s === null) return t('trace.hosts_apart', {count});
    return t('trace.hosts_aligned', {count, error: figures.time(trace.clock_error_s)});
  }

  /** @param {Trace[]} traces @param {Trace} trace @param {Shell} shell */
  function card(traces, trace, {t, number}) {
    const facts = Object.entries(trace.facts).filter(([key, value]) => (
      !APART.includes(key) && !key.startsWith(CLOCK) && value));
    /** @param {string} key */
    const named = (key) => (NAMES.has(key) ? t(NAMES.get(key) ?? '') : key);
    const shown = facts.flatMap(([key, value]) => [make('dt', {}, named(key)), make('dd', {}, value)]);
    const counts = t('trace.counts', {
      ranks: number(trace.ranks), events: number(trace.count), messages: number(trace.messages),
      calls: number(trace.calls.length),
    });
    const dropped = Number(trace.facts.dropped || 0);
    const title = make('h2', {}, nameOf(traces, trace, t), make('b', {}, figures.time(trace.span_s, 4)));
    /** @type {HTMLElement[]} */
    const lines = [title, make('p', {}, counts), make('dl', {}, ...shown)];
    const hosts = hostWords(trace, t, number);
    if (hosts) lines.push(make('p.trace-hosts', {}, hosts));
    if (trace.critical.count) lines.push(make('p.trace-path', {}, criticalWords(trace, t)));
    /** @param {string} words */
    const warn = (words) => lines.push(make('p.trace-warning', {role: 'alert'}, words));
    if (dropped) warn(t('trace.dropped', {count: number(dropped)}));
    if (trace.facts['early arrivals']) warn(t('trace.early', {which: trace.facts['early arrivals']}));
    if (trace.facts.missing) warn(t('trace.missing', {who: trace.facts.missing}));
    return make('article.trace-card', {data: {trace: trace.index, makespan: trace.span_s, dropped}}, ...lines);
  }

  /** How the second of two traces compares with the first, in words. @param {Trace[]} traces @param {Shell} shell */
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

  /** @param {HTMLElement} root @param {Trace[]} traces @param {Shell} shell */
  function cards(root, traces, shell) {
    root.replaceChildren(...traces.map((trace) => card(traces, trace, shell)), ...comparison(traces, shell));
  }

  // -- the table of ranks

  const BAR_PX = 96; // the whole time
  /** By kind. @type {RankColumn[]} */
  const COLUMNS = ['copy_s', 'reduce_s', 'sent_nbytes', 'wait_s', 'stall_s', 'compute_s'];

  /** What a rank may spend its time on, in any of the traces. @param {Trace[]} traces */
  const kindsOf = (traces) => traceModel.kindsOf(traces).filter((kind) => kind !== traceModel.SEND);

  /** @param {Trace} trace @param {number} rank @param {number[]} kinds @param {string} who */
  function rankRow({perRank, span_s}, rank, kinds, who) {
    const parts = kinds.map((kind) => /** @type {[number, number]} */ (
      [kind, span_s > 0 ? (perRank[COLUMNS[kind]][rank] / span_s) * BAR_PX : 0]));
    /** @type {RankColumn[]} */
    const columns = [...kinds.map((kind) => COLUMNS[kind]), 'idle_s', 'sent_nbytes', 'received_nbytes'];
    const cells = columns.map((name) => {
      const value = perRank[name][rank];
      const words = name.endsWith('_s') ? figures.time(value) : figures.bytes(value, 4);
      return make('td', {data: {[name.replace('_', '')]: value}}, value ? words : '–');
    });
    const bar = make('td.trace-share', {}, tracePens.swatch(parts, 10));
    return make('tr', {data: {rank}}, make('th', {scope: 'row'}, who), bar, ...cells);
  }

  /** @param {Trace[]} traces @param {Trace} trace @param {Shell} shell */
  function rankTable(traces, trace, {t}) {
    const kinds = kindsOf(traces);
    const named = kinds.map((kind) => KIND_NAMES[kind]);
    const heads = ['trace.rank', 'trace.share', ...named, 'trace.idle', 'trace.sent', 'trace.received'];
    const several = traceModel.hostsOf(trace).length > 1;
    /** @param {number} rank */
    const name = (rank) => (several ? traceDom.rankName(trace, rank, t) : String(rank));
    const rows = d3.range(trace.ranks).map((rank) => rankRow(trace, rank, kinds, name(rank)));
    const caption = traces.length > 1 ? nameOf(traces, trace, t) : t('trace.ranks');
    const made = table('table.trace-ranks', heads.map((key) => t(key)), rows, caption);
    made.dataset.trace = `${trace.index}`;
    return made;
  }

  /** The messages from host to host. @param {Trace[]} traces @param {Trace} trace @param {Shell} shell */
  function linkTable(traces, trace, {t, number}) {
    const heads = ['trace.link', 'trace.messages', 'trace.bytes', 'trace.under_way', 'trace.median', 'trace.rate'];
    const rows = trace.links.map(({source, target, messages, nbytes, busy_s, median_s, rate_Bps}) => {
      const words = [number(messages), figures.bytes(nbytes, 4), figures.time(busy_s), figures.time(median_s),
        rate_Bps ? figures.rate(rate_Bps) : '–'];
      const head = make('th', {scope: 'row'}, `${source} → ${target}`);
      return make('tr', {data: {link: `${source}-${target}`}}, head, ...words.map((word) => make('td', {}, word)));
    });
    const whose = traces.length > 1 ? `: ${nameOf(traces, trace, t)}` : '';
    return table('table.trace-ranks.trace-links', heads.map((key) => t(key)), rows, `${t('trace.links')}${whose}`);
  }

  /** @param {HTMLElement} root @param {Trace[]} traces @param {Shell} shell */
  function ranks(root, traces, shell) {
    const linked = traces.filter((trace) => trace.links.length);
    root.replaceChildren(
      ...traces.map((trace) => rankTable(traces, trace, shell)),
      ...linked.map((trace) => linkTable(traces, trace, shell)),
    );
  }

  return {cards, ranks};
})();
