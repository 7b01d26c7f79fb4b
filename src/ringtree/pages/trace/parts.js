'use strict';

/** @typedef {ReturnType<typeof traceParts>} Parts */
/**
 * The elements of the trace view, from top to bottom: facts, tools and legend, overview, timeline, selection, tables.
 * @param {HTMLElement} root @param {Trace[]} traces
 */
function traceParts(root, traces) {
  /** @param {string} id @param {string} key */
  const button = (id, key) => make('button', {type: 'button', id: `trace-${id}`, data: {t: key}});
  /** @param {string} id @param {string} words @param {string} key */
  const icon = (id, words, key) => make('button.icon', {type: 'button', id: `trace-${id}`, data: {tLabel: key}}, words);
  /** @param {string} name */
  const part = (name) => make(`div.trace-${name}`);

  const zoomIn = icon('zoom-in', '+', 'trace.zoom_in');
  const zoomOut = icon('zoom-out', '−', 'trace.zoom_out');
  const all = button('all', 'trace.all');
  const toSelected = button('selected', 'trace.to_selected');
  const other = button('other', 'trace.other_end');
  const critical = button('critical', 'trace.critical');
  const interleaved = button('interleaved', 'trace.interleaved');
  critical.disabled = !traces.some((trace) => trace.critical.count);
  interleaved.hidden = traces.length < 2;

  const legendBox = part('legend');
  const buttons = make('div.trace-buttons', {}, zoomIn, zoomOut, all, toSelected, other, critical, interleaved);
  const tools = make('div.trace-tools', {}, buttons, legendBox);
  const bars = make('canvas.trace-bars');
  const over = make('canvas.trace-over', {tabIndex: 0});
  const sticky = make('div.trace-sticky', {}, bars, over);
  const spacer = make('div.trace-spacer', {}, sticky);
  const scroll = make('div.trace-scroll', {}, spacer);
  const [facts, overview, selected] = ['facts', 'overview', 'selected-event'].map(part);
  const [events, ranks] = ['events', 'ranks-box'].map(part);
  selected.setAttribute('aria-live', 'polite');
  const tables = make('div.trace-tables', {}, events, ranks);
  root.append(facts, tools, overview, scroll, selected, tables);

  /** The legend, and the patterns of the theme that it and all other swatches refer to. @param {Shell} shell */
  function legend({t, colours}) {
    const kinds = traceModel.kindsOf(traces).map((kind) => (
      make('span', {}, tracePens.swatch([[kind, 22]], 12), t(traceDom.KIND_NAMES[kind]))));
    legendBox.replaceChildren(draw('svg', {width: 0, height: 0}, tracePens.patterns(colours)), ...kinds);
  }

  return {root, facts, overview, scroll, spacer, bars, over, selected, events, ranks, legend,
    zoomIn, zoomOut, all, toSelected, other, critical, interleaved};
}
