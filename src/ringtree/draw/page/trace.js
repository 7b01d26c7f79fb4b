'use strict';

// The trace view: traces as a timeline, a row a rank and channel. What is shown is in `state`; every change of it asks
// for a frame. What the events are is in trace_model.js, the strokes in trace_timeline.js, the tables in their own files.
ringtree.view('trace', {
  mount(root, data, shell) {
    const {t} = shell;
    const {make} = traceDom;
    const LEAST_S = 1e-8; // the narrowest window
    const traces = traceModel.load(data, shell.decode);
    const total_s = Math.max(LEAST_S, ...traces.map((trace) => trace.span_s));
    const state = {
      start_s: 0, end_s: total_s, isInterleaved: false, hasCritical: traces.some((trace) => trace.critical.count), selected: null, pointed: null,
    };
    const view = traceParts(root, traces);
    const tooltip = traceDom.tooltip(root);
    const overview = traceOverview.mount(view.overview, traces, total_s, show);
    const events = traceEvents.mount(view.events, traces, shell, {pick: (item) => select(item, true), point});
    let [placed, pen, wide, sized, drawn, frame, settled] = [null, null, [], '', '', 0, 0];

    // -- drawing

    function measure() {
      const ratio = Math.ceil(devicePixelRatio);
      const most = Math.max(300, Math.floor(innerHeight * 0.56));
      placed = traceLayout.layout(traces, state.isInterleaved, most);
      const height = Math.min(most, placed.total + traceLayout.AXIS);
      view.scroll.style.height = `${height}px`;
      view.spacer.style.height = `${placed.total + traceLayout.AXIS}px`;
      const width = view.scroll.clientWidth;
      const key = `${width} ${height} ${ratio} ${shell.theme}`;
      if (key === sized) return;
      sized = key;
      const {bars, over} = view;
      [over.width, over.height] = [width * ratio, height * ratio];
      [bars.width, bars.height] = [(width - traceLayout.GUTTER) * ratio, (height - traceLayout.AXIS) * ratio];
      Object.assign(over.style, {width: `${width}px`, height: `${height}px`});
      Object.assign(bars.style, {width: `${bars.width / ratio}px`, height: `${bars.height / ratio}px`});
      pen = tracePens.pixelPen(bars, ratio, shell.colours);
    }

    function picture() {
      const width = view.scroll.clientWidth - traceLayout.GUTTER;
      const hasChannels = traces.some((trace) => trace.rows.some((row) => row.channel > 0));
      const channel = (row) => (hasChannels ? t('trace.channel_short', {channel: row.channel}) : '');
      const names = traces.map((trace) => traceDom.nameOf(traces, trace, t));
      return {
        ...state, placed, traces, t, colours: shell.colours, height: view.scroll.clientHeight, top: view.scroll.scrollTop,
        scope: {start_s: state.start_s, end_s: state.end_s, width},
        name: (trace) => names[trace.index],
        note: (row) => [...(state.isInterleaved ? [names[row.trace.index]] : []), channel(row)].filter(Boolean).join(' '),
      };
    }

    // The bars take most of the time: they are drawn anew only where they would look different.
    function drawBars(shown) {
      const ratio = Math.ceil(devicePixelRatio);
      const scale = view.bars.width / (state.end_s - state.start_s);
      const shift = Math.round((state.start_s * scale) % (tracePens.TILE * ratio));
      wide = [];
      pen.clear();
      traceTimeline.bars(shown, ratio, (kind, left, right, top, bottom) => {
        if (kind < 0) pen.blank(left, right, top, bottom);
        else pen.tile(kind, left, right, top, bottom, shift);
      }, (place, event, left, right) => wide.push([place, event, left / ratio, right / ratio]));
      pen.show();
    }

    function draw() {
      frame = 0;
      const began = performance.now();
      const shown = picture();
      const key = [state.start_s, state.end_s, shown.top, state.isInterleaved, sized].join();
      if (key !== drawn) drawBars(shown);
      drawn = key;
      const ratio = Math.ceil(devicePixelRatio);
      const context = view.over.getContext('2d');
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.clearRect(0, 0, view.over.width, view.over.height);
      traceTimeline.over(tracePens.canvasPen(context), shown, wide);
      overview.show(state, shell.colours, shell.theme);
      Object.assign(root.dataset, {visibleStart: state.start_s, visibleEnd: state.end_s});
      shell.stats.frames.push(performance.now() - began);
      if (shell.stats.frames.length > 600) shell.stats.frames.splice(0, 300);
    }

    function ask() {
      if (!frame) frame = requestAnimationFrame(draw);
    }

    // -- the window

    function show(start_s, end_s) {
      const width_s = Math.min(total_s, Math.max(LEAST_S, end_s - start_s));
      state.start_s = Math.max(0, Math.min(total_s - width_s, start_s));
      state.end_s = state.start_s + width_s;
      ask();
      clearTimeout(settled);
      settled = setTimeout(() => events.show({start_s: state.start_s, end_s: state.end_s}), 120);
    }

    // `factor` under 1 zooms in; what is at `at` (0 left, 1 right) stays where it is.
    function zoom(factor, at = 0.5) {
      const width_s = state.end_s - state.start_s;
      const next_s = Math.min(total_s, Math.max(LEAST_S, width_s * factor));
      const fixed_s = state.start_s + width_s * at;
      show(fixed_s - next_s * at, fixed_s + next_s * (1 - at));
    }

    function pan(share) {
      const by_s = (state.end_s - state.start_s) * share;
      show(state.start_s + by_s, state.end_s + by_s);
    }

    // The selected event in the middle, and about as much again on both sides; its message's other end too.
    function zoomToSelected() {
      if (!state.selected) return;
      const {trace, event} = state.selected;
      const ends = [event, trace.other[event]].filter((i) => i >= 0);
      const start_s = Math.min(...ends.map((i) => trace.start_s[i]));
      const end_s = Math.max(...ends.map((i) => trace.end_s[i]));
      const margin_s = Math.max((end_s - start_s) * 0.75, LEAST_S);
      show(start_s - margin_s, end_s + margin_s);
      reveal(state.selected);
    }

    // -- selection

    function reveal({trace, event}) {
      const place = placed.at.get(trace.rows[trace.rowOf[event]]);
      const {scrollTop, clientHeight} = view.scroll;
      const room = clientHeight - traceLayout.AXIS;
      if (place.y < scrollTop) view.scroll.scrollTop = place.y;
      if (place.y + placed.height > scrollTop + room) view.scroll.scrollTop = place.y + placed.height - room;
    }

    function select(item, isShown = false) {
      state.selected = item;
      Object.assign(root.dataset, {selected: item ? item.event : '', selectedTrace: item ? item.trace.index : ''});
      events.mark(item, state.pointed);
      if (item && !isShown) events.reveal(item);
      describeSelected();
      if (item && isShown) {
        const [start_s, end_s] = [item.trace.start_s[item.event], item.trace.end_s[item.event]];
        const width_s = state.end_s - state.start_s;
        if (end_s < state.start_s || start_s > state.end_s) show(start_s - width_s / 2, start_s + width_s / 2);
        reveal(item);
      }
      ask();
    }

    function point(item) {
      const isSame = item === state.pointed || (item && state.pointed && item.event === state.pointed.event && item.trace === state.pointed.trace);
      if (isSame) return;
      state.pointed = item;
      root.dataset.pointed = item ? item.event : '';
      events.mark(state.selected, item);
      ask();
    }

    // The event before or after the selected one in its row; without one, the first in the window.
    function step(by) {
      const {selected} = state;
      if (!selected) {
        const row = placed.rows.find(({row: {bars}}) => bars.events.length);
        const i = row ? Math.min(traceModel.after(row.row.bars.end_s, state.start_s), row.row.bars.events.length - 1) : 0;
        if (row) select({trace: row.row.trace, event: row.row.bars.events[i]}, true);
        return;
      }
      const {bars, sends} = selected.trace.rows[selected.trace.rowOf[selected.event]];
      const list = selected.trace.kind[selected.event] === traceModel.SEND ? sends.events : bars.events;
      const place = list.indexOf(selected.event) + by;
      if (place >= 0 && place < list.length) select({trace: selected.trace, event: list[place]}, true);
    }

    function otherEnd() {
      const {selected} = state;
      if (selected && selected.trace.other[selected.event] >= 0) {
        select({trace: selected.trace, event: selected.trace.other[selected.event]}, true);
      }
    }

    function describeSelected() {
      const {selected} = state;
      const children = [t('trace.nothing_selected')];
      if (selected) {
        const {title, source, lines} = traceDom.describe(traces, selected, t, shell.number);
        const words = lines.map(([name, value]) => make('span', {}, `${name} `, make('b', {}, value)));
        children.splice(0, 1, make('strong', {}, title), ...(source ? [make('span', {}, source)] : []), ...words);
      }
      view.selected.replaceChildren(...children);
      view.other.disabled = !selected || selected.trace.other[selected.event] < 0;
      view.toSelected.disabled = !selected;
    }

    // -- switches

    function setInterleaved(isInterleaved) {
      state.isInterleaved = isInterleaved && traces.length > 1;
      redraw();
    }

    function setCritical(hasCritical) {
      state.hasCritical = hasCritical && traces.some((trace) => trace.critical.count);
      redraw();
    }

    function redraw() {
      measure();
      const layout = state.isInterleaved ? 'interleaved' : 'panels';
      Object.assign(root.dataset, {layout, critical: state.hasCritical ? 'shown' : 'hidden'});
      view.interleaved.setAttribute('aria-pressed', state.isInterleaved);
      view.critical.setAttribute('aria-pressed', state.hasCritical);
      view.over.setAttribute('aria-label', t('trace.timeline'));
      view.legend(shell);
      traceFacts.cards(view.facts, traces, shell);
      traceFacts.ranks(view.ranks, traces, shell);
      describeSelected();
      events.redraw();
      draw();
    }

    const count = traces.reduce((sum, trace) => sum + trace.count, 0);
    Object.assign(root.dataset, {traces: traces.length, events: count, selected: '', pointed: ''});
    Object.assign(view.zoomIn, {onclick: () => zoom(0.5)});
    Object.assign(view.zoomOut, {onclick: () => zoom(2)});
    view.all.onclick = () => show(0, total_s);
    view.toSelected.onclick = zoomToSelected;
    view.other.onclick = otherEnd;
    view.interleaved.onclick = () => setInterleaved(!state.isInterleaved);
    view.critical.onclick = () => setCritical(!state.hasCritical);
    tracePointer(view, {state, placed: () => placed, zoom, show, select, point, ask, tooltip,
      describe: (item) => traceDom.describe(traces, item, t, shell.number)});
    events.show({start_s: 0, end_s: total_s});

    const scrollBy = (by) => { view.scroll.scrollTop += by; };
    const keys = {
      '+': () => zoom(0.5), '=': () => zoom(0.5), '-': () => zoom(2), '0': () => show(0, total_s), f: zoomToSelected,
      ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), ArrowUp: () => scrollBy(-40), ArrowDown: () => scrollBy(40),
      ',': () => step(-1), '.': () => step(1), m: otherEnd, Escape: () => select(null),
      c: () => setCritical(!state.hasCritical), r: () => setInterleaved(!state.isInterleaved),
    };
    const help = [
      ['+ -', 'trace.zoom_keys'], ['0', 'trace.all_keys'], ['F', 'trace.selected_keys'], ['← →', 'trace.pan_keys'],
      ['↑ ↓', 'trace.scroll_keys'], [', .', 'trace.step_keys'], ['M', 'trace.other_keys'], ['C', 'trace.critical_keys'],
      ['R', 'trace.interleaved_keys'], ['Esc', 'trace.escape_keys'],
    ];
    return {redraw, keys, help, notes: ['trace.mouse_note', 'trace.picture_note'], svg: () => traceTimeline.svg(picture())};
  },
});
