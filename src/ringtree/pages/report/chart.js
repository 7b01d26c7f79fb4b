'use strict';

// A chart of lines on log axes, drawn with plain attributes, so that a copy of it is a picture that stands alone.
const CHART_MARGIN = {top: 3.2, right: 1.2, bottom: 3, left: 4.6}; // in rem
const LINE_COLOURS = ['blue', 'vermillion', 'green', 'orange', 'purple', 'sky', 'muted'];
const SYMBOLS = [
  d3.symbolCircle, d3.symbolSquare, d3.symbolTriangle, d3.symbolDiamond, d3.symbolStar, d3.symbolCross, d3.symbolWye,
];
const DASHES = [null, '7 3', '2 3', '9 3 2 3'];

// How the i-th line looks: colour, symbol and dashes tell them apart together, none of them alone has to.
function lineStyle(i) {
  const round = Math.floor(i / LINE_COLOURS.length);
  return {
    colour: LINE_COLOURS[i % LINE_COLOURS.length],
    symbol: SYMBOLS[(i + round) % SYMBOLS.length],
    dash: DASHES[round % DASHES.length],
  };
}

const symbolPath = (look, rem) => d3.symbol(look.symbol, 0.27 * rem * rem)();

// 1.41 KiB: three figures, in the largest unit that leaves at least 1.
function scaled(value, base, units) {
  let power = 0;
  while (Math.abs(value) >= base && power < units.length - 1) {
    value /= base;
    power++;
  }
  const figures = value >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
  return `${figures} ${units[power]}`;
}

