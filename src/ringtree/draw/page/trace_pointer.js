'use strict';

// The mouse over the timeline: the wheel zooms at the pointer, dragging moves, a click selects, pointing says what it is.
function tracePointer(view, {state, placed, zoom, show, select, point, ask, tooltip, describe}) {
  const {GUTTER, AXIS} = traceLayout;
  const NEAR_PX = 4;
  const {over, scroll} = view;
  let drag = null;

  const where = (event) => {
    const {left, top, width} = over.getBoundingClientRect();
    const inner = width - GUTTER;
    return {x: event.clientX - left - GUTTER, y: event.clientY - top, inner, at: (event.clientX - left - GUTTER) / inner};
  };

  // The event under the pointer, or null.
  function itemAt(event) {
    const {x, y, at, inner} = where(event);
    if (x < 0 || y < AXIS) return null;
    const place = traceLayout.rowAt(placed(), y - AXIS + scroll.scrollTop);
    if (!place) return null;
    const width_s = state.end_s - state.start_s;
    const [time_s, near_s] = [state.start_s + width_s * at, (width_s / inner) * NEAR_PX];
    const {row, strip, box} = place;
    const inStrip = y - AXIS + scroll.scrollTop < (strip.bottom + box.top) / 2 + 1;
    const find = [() => traceBars.barAt(row.bars, time_s, near_s), () => traceBars.sendAt(row.sends, time_s, near_s)];
    if (inStrip) find.reverse();
    const found = find[0]();
    const chosen = found >= 0 || !inStrip ? found : find[1]();
    return chosen >= 0 ? {trace: row.trace, event: chosen} : null;
  }

  function hover(event) {
    const item = itemAt(event);
    point(item);
    if (item) tooltip.show(describe(item), event.clientX, event.clientY);
    else tooltip.hide();
    over.style.cursor = item ? 'pointer' : 'grab';
  }

  over.addEventListener('pointerdown', (event) => {
    if (event.button) return;
    over.setPointerCapture(event.pointerId);
    drag = {x: event.clientX, y: event.clientY, start_s: state.start_s, end_s: state.end_s, top: scroll.scrollTop, moved: false};
  });
  over.addEventListener('pointermove', (event) => {
    if (!drag) {
      hover(event);
      return;
    }
    const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
    if (!drag.moved && Math.hypot(dx, dy) < NEAR_PX) return;
    drag.moved = true;
    tooltip.hide();
    over.style.cursor = 'grabbing';
    const by_s = (dx / where(event).inner) * (drag.end_s - drag.start_s);
    show(drag.start_s - by_s, drag.end_s - by_s);
    scroll.scrollTop = drag.top - dy;
  });
  over.addEventListener('pointerup', (event) => {
    if (drag && !drag.moved) select(itemAt(event));
    drag = null;
  });
  over.addEventListener('pointercancel', () => { drag = null; });
  over.addEventListener('pointerleave', () => {
    point(null);
    tooltip.hide();
  });
  over.addEventListener('dblclick', (event) => zoom(event.shiftKey ? 4 : 0.25, where(event).at));
  over.addEventListener('wheel', (event) => {
    const {x, at} = where(event);
    if (x < 0) return; // over the ranks' names the wheel scrolls
    event.preventDefault();
    tooltip.hide();
    const by = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 30 : 1;
    const isSideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (isSideways) {
      const by_s = (((event.deltaX || event.deltaY) * by) / where(event).inner) * (state.end_s - state.start_s);
      show(state.start_s + by_s, state.end_s + by_s);
    } else {
      zoom(2 ** Math.max(-2, Math.min(2, (event.deltaY * by) / 180)), at);
    }
  }, {passive: false});
  scroll.addEventListener('scroll', ask);
}
