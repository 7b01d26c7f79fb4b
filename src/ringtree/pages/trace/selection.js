'use strict';

/** @typedef {ReturnType<typeof traceSelection>} TraceSelection */
/**
 * The event that is selected and the one that is pointed at, or null; all about it in a line of words.
 * @param {Parts} view @param {Trace[]} traces @param {State} state @param {Shell} shell
 * @param {{canvas: TraceCanvas, events: EventTable, shown: ReturnType<typeof traceWindow>}} parts
 */
function traceSelection(view, traces, state, shell, {canvas, events, shown}) {
  const {dataset} = view.root;
  const {t} = shell;
  /** @param {Item | null} item */
  const otherOf = (item) => (item ? item.trace.other[item.event] : -1);
  /** @param {Item | null} a @param {Item | null} b */
  const isSame = (a, b) => a === b || (a && b && a.trace === b.trace && a.event === b.event);

  /**
   * `isFound`: from the keys or the table, so that the timeline has to come to it; else the table has to.
   * @param {Item | null} item
   */
  function select(item, isFound = false) {
    state.selected = item;
    Object.assign(dataset, {selected: item?.event ?? '', selectedTrace: item?.trace.index ?? ''});
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

  /** @param {Item | null} item */
  function point(item) {
    if (isSame(item, state.pointed)) return;
    state.pointed = item;
    dataset.pointed = `${item?.event ?? ''}`;
    events.mark(state.selected, item);
    canvas.ask();
  }

  /**
   * The event before or after the selected one in its row; without one, the first that is in sight.
   * @param {number} by
   */
  function step(by) {
    const {selected} = state;
    if (!selected) {
      const first = canvas.placed().rows.find(({row}) => (row.bars.end_s.at(-1) ?? -1) >= state.start_s);
      if (!first) return;
      const {trace, bars: {events: list, end_s}} = first.row;
      select({trace, event: list[Math.min(traceModel.after(end_s, state.start_s), list.length - 1)]}, true);
      return;
    }
    const {trace, event} = selected;
    const {bars, sends} = trace.rows[trace.rowOf[event]];
    const list = trace.kind[event] === traceModel.SEND ? sends.events : bars.events;
    const next = list[list.indexOf(event) + by];
    if (next !== undefined) select({trace, event: next}, true);
  }

  function otherEnd() {
    const {selected} = state;
    if (selected && otherOf(selected) >= 0) select({trace: selected.trace, event: otherOf(selected)}, true);
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
    const {title, source, lines} = traceDom.describe(traces, selected, shell);
    const words = lines.map(([name, value]) => make('span', {}, `${name} `, make('b', {}, value)));
    view.selected.replaceChildren(make('strong', {}, title), make('span', {}, source), ...words);
  }

  return {select, point, step, otherEnd, zoomTo, describe};
}
