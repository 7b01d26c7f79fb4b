'use strict';

/** @typedef {{isInterleaved: boolean, hasCritical: boolean, selected: Item | null, pointed: Item | null}} Marks */
/** @typedef {Interval & Marks} State */
/** @typedef {ReturnType<typeof traceCanvas>} TraceCanvas */
/**
 * The timeline on the screen: pixels for the bars, above them a canvas for all else, beside them the overview. Every
 * change of `state` asks for a frame; a frame draws anew only what would look different.
 * @param {Parts} view @param {Trace[]} traces @param {State} state @param {Shell} shell
 * @param {{show(state: Interval, shell: Shell): void}} overview
 */
function traceCanvas(view, traces, state, shell, overview) {
  const {t} = shell;
  const hasChannels = traces.some((trace) => trace.rows.some((row) => row.channel > 0));
  const {GUTTER, AXIS} = traceLayout;
  const ratio = () => shell.zoom * devicePixelRatio; // pixels of the screen to a unit of the layout
  let placed = traceLayout.layout(traces, false, 0);
  let pen = tracePens.pixelPen(view.bars, 1, shell.colours);
  /** @type {WideBar[]} */
  let wide = [];
  let [sized, drawn] = ['', '']; // what the canvases were made for, what the bars show
  let frame = 0;

  function measure() {
    const {zoom} = shell;
    view.root.style.setProperty('--trace-unit', `${zoom}px`);
    const most = Math.max(300, Math.floor((innerHeight / zoom) * 0.56));
    placed = traceLayout.layout(traces, state.isInterleaved, most);
    const whole = placed.total + AXIS;
    view.scroll.style.height = `${Math.min(most, whole) * zoom}px`;
    view.spacer.style.height = `${whole * zoom}px`;
    const [width, height] = [view.scroll.clientWidth / zoom, Math.min(most, whole)];
    const key = `${width} ${height} ${ratio()} ${shell.theme}`;
    if (key === sized) return;
    sized = key;
    resize(view.over, 0, 0, width, height);
    resize(view.bars, GUTTER, AXIS, width - GUTTER, height - AXIS);
    pen = tracePens.pixelPen(view.bars, ratio(), shell.colours);
  }

  /**
   * @param {HTMLCanvasElement} canvas @param {number} left @param {number} top @param {number} width
   * @param {number} height
   */
  function resize(canvas, left, top, width, height) {
    [canvas.width, canvas.height] = [Math.round(width * ratio()), Math.round(height * ratio())];
    const box = Object.entries({left, top, width, height});
    for (const [name, units] of box) canvas.style.setProperty(name, `${units * shell.zoom}px`);
  }

  // What there is to draw, for traceTimeline.
  function picture() {
    const {scroll} = view;
    const names = traces.map((trace) => traceDom.nameOf(traces, trace, t));
    /** @param {Row} row */
    const channel = (row) => (hasChannels ? t('trace.channel_short', {channel: row.channel}) : '');
    return {
      ...state, placed, traces, t, colours: shell.colours,
      height: scroll.clientHeight / shell.zoom, top: scroll.scrollTop / shell.zoom,
      scope: {start_s: state.start_s, end_s: state.end_s, width: scroll.clientWidth / shell.zoom - GUTTER},
      /** @param {Trace} trace */
      name: (trace) => names[trace.index],
      /** @param {Row} row */
      note: (row) => `${state.isInterleaved ? names[row.trace.index] : ''} ${channel(row)}`.trim(),
    };
  }

  /** @param {Picture} shown */
  function drawBars(shown) {
    const scale = view.bars.width / (state.end_s - state.start_s);
    const shift = Math.round((state.start_s * scale) % pen.period);
    wide = [];
    pen.clear();
    traceTimeline.bars(shown, ratio(), (kind, left, right, top, bottom) => {
      if (kind === traceBars.BLANK) pen.blank(left, right, top, bottom);
      else pen.tile(kind, left, right, top, bottom, shift);
    }, wide);
    pen.show();
  }

  function paint() {
    frame = 0;
    const began_ms = performance.now();
    const shown = picture();
    const key = [state.start_s, state.end_s, shown.top, state.isInterleaved, sized].join();
    if (key !== drawn) drawBars(shown);
    drawn = key;
    const context = tracePens.contextOf(view.over);
    context.resetTransform();
    context.clearRect(0, 0, view.over.width, view.over.height);
    context.scale(ratio(), ratio());
    traceTimeline.over(tracePens.canvasPen(context), shown, wide);
    overview.show(state, shell);
    Object.assign(view.root.dataset, {visibleStart: state.start_s, visibleEnd: state.end_s});
    shell.measure(began_ms);
  }

  function ask() {
    if (!frame) frame = requestAnimationFrame(paint);
  }

  /** Scrolls to an event's row, where it is out of sight. @param {Item} item */
  function reveal(item) {
    const place = traceLayout.placeOf(placed, item);
    const top = view.scroll.scrollTop / shell.zoom;
    const room = view.scroll.clientHeight / shell.zoom - AXIS;
    if (place.y < top) view.scroll.scrollTop = place.y * shell.zoom;
    if (place.y + placed.height > top + room) view.scroll.scrollTop = (place.y + placed.height - room) * shell.zoom;
  }

  return {measure, picture, paint, ask, reveal, placed: () => placed};
}
