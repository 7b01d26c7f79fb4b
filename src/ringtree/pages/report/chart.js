'use strict';

// A chart of lines on log axes, drawn with plain attributes, so that a copy of it is a picture that stands alone.
const {make, draw, table, choices, refill, standalone, roomIn} = elements;

/** @typedef {{x: number, y: number, point: ReportPoint}} Mark A point where it is drawn, or in its line's units. */
/** @typedef {{line: number, name: string, points: Mark[]}} ChartLine By rising x. */
/**
 * @typedef {Crossing & {
 *   y: number, isBest: boolean, before: string, after: string, label: string, title: string,
 * }} ChartCrossing
 */
/**
 * What one chart shows: over sizes (axis 0) or over ranks (1).
 * @typedef {{
 *   lines: ChartLine[], crossings: ChartCrossing[], axis: number, isTime: boolean, title: string, xName: string,
 *   xFormat: (x: number) => string, yFormat: (y: number) => string, empty: string,
 * }} ChartSpec
 */
/** @typedef {{left: number, right: number, top: number, bottom: number}} Edges */
/** @typedef {{x: d3.ScaleLogarithmic<number, number>, y: d3.ScaleLogarithmic<number, number>}} Axes */
/** @typedef {ReturnType<typeof lineStyle>} LineStyle */

const CHART_MARGIN = {top: 3.2, right: 1.2, bottom: 3, left: 4.6}; // in rem
const LINE_COLOURS = ['blue', 'vermillion', 'green', 'orange', 'purple', 'sky', 'muted'];
const SYMBOLS = [
  d3.symbolCircle, d3.symbolSquare, d3.symbolTriangle, d3.symbolDiamond, d3.symbolStar, d3.symbolCross, d3.symbolWye,
];
const DASHES = [null, '7 3', '2 3', '9 3 2 3'];

/**
 * How the i-th line looks: colour, symbol and dashes distinguish them together.
 * @param {number} i
 */
function lineStyle(i) {
  const round = Math.floor(i / LINE_COLOURS.length);
  return {
    colour: LINE_COLOURS[i % LINE_COLOURS.length],
    symbol: SYMBOLS[(i + round) % SYMBOLS.length],
    dash: DASHES[round % DASHES.length],
  };
}

/** @param {LineStyle} look @param {number} rem */
const symbolPath = (look, rem) => d3.symbol(look.symbol, 0.27 * rem * rem)();

/**
 * The line's height at x, where it is straight on log axes; NaN where it does not reach.
 * @param {Mark[]} points @param {number} x
 */
function heightAt(points, x) {
  const i = points.findIndex((p) => p.x >= x);
  if (points[i]?.x === x) return points[i].y;
  if (i <= 0) return NaN;
  const [a, b] = [points[i - 1], points[i]];
  return Math.exp(Math.log(a.y) + Math.log(b.y / a.y) * (Math.log(x / a.x) / Math.log(b.x / a.x)));
}

/** The powers of ten in reach, with 2 and 5 between them where those are few. @param {number[]} reach */
function decades([low, high]) {
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const steps = Math.log10(high / low) < 2.5 ? [1, 2, 5] : [1];
  const ticks = d3.range(first, last + 1).flatMap((power) => steps.map((step) => step * 10 ** power));
  const inside = ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
  return inside.filter((_, i) => i % Math.ceil(inside.length / 8) === 0);
}

/** Measured positions, as many as have room. @param {ChartLine[]} lines @param {Axes['x']} x @param {number} room */
function positions(lines, x, room) {
  let last = -Infinity;
  const measured = d3.sort(new Set(lines.flatMap((line) => line.points.map((p) => p.x))));
  return measured.filter((at) => {
    const fits = x(at) - last >= room;
    if (fits) last = x(at);
    return fits;
  });
}

/** @param {ChartSpec} spec @param {Edges} box @returns {Axes} */
function chartScales(spec, box) {
  const all = spec.lines.flatMap((line) => line.points);
  const [low = 1, high = 1] = d3.extent(all, (p) => p.y);
  const [left = 1, right = 1] = d3.extent(all, (p) => p.x);
  const pad = Math.max(1.12, (high / low) ** 0.05);
  const room = spec.crossings.length ? Math.max(1.3, (high / low) ** 0.13) : pad; // for their labels
  const wide = left === right ? 2 : (right / left) ** 0.03;
  return {
    x: d3.scaleLog([left / wide, right * wide], [box.left, box.right]),
    y: d3.scaleLog(spec.isTime ? [low / room, high * pad] : [low / pad, high * room], [box.bottom, box.top]),
  };
}

/** @param {ChartSpec} spec @param {Edges} box @param {Axes} axes @param {Shell} shell */
function drawAxes(spec, box, {x, y}, {colours: {line, muted}, rem}) {
  /** @param {number} at @param {number} height @param {string} words @param {string} anchor */
  const label = (at, height, words, anchor) =>
    draw('text', {x: at, y: height, fill: muted, 'font-size': 0.78 * rem, 'text-anchor': anchor}, words);
  /** @param {number} x1 @param {number} y1 @param {number} x2 @param {number} y2 @param {string} stroke */
  const rule = (x1, y1, x2, y2, stroke) => draw('line', {stroke, x1, y1, x2, y2});
  return [
    ...decades(y.domain()).flatMap((tick) => [
      rule(box.left, y(tick), box.right, y(tick), line),
      label(box.left - 0.5 * rem, y(tick) + 0.27 * rem, spec.yFormat(tick), 'end'),
    ]),
    ...positions(spec.lines, x, 4 * rem).flatMap((tick) => [
      rule(x(tick), box.bottom, x(tick), box.bottom + 0.3 * rem, muted),
      label(x(tick), box.bottom + 1.3 * rem, spec.xFormat(tick), 'middle'),
    ]),
    rule(box.left, box.bottom, box.right, box.bottom, muted),
    label((box.left + box.right) / 2, box.bottom + 2.5 * rem, spec.xName, 'middle'),
  ];
}

