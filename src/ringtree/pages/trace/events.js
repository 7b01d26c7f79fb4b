'use strict';

// The table of the events in the window: with as many rows in the document as there is room for.
/** @typedef {ReturnType<typeof traceEvents.mount>} EventTable */
const traceEvents = (() => {
  const {nameOf, bandwidth_Bps, KIND_NAMES} = traceDom;
  const MOST_PX = 8e6; // browsers draw no taller element; beyond it, a pixel scrolls over several rows

  /**
   * A click calls `pick(item)`, the mouse over a row `point(item)`.
   * @param {HTMLElement} root @param {Trace[]} traces @param {Shell} shell
   * @param {{pick(item: Item): void, point(item: Item | null): void}} handlers
   */
  function mount(root, traces, shell, {pick, point}) {
    const {t} = shell;
    const offsets = traces.map((_, i) => d3.sum(traces.slice(0, i), (trace) => trace.count));
    const listed = new Int32Array(d3.sum(traces, (trace) => trace.count)); // offset of its trace + event
    const hasChannels = traces.some((trace) => trace.channel.some(Boolean));
    const body = make('tbody');
    const head = make('thead');
    const table = make('table', {tabIndex: -1}, head, body);
    const spacer = make('div.trace-spacer', {}, table);
    const scroll = make('div.trace-events-scroll', {tabIndex: 0}, spacer);
    const count = make('p.trace-count');
    root.append(count, scroll);
    let length = 0;
    let scope = {start_s: 0, end_s: 0};
    /** The event that is selected, and the one that is pointed at. @type {(Item | null)[]} */
    let marks = [null, null];

    /** @param {number} position @returns {Item} */
    const itemAt = (position) => {
      let trace = traces.length - 1;
      while (offsets[trace] > listed[position]) trace -= 1;
      return {trace: traces[trace], event: listed[position] - offsets[trace]};
    };

    // The events that touch the window, by their start; those of several traces are merged.
    function gather() {
      const next = traces.map(() => 0);
      /** @param {Trace} trace @param {number} i */
      const forward = (trace, i) => {
        while (i < trace.count && trace.end_s[i] < scope.start_s) i += 1;
        return i < trace.count && trace.start_s[i] <= scope.end_s ? i : trace.count;
      };
      traces.forEach((trace, i) => { next[i] = forward(trace, 0); });
      for (length = 0; ; length++) {
        let first = -1;
        traces.forEach((trace, i) => {
          const isOpen = next[i] < trace.count;
          if (isOpen && (first < 0 || trace.start_s[next[i]] < traces[first].start_s[next[first]])) first = i;
        });
        if (first < 0) return;
        listed[length] = offsets[first] + next[first];
        next[first] = forward(traces[first], next[first] + 1);
      }
    }

    const rowHeight = () => 24 * shell.zoom; // as in trace.css
    const room = () => Math.max(4, Math.floor(scroll.clientHeight / rowHeight()) - 1);
    const height = () => Math.min(MOST_PX, (length + 1) * rowHeight());
    const reach = () => Math.max(1, height() - scroll.clientHeight);
    const firstRow = () => Math.round((scroll.scrollTop / reach()) * Math.max(0, length - room()));

    /** @param {HTMLElement} row @param {Item} item */
    function markRow(row, {trace, event}) {
      const [selected, pointed] = marks.map((mark) => mark?.trace === trace && mark.event === event);
      row.classList.toggle('selected', selected);
      row.classList.toggle('pointed', pointed);
    }

    /** @param {number} position */
    function rowOf(position) {
      const item = itemAt(position);
      const {trace, event} = item;
      const lasted_s = trace.end_s[event] - trace.start_s[event];
      const [kind, peer, chunk] = [trace.kind[event], trace.peer[event], trace.chunk[event]];
      const rate_Bps = bandwidth_Bps(trace, event);
      const width_s = scope.end_s - scope.start_s;
      const kindCell = make('td.trace-kind', {}, tracePens.swatch([[kind, 14]], 10), ` ${t(KIND_NAMES[kind])}`);
      const words = [
        figures.moment(trace.start_s[event], Math.max(trace.start_s[event], width_s), Math.max(1e-9, width_s / 1e6)),
        ...(traces.length > 1 ? [nameOf(traces, trace, t)] : []),
        trace.rank[event], ...(hasChannels ? [trace.channel[event]] : []), kindCell,
        figures.time(lasted_s, 4), figures.bytes(trace.nbytes[event], 4), rate_Bps ? figures.rate(rate_Bps) : '–',
        peer < 0 ? '–' : peer, chunk < 0 ? '–' : chunk, trace.calls[trace.call[event]],
      ];
      const cells = words.map((word) => (word === kindCell ? kindCell : make('td', {}, String(word))));
      const row = make('tr', {data: {trace: trace.index, event}}, ...cells);
      markRow(row, item);
      row.onclick = () => pick(item);
      row.onmouseenter = () => point(item);
      row.onmouseleave = () => point(null);
      return row;
    }

    function draw() {
      const first = firstRow();
      const last = Math.min(length, first + room() + 1);
      spacer.style.height = `${height()}px`;
      body.replaceChildren(...d3.range(first, last).map(rowOf));
      root.dataset.rows = `${length}`;
    }

    function redraw() {
      const keys = ['trace.start', ...(traces.length > 1 ? ['trace.trace'] : []), 'trace.rank',
        ...(hasChannels ? ['trace.channel'] : []), 'trace.kind', 'trace.duration', 'trace.bytes', 'trace.rate',
        'trace.peer', 'trace.chunk', 'trace.call'];
      /** @param {string} key */
      const cell = (key) => make(key === 'trace.kind' ? 'th.trace-kind' : 'th', {scope: 'col'}, t(key));
      head.replaceChildren(make('tr', {}, ...keys.map(cell)));
      count.textContent = t('trace.listed', {count: shell.number(length)});
      draw();
    }

    /** Scrolls to an event, if it is listed and not in sight. @param {Item} item */
    function reveal({trace, event}) {
      const position = listed.subarray(0, length).indexOf(offsets[trace.index] + event);
      const first = firstRow();
      if (position < 0 || (position >= first && position < first + room() - 1)) return;
      const target = Math.max(0, position - Math.floor(room() / 2));
      scroll.scrollTop = (target / Math.max(1, length - room())) * reach();
    }

    scroll.addEventListener('scroll', draw);
    return {
      /** @param {Interval} next */
      show(next) {
        scope = next;
        gather();
        scroll.scrollTop = 0;
        redraw();
        if (marks[0]) reveal(marks[0]);
      },
      /** @param {Item | null} selected @param {Item | null} pointed */
      mark(selected, pointed) {
        marks = [selected, pointed];
        // the rows stay the same elements: one of them may be under the mouse
        for (const row of body.rows) {
          markRow(row, {trace: traces[Number(row.dataset.trace)], event: Number(row.dataset.event)});
        }
      },
      reveal,
      redraw,
    };
  }

  return {mount};
})();
