'use strict';

/**
 * The mouse over the timeline: the wheel zooms at it, dragging moves, a click selects, pointing describes an event.
 * @param {Parts} view @param {Trace[]} traces @param {State} state @param {Shell} shell
 * @param {{canvas: TraceCanvas, shown: ReturnType<typeof traceWindow>, selection: TraceSelection}} parts
 */
function tracePointer(view, traces, state, shell, {canvas, shown, selection}) {
  const {GUTTER, AXIS} = traceLayout;
  const NEAR_PX = 4;
  const {over, scroll} = view;
  const tooltip = elements.tooltip(view.root, 'trace-tooltip');
  /** Where it began. @type {Interval & {x: number, y: number, top: number, isMove: boolean} | null} */
  let drag = null;

  /**
   * In units of the layout, from where the rows begin; `at`: 0 left, 1 right; `inner`: how wide they are.
   * @param {MouseEvent} event
   */
  const where = (event) => {
    const {left, top, width} = over.getBoundingClientRect();
    const [x, inner] = [(event.clientX - left) / shell.zoom - GUTTER, width / shell.zoom - GUTTER];
    return {x, y: (event.clientY - top) / shell.zoom - AXIS, inner, at: x / inner};
  };

  /** The event under the pointer. @param {MouseEvent} event @returns {Item | null} */
  function itemAt(event) {
    const {x, y, at, inner} = where(event);
    if (x < 0 || y < 0) return null;
    const down = y + scroll.scrollTop / shell.zoom;
    const place = traceLayout.rowAt(canvas.placed(), down);
    if (!place) return null;
    const {row, strip, box} = place;
    const width_s = state.end_s - state.start_s;
    const [time_s, near_s] = [state.start_s + width_s * at, (width_s / inner) * NEAR_PX];
    const isInStrip = down < (strip.bottom + box.top) / 2 + 1;
    const send = isInStrip ? traceBars.sendAt(row.sends, time_s, near_s) : -1;
    const chosen = send >= 0 ? send : traceBars.barAt(row.bars, time_s, near_s);
    return chosen >= 0 ? {trace: row.trace, event: chosen} : null;
  }

  /** @param {MouseEvent} event */
  function hover(event) {
    const item = itemAt(event);
    selection.point(item);
    if (item) tooltip.show(traceDom.describe(traces, item, shell), event);
    else tooltip.hide();
    over.style.cursor = item ? 'pointer' : 'grab';
  }

  /** @param {PointerEvent} event */
  function press(event) {
    if (event.button) return;
    over.setPointerCapture(event.pointerId);
    const {start_s, end_s} = state;
    drag = {x: event.clientX, y: event.clientY, start_s, end_s, top: scroll.scrollTop, isMove: false};
  }

  /** @param {PointerEvent} event */
  function move(event) {
    if (!drag) {
      hover(event);
      return;
    }
    const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
    if (!drag.isMove && Math.hypot(dx, dy) < NEAR_PX) return;
    drag.isMove = true;
    tooltip.hide();
    over.style.cursor = 'grabbing';
    const by_s = (dx / shell.zoom / where(event).inner) * (drag.end_s - drag.start_s);
    shown.show(drag.start_s - by_s, drag.end_s - by_s);
    scroll.scrollTop = drag.top - dy;
  }

  /** @param {PointerEvent} event */
  function release(event) {
    if (drag && !drag.isMove) selection.select(itemAt(event));
    drag = null;
  }

  /** @param {WheelEvent} event */
  function turnWheel(event) {
    const {x, at, inner} = where(event);
    if (x < 0) return; // over the ranks' names the wheel scrolls
    event.preventDefault();
    tooltip.hide();
    const by = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 30 : 1;
    const isSideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (isSideways) shown.pan(((event.deltaX || event.deltaY) * by) / inner);
    else shown.zoom(2 ** Math.max(-2, Math.min(2, (event.deltaY * by) / 180)), at);
  }

  over.addEventListener('pointerdown', press);
  over.addEventListener('pointermove', move);
  over.addEventListener('pointerup', release);
  over.addEventListener('pointercancel', () => { drag = null; });
  over.addEventListener('pointerleave', () => {
    selection.point(null);
    tooltip.hide();
  });
  over.addEventListener('dblclick', (event) => shown.zoom(event.shiftKey ? 4 : 0.25, where(event).at));
  over.addEventListener('wheel', turnWheel, {passive: false});
  scroll.addEventListener('scroll', canvas.ask);
}