/** @param {ChartLine} line @param {Axes} axes @param {Shell} shell */
function drawLine(line, {x, y}, {colours, rem}) {
  const look = lineStyle(line.line);
  const colour = colours[look.colour];
  const path = draw('path', {
    fill: 'none', stroke: colour, 'stroke-width': 0.14 * rem, 'stroke-linejoin': 'round',
    'stroke-dasharray': look.dash, d: d3.line()(line.points.map((p) => [x(p.x), y(p.y)])),
  });
  const dots = line.points.map((p) => draw('path.point', {
    'data-x': p.x, 'data-y': p.y, d: symbolPath(look, rem), transform: `translate(${x(p.x)},${y(p.y)})`,
    fill: colour, stroke: colours.surface, 'stroke-width': 0.07 * rem,
  }));
  return draw('g.report-line', {'data-line': line.name}, path, ...dots);
}

/**
 * Where the best changes: a ring on the lines, and the size beside it, away from the lines.
 * @param {ChartSpec} spec @param {Edges} box @param {Axes} axes @param {Shell} shell
 */
function drawCrossings(spec, box, {x, y}, {colours, rem}) {
  const side = spec.isTime ? 1 : -1;
  let last = -Infinity;
  return spec.crossings.filter((crossing) => crossing.isBest).map((mark) => {
    const [at, height] = [x(mark.x), y(mark.y)];
    const ink = {fill: 'transparent', stroke: colours.ink, 'stroke-width': 0.11 * rem};
    const group = draw('g.report-crossing', {'data-x': mark.x, 'data-before': mark.before, 'data-after': mark.after},
      draw('title', {}, mark.title), draw('circle', {cx: at, cy: height, r: 0.5 * rem, ...ink}));
    if (at - last < 4 * rem) return group;
    last = at;
    const away = Math.min(Math.max(height + side * 2.2 * rem, box.top + rem), box.bottom - 0.4 * rem);
    const ends = {y1: height + side * 0.5 * rem, y2: away - (side > 0 ? 0.8 * rem : -0.3 * rem)};
    group.append(draw('line', {stroke: colours.muted, x1: at, x2: at, ...ends}),
      draw('text', {
        x: at, y: away, 'text-anchor': 'middle', 'font-size': 0.8 * rem, 'font-weight': 600, fill: colours.ink,
        stroke: colours.surface, 'stroke-width': 0.25 * rem, 'paint-order': 'stroke',
      }, mark.label));
    return group;
  });
}

/**
 * The other crossings of the line that is pointed at: small rings, with the size where there is room.
 * @param {ChartCrossing[]} crossings @param {Axes} axes @param {Shell} shell
 */
function drawSmallCrossings(crossings, {x, y}, {colours}) {
  let last = -Infinity;
  return crossings.map((mark) => {
    const ring = {cx: x(mark.x), cy: y(mark.y), r: 4, fill: colours.surface, stroke: colours.ink, 'stroke-width': 1.4};
    const group = draw('g.guide', {}, draw('circle', ring));
    if (x(mark.x) - last < 50) return group;
    last = x(mark.x);
    group.append(draw('text', {
      x: last, y: y(mark.y) - 9, 'text-anchor': 'middle', 'font-size': 11, fill: colours.ink,
      stroke: colours.surface, 'stroke-width': 3, 'paint-order': 'stroke',
    }, mark.label));
    return group;
  });
}

/**
 * Draws into `g`. Returns what a pointer needs: the edges, the scales where there is something, the points in pixels.
 * @param {SVGElement} g @param {ChartSpec} spec @param {{width: number, height: number}} size @param {Shell} shell
 */
function drawChart(g, spec, {width, height}, shell) {
  const {colours, rem} = shell;
  g.append(
    draw('rect', {width, height, rx: 0.6 * rem, fill: colours.surface, stroke: colours.line}),
    draw('text', {
      x: 1.2 * rem, y: 1.7 * rem, fill: colours.ink, 'font-weight': 600, 'font-size': 0.95 * rem,
    }, spec.title),
  );
  const box = {
    left: CHART_MARGIN.left * rem, right: width - CHART_MARGIN.right * rem,
    top: CHART_MARGIN.top * rem, bottom: height - CHART_MARGIN.bottom * rem,
  };
  if (!spec.lines.length) {
    const middle = {x: width / 2, y: height / 2, 'text-anchor': 'middle'};
    g.append(draw('text', {...middle, fill: colours.muted, 'font-size': 0.9 * rem}, spec.empty));
    return {box, marks: /** @type {Mark[]} */ ([]), axes: null};
  }
  const axes = chartScales(spec, box);
  const lines = draw('g.report-lines', {}, ...spec.lines.map((line) => drawLine(line, axes, shell)));
  g.append(...drawAxes(spec, box, axes, shell), lines, ...drawCrossings(spec, box, axes, shell));
  const all = spec.lines.flatMap((line) => line.points);
  return {box, marks: all.map((p) => ({...p, x: axes.x(p.x), y: axes.y(p.y)})), axes};
}
