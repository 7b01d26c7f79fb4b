'use strict';

// The timeline's strokes. The same functions draw on the screen and into an exported SVG; y counts from its top.
/** @typedef {ReturnType<ReturnType<typeof traceCanvas>['picture']>} Picture What there is to draw. */
/** @typedef {[place: Place, event: number, left: number, right: number]} WideBar In units of the layout. */
const traceTimeline = (() => {
  const {GUTTER, AXIS} = traceLayout;
  const MOST_MESSAGES = 300; // arrows on the screen; beyond them only those of the event that is pointed at
  const LEGEND = 28; // the height of an exported picture's legend
  const LABEL_PX = 56; // what a bar must be wide for words in it

  /** @param {Picture} picture @param {number} time_s */
  const atX = ({scope}, time_s) => GUTTER + ((time_s - scope.start_s) / (scope.end_s - scope.start_s)) * scope.width;
  /** @param {Picture} picture @param {number} y */
  const atY = ({top}, y) => AXIS + y - top;
  /** @param {Picture} picture */
  const rowsOf = (picture) => traceLayout.visible(picture.placed, picture.top, picture.height - AXIS);

  /**
   * A line as far as it is near the window: deep in a long trace its ends are too far away for a canvas to be exact.
   * @param {Picture} picture @param {XY[]} points
   */
  function within({scope}, points) {
    const [low, high] = [-1000, GUTTER + scope.width + 1000];
    /** @param {number} x @param {XY} a @param {XY} b @returns {XY} */
    const at = (x, a, b) => [x, a[1] + ((x - a[0]) / (b[0] - a[0])) * (b[1] - a[1])];
    /** @param {XY} a @param {XY} b */
    const cut = (a, b) => (a[0] < low ? at(low, a, b) : a[0] > high ? at(high, a, b) : a);
    /** @type {XY[]} */
    const kept = [];
    for (let i = 1; i < points.length; i++) {
      const [a, b] = [points[i - 1], points[i]];
      if (Math.max(a[0], b[0]) < low || Math.min(a[0], b[0]) > high) continue;
      if (!kept.length) kept.push(cut(a, b));
      kept.push(cut(b, a));
    }
    return kept;
  }

  /**
   * The events of the visible rows as rectangles of whole pixels, `ratio` to a unit of the layout; `wide` takes those
   * that may have words in them.
   * @param {Picture} picture @param {number} ratio @param {Rect} rect @param {WideBar[]} wide
   */
  function bars(picture, ratio, rect, wide) {
    const scope = {...picture.scope, width: Math.round(picture.scope.width * ratio)};
    /** @param {Span} span */
    const scaled = ({top, bottom}) => ({
      top: Math.round((top - picture.top) * ratio), bottom: Math.round((bottom - picture.top) * ratio),
    });
    for (const place of rowsOf(picture)) {
      traceBars.paintSends(place.row.sends, scope, scaled(place.strip), rect);
      traceBars.paint(place.row.bars, scope, scaled(place.box), rect, (event, left, right) => {
        wide.push([place, event, left / ratio, right / ratio]);
      });
    }
  }

  /** @param {Pen} pen @param {Picture} picture */
  function axis(pen, picture) {
    const {scope, colours, height} = picture;
    const {base, ticks} = traceTicks(scope, scope.width / 110);
    pen.rect(0, 0, GUTTER + scope.width, AXIS, {fill: colours.surface});
    pen.line([[0, AXIS - 0.5], [GUTTER + scope.width, AXIS - 0.5]], {stroke: colours['line-strong']});
    if (base) pen.text(8, AXIS / 2, base, {fill: colours.ink, size: 11, weight: 600});
    pen.clipped(GUTTER, 0, scope.width, height, () => {
      for (const {at_s, text} of ticks) {
        const x = Math.round(atX(picture, at_s)) + 0.5;
        pen.line([[x, AXIS - 6], [x, AXIS]], {stroke: colours['line-strong']});
        const anchor = at_s === 0 ? 'start' : x > GUTTER + scope.width - 30 ? 'end' : 'middle';
        pen.text(anchor === 'end' ? x - 3 : x, AXIS / 2 - 2, text, {fill: colours.muted, size: 11, anchor});
      }
    });
  }

  /** @param {Pen} pen @param {Picture} picture */
  function grid(pen, picture) {
    const {scope, colours, height} = picture;
    for (const {at_s} of traceTicks(scope, scope.width / 110).ticks) {
      const x = Math.round(atX(picture, at_s)) + 0.5;
      if (x >= GUTTER) pen.line([[x, AXIS], [x, height]], {stroke: `${colours['line-strong']}55`});
    }
  }

  /** @param {Pen} pen @param {Picture} picture */
  function titles(pen, picture) {
    const {colours, scope} = picture;
    for (const {trace, y, height} of picture.placed.titles) {
      const at = atY(picture, y);
      pen.rect(0, at, GUTTER + scope.width, height, {fill: colours.raised});
      pen.text(8, at + height / 2, picture.name(trace), {fill: colours.ink, size: 12, weight: 600});
      const words = `${figures.time(trace.span_s, 4)}  ·  ${trace.facts.name || ''}`;
      pen.text(GUTTER + 8, at + height / 2, words, {fill: colours.muted, size: 12});
    }
  }

  /**
   * The names of the rows. Where rows are low, only every k-th rank is named.
   * @param {Pen} pen @param {Picture} picture
   */
  function labels(pen, picture) {
    const {placed, colours, t} = picture;
    const size = Math.min(12, placed.height + 1);
    const every = Math.ceil((size + 2) / placed.height);
    pen.rect(0, AXIS, GUTTER, picture.height - AXIS, {fill: colours.surface});
    for (const {row, y, isFirst} of rowsOf(picture)) {
      const middle = atY(picture, y) + placed.height / 2;
      const words = traceDom.rankName(row.trace, row.rank, t);
      const isNamed = isFirst && row.rank % every === 0;
      if (isNamed) pen.text(8, Math.max(middle, AXIS + size / 2), words, {fill: colours.ink, size});
      const note = picture.note(row);
      if (note && placed.height >= 10) {
        pen.text(GUTTER - 8, middle, note, {fill: colours.muted, size: Math.min(11, size), anchor: 'end'});
      }
      if (isFirst) pen.line([[0, atY(picture, y)], [GUTTER, atY(picture, y)]], {stroke: colours.line});
    }
    pen.line([[GUTTER - 0.5, AXIS], [GUTTER - 0.5, picture.height]], {stroke: colours['line-strong']});
  }

  /** Words in the bars that have room for them. @param {Pen} pen @param {Picture} picture @param {WideBar[]} wide */
  function barWords(pen, picture, wide) {
    const {placed, colours} = picture;
    if (placed.height < 18) return;
    for (const [place, event, left, right] of wide) {
      const {trace} = place.row;
      const kind = trace.kind[event];
      if (right - left < LABEL_PX || kind === traceModel.WAIT) continue;
      const room = Math.floor((right - left - 8) / 6.2);
      const own = kind === traceModel.COMPUTE ? trace.calls[trace.call[event]].slice(0, room) : '';
      const words = own || figures.bytes(trace.nbytes[event], 4);
      const [x, y] = [GUTTER + (left + right) / 2, atY(picture, (place.box.top + place.box.bottom) / 2)];
      const size = words.length * 6.2 + 8;
      pen.rect(x - size / 2, y - 7, size, 14, {fill: `${colours.surface}d8`});
      pen.text(x, y + 0.5, words, {fill: colours.ink, size: 11, anchor: 'middle'});
    }
  }

  // -- messages

  /**
   * The SENDs that are under way somewhere in the window, or none where they are too many.
   * @param {Picture} picture
   */
  function messages({scope, placed}) {
    /** @type {Item[]} */
    const found = [];
    for (const {row} of placed.rows) {
      const {sends, trace} = row;
      for (let i = traceModel.after(sends.taken_s, scope.start_s); i < sends.events.length; i++) {
        if (sends.start_s[i] > scope.end_s) break;
        if (trace.other[sends.events[i]] >= 0) found.push({trace, event: sends.events[i]});
        if (found.length > MOST_MESSAGES) return [];
      }
    }
    return found;
  }

  /** @param {Pen} pen @param {Picture} picture @param {Item} item @param {Outline & {width: number}} style */
  function arrow(pen, picture, {trace, event: send}, style) {
    const wait = trace.other[send];
    /** @param {number} event @param {number} time_s @returns {XY} */
    const end = (event, time_s) => {
      const {top, bottom} = traceLayout.placeOf(picture.placed, {trace, event}).box;
      return [atX(picture, time_s), atY(picture, (top + bottom) / 2)];
    };
    const [from, to] = within(picture, [end(send, trace.start_s[send]), end(wait, trace.end_s[wait])]);
    if (!from) return;
    pen.line([from, to], style);
    const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
    const length = Math.hypot(dx, dy);
    if (length < 20) return; // a head would hide it
    const [ux, uy, size] = [dx / length, dy / length, 6 + style.width];
    /** @param {number} side @returns {XY} */
    const wing = (side) => [to[0] - size * (ux + side * uy), to[1] - size * (uy - side * ux)];
    pen.area([to, wing(0.45), wing(-0.45)], style.stroke);
  }

  /** @param {Pen} pen @param {Picture} picture @param {Item[]} marked */
  function arrows(pen, picture, marked) {
    const {colours} = picture;
    for (const send of messages(picture)) {
      const isFar = traceModel.isBetweenHosts(send.trace, send.event);
      const plain = {stroke: tracePens.mix(colours.green, colours.ink, 0.25), width: 1};
      arrow(pen, picture, send, isFar ? {...plain, width: 1.5, dash: [6, 3]} : plain);
    }
    for (const {trace, event} of marked) {
      const other = trace.other[event];
      if (other < 0) continue;
      const send = {trace, event: trace.kind[event] === traceModel.SEND ? event : other};
      arrow(pen, picture, send, {stroke: colours.surface, width: 5});
      arrow(pen, picture, send, {stroke: colours.ink, width: 2});
    }
  }

  // -- the critical path

  /**
   * Its points: along a rank's row while something is done there, across to another with a message.
   * @param {Picture} picture @param {Trace} trace
   */
  function criticalPoints(picture, trace) {
    const {critical, rows, other} = trace;
    /** @type {XY[]} */
    const points = [];
    /** @param {number} time_s @param {Row} row */
    const add = (time_s, row) => {
      const bottom = picture.placed.at.get(row)?.box.bottom ?? 0;
      /** @type {XY} */
      const at = [atX(picture, time_s), atY(picture, bottom - 1)];
      const before = points.at(-1);
      if (!before || before[1] !== at[1] || Math.abs(before[0] - at[0]) >= 0.5) points.push(at);
    };
    const first = traceModel.after(critical.end_s, picture.scope.start_s);
    for (let i = Math.max(0, first - 1); i < critical.count; i++) {
      if (i && critical.start_s[i - 1] > picture.scope.end_s) break;
      const event = critical.event[i];
      const isMessage = traceModel.STEPS[critical.what[i]] === 'message' && other[event] >= 0;
      const row = event < 0 ? trace.firstRow[critical.rank[i]] : trace.rowOf[event];
      add(critical.start_s[i], rows[row]);
      add(critical.end_s[i], rows[isMessage ? trace.rowOf[other[event]] : row]);
    }
    return within(picture, points);
  }

  /** @param {Pen} pen @param {Picture} picture */
  function criticalPaths(pen, picture) {
    const {colours} = picture;
    for (const trace of picture.traces) {
      const points = criticalPoints(picture, trace);
      if (points.length < 2) continue;
      const width = picture.placed.height < 16 ? 1.5 : 2.5;
      pen.line(points, {stroke: colours.surface, width: 2 * width});
      pen.line(points, {stroke: colours.purple, width, dash: trace.index ? [9, 4] : []}); // the first one's is whole
    }
  }

  // -- what is pointed at

  /** @param {Pen} pen @param {Picture} picture @param {Item} item @param {Outline} style */
  function outline(pen, picture, item, style) {
    const {trace, event} = item;
    const {box, strip} = traceLayout.placeOf(picture.placed, item);
    const {top, bottom} = trace.kind[event] === traceModel.SEND ? strip : box;
    const left = Math.max(GUTTER - 4, atX(picture, trace.start_s[event]));
    const right = Math.min(GUTTER + picture.scope.width + 4, atX(picture, trace.end_s[event]));
    if (right < left) return;
    pen.rect(left - 1.5, atY(picture, top) - 1.5, Math.max(2, right - left) + 3, bottom - top + 3, style);
  }

  /** All that lies over the bars. @param {Pen} pen @param {Picture} picture @param {WideBar[]} wide */
  function over(pen, picture, wide) {
    const {scope, colours, height, pointed, selected} = picture;
    const marked = [selected, pointed].filter((item) => item !== null);
    pen.clipped(GUTTER, AXIS, scope.width, height - AXIS, () => {
      grid(pen, picture);
      barWords(pen, picture, wide);
      if (picture.hasCritical) criticalPaths(pen, picture);
      arrows(pen, picture, marked);
      for (const mark of marked) {
        const style = {stroke: colours.ink, width: mark === selected ? 2.5 : 1.5};
        const other = mark.trace.other[mark.event];
        outline(pen, picture, mark, style);
        if (other >= 0) outline(pen, picture, {trace: mark.trace, event: other}, style);
      }
    });
    pen.clipped(0, AXIS, GUTTER + scope.width, height - AXIS, () => {
      labels(pen, picture);
      titles(pen, picture);
    });
    axis(pen, picture);
  }

  /**
   * The bars as SVG: one path a kind, and over them the columns in which many events share a pixel.
   * @param {Picture} picture @param {WideBar[]} wide
   */
  function svgBars(picture, wide) {
    /** The bars, the ground under the columns, the columns. @type {Record<number, string>[]} */
    const layers = [{}, {}, {}];
    let column = -1;
    bars(picture, 1, (kind, left, right, top, bottom) => {
      if (kind === traceBars.BLANK) column = left;
      const layer = layers[kind === traceBars.BLANK ? 1 : left === column ? 2 : 0];
      layer[kind] = `${layer[kind] || ''}M${left} ${top}H${right}V${bottom}H${left}z`;
    }, wide);
    /** @param {string} kind */
    const fill = (kind) => (Number(kind) < 0 ? picture.colours.surface : `url(#trace-kind-${kind})`);
    const paths = layers.flatMap(Object.entries).map(([kind, d]) => draw('path', {d, fill: fill(kind)}));
    const attributes = {transform: `translate(${GUTTER} ${AXIS})`, 'clip-path': 'url(#rows)'};
    return draw('g', {...attributes, 'shape-rendering': 'crispEdges'}, ...paths);
  }

  /** The picture as an SVG element of its own, with a legend below. @param {Picture} picture */
  function svg(picture) {
    const {scope, height, colours} = picture;
    const [width, whole] = [GUTTER + scope.width, height + LEGEND];
    const root = draw('svg', {width, height: whole, viewBox: `0 0 ${width} ${whole}`});
    root.append(tracePens.patterns(colours), draw('rect', {width, height: whole, fill: colours.surface}));
    const inside = draw('rect', {width: scope.width, height: height - AXIS});
    /** @type {WideBar[]} */
    const wide = [];
    root.append(draw('clipPath', {id: 'rows'}, inside), svgBars(picture, wide));
    const pen = tracePens.svgPen(root);
    over(pen, picture, wide);
    svgLegend(root, pen, picture);
    return root;
  }

  /** @param {SVGElement} root @param {Pen} pen @param {Picture} picture */
  function svgLegend(root, pen, {traces, height, colours, t, hasCritical}) {
    const kinds = [...traceModel.kindsOf(traces), ...(hasCritical ? [-1] : [])];
    kinds.forEach((kind, i) => {
      const [x, y] = [GUTTER + 8 + i * 130, height + LEGEND / 2];
      if (kind < 0) pen.line([[x, y], [x + 22, y]], {stroke: colours.purple, width: 2.5});
      else root.append(tracePens.swatch([[kind, 22]], 12, {x, y: y - 6}));
      pen.text(x + 30, y, t(traceDom.KIND_NAMES[kind] ?? 'trace.critical'), {fill: colours.muted, size: 12});
    });
  }

  return {bars, over, svg};
})();