const sizeText = (nbytes) => scaled(nbytes, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB']);
const timeText = (us) => (us < 1 ? `${Number((us * 1000).toPrecision(3))} ns` : scaled(us, 1000, ['µs', 'ms', 's']));
const bandwidthText = (GBps) => scaled(GBps * 1e6, 1000, ['kB/s', 'MB/s', 'GB/s', 'TB/s']);

// The line's height at x, where it is straight on log axes; NaN where it does not reach.
function heightAt(points, x) {
  const i = d3.bisector((p) => p.x).left(points, x);
  if (i < points.length && points[i].x === x) return points[i].y;
  if (i === 0 || i === points.length) return NaN;
  const [a, b] = [points[i - 1], points[i]];
  return Math.exp(Math.log(a.y) + Math.log(b.y / a.y) * (Math.log(x / a.x) / Math.log(b.x / a.x)));
}

// The powers of ten in reach, with 2 and 5 between them where those are few.
function decades([low, high]) {
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const steps = Math.log10(high / low) < 2.5 ? [1, 2, 5] : [1];
  const ticks = d3.range(first, last + 1).flatMap((power) => steps.map((step) => step * 10 ** power));
  const inside = ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
  return inside.filter((_, i) => i % Math.ceil(inside.length / 8) === 0);
}

// The measured places, as many as have room.
function places(lines, x, room) {
  const kept = [];
  for (const at of [...new Set(lines.flatMap((line) => line.points.map((p) => p.x)))].sort(d3.ascending)) {
    if (!kept.length || x(at) - x(kept.at(-1)) >= room) kept.push(at);
  }
  return kept;
}

function chartScales(spec, box) {
  const all = spec.lines.flatMap((line) => line.points);
  const [low, high] = d3.extent(all, (p) => p.y);
  const pad = Math.max(1.12, (high / low) ** 0.05);
  const room = spec.crossings.length ? Math.max(1.3, (high / low) ** 0.13) : pad; // for what they say
  const [left, right] = d3.extent(all, (p) => p.x);
  const wide = left === right ? 2 : (right / left) ** 0.03;
  return {
    x: d3.scaleLog([left / wide, right * wide], [box.left, box.right]),
    y: d3.scaleLog(spec.isTime ? [low / room, high * pad] : [low / pad, high * room], [box.bottom, box.top]),
  };
}

function drawAxes(g, spec, box, {x, y}, shell, rem) {
  const {line, muted} = shell.colours;
  const label = (at, text, anchor) => g.append('text').attr('x', at[0]).attr('y', at[1]).text(text)
    .attr('fill', muted).attr('font-size', 0.78 * rem).attr('text-anchor', anchor);
  const rule = (x1, y1, x2, y2, colour) => g.append('line').attr('stroke', colour)
    .attr('x1', x1).attr('y1', y1).attr('x2', x2).attr('y2', y2);
  for (const tick of decades(y.domain())) {
    rule(box.left, y(tick), box.right, y(tick), line);
    label([box.left - 0.5 * rem, y(tick) + 0.27 * rem], spec.yFormat(tick), 'end');
  }
  for (const tick of places(spec.lines, x, 4 * rem)) {
    rule(x(tick), box.bottom, x(tick), box.bottom + 0.3 * rem, muted);
    label([x(tick), box.bottom + 1.3 * rem], spec.xFormat(tick), 'middle');
  }
  rule(box.left, box.bottom, box.right, box.bottom, muted);
  label([(box.left + box.right) / 2, box.bottom + 2.5 * rem], spec.xName, 'middle');
}

function drawLine(g, line, {x, y}, shell, rem) {
  const look = lineStyle(line.line);
  const colour = shell.colours[look.colour];
  const group = g.append('g').attr('class', 'report-line').attr('data-line', line.name);
  group.append('path').attr('fill', 'none').attr('stroke', colour).attr('stroke-width', 0.14 * rem)
    .attr('stroke-linejoin', 'round').attr('stroke-dasharray', look.dash)
    .attr('d', d3.line((p) => x(p.x), (p) => y(p.y))(line.points));
  group.selectAll('path.point').data(line.points).join('path').attr('class', 'point')
    .attr('data-x', (p) => p.x).attr('data-y', (p) => p.y).attr('d', symbolPath(look, rem))
    .attr('transform', (p) => `translate(${x(p.x)},${y(p.y)})`)
    .attr('fill', colour).attr('stroke', shell.colours.surface).attr('stroke-width', 0.07 * rem);
}

// Where the best changes: a ring on the lines, and the size beside it, away from the lines.
function drawCrossings(g, spec, box, {x, y}, shell, rem) {
  const side = spec.isTime ? 1 : -1;
  let last = -Infinity;
  for (const mark of spec.crossings.filter((crossing) => crossing.isBest)) {
    const [at, height] = [x(mark.x), y(mark.y)];
    const group = g.append('g').attr('class', 'report-crossing').attr('data-x', mark.x)
      .attr('data-before', mark.before).attr('data-after', mark.after);
    group.append('title').text(mark.title);
    group.append('circle').attr('cx', at).attr('cy', height).attr('r', 0.5 * rem)
      .attr('fill', 'transparent').attr('stroke', shell.colours.ink).attr('stroke-width', 0.11 * rem);
    if (at - last < 4 * rem) continue;
    last = at;
    const away = Math.min(Math.max(height + side * 2.2 * rem, box.top + rem), box.bottom - 0.4 * rem);
    group.append('line').attr('stroke', shell.colours.muted).attr('x1', at).attr('x2', at)
      .attr('y1', height + side * 0.5 * rem).attr('y2', away - (side > 0 ? 0.8 * rem : -0.3 * rem));
    group.append('text').attr('x', at).attr('y', away).attr('text-anchor', 'middle').text(mark.label)
      .attr('font-size', 0.8 * rem).attr('font-weight', 600).attr('fill', shell.colours.ink)
      .attr('stroke', shell.colours.surface).attr('stroke-width', 0.25 * rem).attr('paint-order', 'stroke');
  }
}

// The other crossings of the line that is pointed at: small rings, with the size where there is room.
function drawSmallCrossings(g, crossings, {x, y}, shell) {
  let last = -Infinity;
  for (const mark of crossings) {
    const group = g.append('g').attr('class', 'guide');
    group.append('circle').attr('cx', x(mark.x)).attr('cy', y(mark.y)).attr('r', 4)
      .attr('fill', shell.colours.surface).attr('stroke', shell.colours.ink).attr('stroke-width', 1.4);
    if (x(mark.x) - last < 50) continue;
    last = x(mark.x);
    group.append('text').attr('x', last).attr('y', y(mark.y) - 9).attr('text-anchor', 'middle').text(mark.label)
      .attr('font-size', 11).attr('fill', shell.colours.ink)
      .attr('stroke', shell.colours.surface).attr('stroke-width', 3).attr('paint-order', 'stroke');
  }
}

// Draws into `g` within width x height. Returns what a pointer needs: the box, the scales, the points in pixels.
function drawChart(g, spec, {width, height}, shell, rem) {
  g.append('rect').attr('width', width).attr('height', height).attr('rx', 0.6 * rem)
    .attr('fill', shell.colours.surface).attr('stroke', shell.colours.line);
  g.append('text').attr('x', 1.2 * rem).attr('y', 1.7 * rem).text(spec.title)
    .attr('fill', shell.colours.ink).attr('font-weight', 600).attr('font-size', 0.95 * rem);
  const box = {
    left: CHART_MARGIN.left * rem, right: width - CHART_MARGIN.right * rem,
    top: CHART_MARGIN.top * rem, bottom: height - CHART_MARGIN.bottom * rem,
  };
  if (!spec.lines.length) {
    g.append('text').attr('x', width / 2).attr('y', height / 2).attr('text-anchor', 'middle')
      .attr('fill', shell.colours.muted).attr('font-size', 0.9 * rem).text(spec.empty);
    return {box, places: [], axis: null};
  }
  const axis = chartScales(spec, box);
  drawAxes(g, spec, box, axis, shell, rem);
  const drawn = g.append('g').attr('class', 'report-lines');
  for (const line of spec.lines) drawLine(drawn, line, axis, shell, rem);
  drawCrossings(g, spec, box, axis, shell, rem);
  const pixels = spec.lines.flatMap((line) => line.points.map((p) => ({x: axis.x(p.x), y: axis.y(p.y), point: p.point})));
  return {box, places: pixels, axis};
}
