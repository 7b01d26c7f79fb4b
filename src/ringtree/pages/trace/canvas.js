'use strict';

// The timeline on the screen: pixels for the bars, above them a canvas for all else, beside them the overview. Every
// change of `state` asks for a frame; a frame draws anew only what would look different.
function traceCanvas(view, traces, state, shell, overview) {
  const {t} = shell;
  const root = view.scroll.parentElement;
  const hasChannels = traces.some((trace) => trace.rows.some((row) => row.channel > 0));
  const {GUTTER, AXIS} = traceLayout;
  const ratio = () => shell.zoom * devicePixelRatio; // pixels of the screen to a unit of the layout
  let placed = null;
  let pen = null;
  let wide = []; // the bars that may have words in them
  let [sized, drawn] = ['', '']; // what the canvases were made for, what the bars show
  let frame = 0;

  function measure() {
    const {zoom} = shell;
    root.style.setProperty('--trace-unit', `${zoom}px`);
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

  function resize(canvas, left, top, width, height) {
    [canvas.width, canvas.height] = [Math.round(width * ratio()), Math.round(height * ratio())];
    const box = Object.entries({left, top, width, height});
    for (const [name, units] of box) canvas.style[name] = `${units * shell.zoom}px`;
  }

  // What there is to draw, for traceTimeline.
  function picture() {
    const {scroll} = view;
    const names = traces.map((trace) => traceDom.nameOf(traces, trace, t));
    const channel = (row) => (hasChannels ? t('trace.channel_short', {channel: row.channel}) : '');
    return {
      ...state, placed, traces, t, colours: shell.colours,
      height: scroll.clientHeight / shell.zoom, top: scroll.scrollTop / shell.zoom,
      scope: {start_s: state.start_s, end_s: state.end_s, width: scroll.clientWidth / shell.zoom - GUTTER},
      name: (trace) => names[trace.index],
      note: (row) => `${state.isInterleaved ? names[row.trace.index] : ''} ${channel(row)}`.trim(),
    };
  }

  function drawBars(shown) {
    const scale = view.bars.width / (state.end_s - state.start_s);
    const shift = Math.round((state.start_s * scale) % pen.period);
    wide = [];
    pen.clear();
    traceTimeline.bars(shown, ratio(), (kind, left, right, top, bottom) => {
      if (kind === traceBars.BLANK) pen.blank(left, right, top, bottom);
      else pen.tile(kind, left, right, top, bottom, shift);
    }, (place, event, left, right) => wide.push([place, event, left / ratio(), right / ratio()]));
    pen.show();
  }

  function draw() {
    frame = 0;
    const began = performance.now();
    const shown = picture();
    const key = [state.start_s, state.end_s, shown.top, state.isInterleaved, sized].join();
    if (key !== drawn) drawBars(shown);
    drawn = key;
    const context = view.over.getContext('2d');
    context.resetTransform();
    context.clearRect(0, 0, view.over.width, view.over.height);
    context.scale(ratio(), ratio());
    traceTimeline.over(tracePens.canvasPen(context), shown, wide);
    overview.show(state, shell);
    Object.assign(root.dataset, {visibleStart: state.start_s, visibleEnd: state.end_s});
    shell.stats.frames.push(performance.now() - began);
    if (shell.stats.frames.length > 600) shell.stats.frames.splice(0, 300);
  }

  function ask() {
    if (!frame) frame = requestAnimationFrame(draw);
  }

  // Scrolls to an event's row, where it is out of sight.
  function reveal({trace, event}) {
    const place = placed.at.get(trace.rows[trace.rowOf[event]]);
    const top = view.scroll.scrollTop / shell.zoom;
    const room = view.scroll.clientHeight / shell.zoom - AXIS;
    if (place.y < top) view.scroll.scrollTop = place.y * shell.zoom;
    if (place.y + placed.height > top + room) view.scroll.scrollTop = (place.y + placed.height - room) * shell.zoom;
  }

  return {measure, picture, draw, ask, reveal, get placed() { return placed; }};
}
