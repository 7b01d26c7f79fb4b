'use strict';

// The event that is selected and the one that is pointed at, {trace, event} or null; all about it in a line of words.
function traceSelection(root, view, traces, state, shell, {canvas, events, shown}) {
  const {make} = traceDom;
  const {t} = shell;
  const otherOf = (item) => (item ? item.trace.other[item.event] : -1);
  const isSame = (a, b) => a === b || (a && b && a.trace === b.trace && a.event === b.event);

  // `isFound`: from the keys or the table, so that the timeline has to come to it; else the table has to.
  function select(item, isFound = false) {
    state.selected = item;
    Object.assign(root.dataset, {selected: item ? item.event : '', selectedTrace: item ? item.trace.index : ''});
    events.mark(item, state.pointed);
    describe();
    if (item && isFound) {
      shown.moveTo(item);
      canvas.reveal(item);
    } else if (item) {
      events.reveal(item);
    }
    canvas.ask();
  }

  function point(item) {
    if (isSame(item, state.pointed)) return;
    state.pointed = item;
    root.dataset.pointed = item ? item.event : '';
    events.mark(state.selected, item);
    canvas.ask();
  }

  // The event before or after the selected one in its row; without one, the first that is in sight.
  function step(by) {
    const {selected} = state;
    if (!selected) {
      const first = canvas.placed.rows.map(({row}) => row).find(({bars}) => bars.end_s.at(-1) >= state.start_s);
      const i = first ? Math.min(traceModel.after(first.bars.end_s, state.start_s), first.bars.events.length - 1) : 0;
      if (first) select({trace: first.trace, event: first.bars.events[i]}, true);
      return;
    }
    const {trace, event} = selected;
    const {bars, sends} = trace.rows[trace.rowOf[event]];
    const list = trace.kind[event] === traceModel.SEND ? sends.events : bars.events;
    const next = list[list.indexOf(event) + by];
    if (next !== undefined) select({trace, event: next}, true);
  }

  function otherEnd() {
    if (otherOf(state.selected) >= 0) select({trace: state.selected.trace, event: otherOf(state.selected)}, true);
  }

  function zoomTo() {
    if (!state.selected) return;
    shown.zoomTo(state.selected);
    canvas.reveal(state.selected);
  }

  function describe() {
    const {selected} = state;
    view.other.disabled = otherOf(selected) < 0;
    view.toSelected.disabled = !selected;
    if (!selected) {
      view.selected.replaceChildren(t('trace.nothing_selected'));
      return;
    }
    const {title, source, lines} = traceDom.describe(traces, selected, t, shell.number);
    const words = lines.map(([name, value]) => make('span', {}, `${name} `, make('b', {}, value)));
    view.selected.replaceChildren(make('strong', {}, title), make('span', {}, source), ...words);
  }

  return {select, point, step, otherEnd, zoomTo, describe};
}
