'use strict';

// The trace view: traces as a timeline, a row a rank and channel, with tables. `state` is what is shown of
// them; this file joins the parts that change it with those that draw it. The events are in model.js.
ringtree.view('trace', {
  mount(root, data, shell) {
    const traces = traceModel.load(data, shell);
    const total_s = Math.max(1e-8, ...traces.map((trace) => trace.span_s));
    const hasPaths = traces.some((trace) => trace.critical.count > 0);
    /** @type {State} */
    const state = {
      start_s: 0, end_s: total_s, isInterleaved: false, hasCritical: hasPaths, selected: null, pointed: null,
    };
    const view = traceParts(root, traces);
    const shown = traceWindow(state, total_s, moved);
    const overview = traceOverview.mount(view.overview, traces, total_s, shown.show);
    const canvas = traceCanvas(view, traces, state, shell, overview);
    const events = traceEvents.mount(view.events, traces, shell, {
      pick: (item) => selection.select(item, true), point: (item) => selection.point(item),
    });
    const selection = traceSelection(view, traces, state, shell, {canvas, events, shown});
    let settled = 0;

    // The table follows when the window rests.
    function moved() {
      canvas.ask();
      clearTimeout(settled);
      settled = setTimeout(() => events.show({start_s: state.start_s, end_s: state.end_s}), 120);
    }

    function toggleInterleaved() {
      state.isInterleaved = !state.isInterleaved && traces.length > 1;
      redraw();
    }

    function toggleCritical() {
      state.hasCritical = !state.hasCritical && hasPaths;
      redraw();
    }

    function redraw() {
      canvas.measure();
      const layout = state.isInterleaved ? 'interleaved' : 'panels';
      Object.assign(root.dataset, {layout, critical: state.hasCritical ? 'shown' : 'hidden'});
      view.interleaved.ariaPressed = `${state.isInterleaved}`;
      view.critical.ariaPressed = `${state.hasCritical}`;
      view.over.ariaLabel = shell.t('trace.timeline');
      view.legend(shell);
      traceFacts.cards(view.facts, traces, shell);
      traceFacts.ranks(view.ranks, traces, shell);
      selection.describe();
      events.redraw();
      canvas.paint();
    }

    const count = d3.sum(traces, (trace) => trace.count);
    Object.assign(root.dataset, {traces: traces.length, events: count, selected: '', pointed: ''});
    view.zoomIn.onclick = () => shown.zoom(0.5);
    view.zoomOut.onclick = () => shown.zoom(2);
    view.all.onclick = shown.all;
    view.toSelected.onclick = selection.zoomTo;
    view.other.onclick = selection.otherEnd;
    view.interleaved.onclick = toggleInterleaved;
    view.critical.onclick = toggleCritical;
    tracePointer(view, traces, state, shell, {canvas, shown, selection});
    events.show({start_s: 0, end_s: total_s});

    /** @param {number} by */
    const scrollBy = (by) => { view.scroll.scrollTop += by; };
    const keys = {
      '+': () => shown.zoom(0.5), '=': () => shown.zoom(0.5), '-': () => shown.zoom(2), '0': shown.all,
      f: selection.zoomTo, ArrowLeft: () => shown.pan(-0.2), ArrowRight: () => shown.pan(0.2),
      ArrowUp: () => scrollBy(-40), ArrowDown: () => scrollBy(40),
      ',': () => selection.step(-1), '.': () => selection.step(1), m: selection.otherEnd,
      Escape: () => selection.select(null), c: toggleCritical, r: toggleInterleaved,
    };
    const help = [
      ['+ -', 'trace.zoom_keys'], ['0', 'trace.all_keys'], ['F', 'trace.selected_keys'], ['← →', 'trace.pan_keys'],
      ['↑ ↓', 'trace.scroll_keys'], [', .', 'trace.step_keys'], ['M', 'trace.other_keys'], ['C', 'trace.critical_keys'],
      ['R', 'trace.interleaved_keys'], ['Esc', 'trace.escape_keys'],
    ];
    const notes = ['trace.mouse_note', 'trace.picture_note'];
    return {redraw, keys, help, notes, svg: () => traceTimeline.svg(canvas.picture())};
  },
});
