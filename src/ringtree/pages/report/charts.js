'use strict';

// The charts, two for each axis: time and bus bandwidth, over sizes and over ranks; and what is said where one points.
class ReportCharts {
  static REACH = 48; // pixels from a point within which it is meant
  static MOST_IN_TIP = 14;

  constructor(element, data, choice, shell) {
    Object.assign(this, {data, choice, shell});
    this.crossings = reportCrossings(data, shell);
    this.element = reportPart(element, 'div', 'report-charts');
    this.svg = d3.select(this.element).append('svg');
    this.tip = reportPart(this.element, 'div', 'report-tip');
    this.panels = [];
    this.svg.on('pointermove', (event) => this.#hover(event)).on('pointerleave', () => this.#hover(null));
  }

  draw(width) {
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    const specs = this.choice.axes().flatMap((axis) => [this.#spec(axis, true), this.#spec(axis, false)]);
    const rows = specs.length / 2;
    const room = (innerHeight - this.element.offsetTop - rem) / rows - rem; // all in one window, if it is large enough
    const size = {width: (width - rem) / 2, height: Math.max(19 * rem, Math.min(room, 34 * rem))};
    this.tip.hidden = true;
    this.svg.selectChildren().remove();
    this.svg.attr('width', width).attr('height', rows * (size.height + rem) - rem)
      .attr('font-family', getComputedStyle(document.body).fontFamily);
    this.panels = specs.map((spec, i) => {
      const offset = [(i % 2) * (size.width + rem), Math.floor(i / 2) * (size.height + rem)];
      const g = this.svg.append('g').attr('class', 'report-chart').attr('transform', `translate(${offset})`)
        .attr('data-chart', `${spec.isTime ? 'time' : 'busbw'}-${spec.axis === 0 ? 'size' : 'ranks'}`);
      return {spec, g, offset, ...drawChart(g, spec, size, this.shell, rem)};
    });
  }

  // What one chart shows: over sizes (axis 0) at the chosen number of ranks, or over ranks at the chosen size.
  #spec(axis, isTime) {
    const {t, number} = this.shell;
    const at = this.choice[axis === 0 ? 'ranks' : 'nbytes'];
    const lines = this.#lines(axis, at, isTime);
    const format = axis === 0 ? sizeText : (n) => number(Math.ceil(n)); // there are no 2.1 ranks
    return {
      lines, axis, isTime,
      title: `${t(isTime ? 'report.time' : 'report.bandwidth')} · ${axis === 0 ? t('report.n_ranks', {ranks: at}) : sizeText(at)}`,
      xName: t(axis === 0 ? 'report.bytes' : 'report.ranks'), xFormat: format,
      yFormat: isTime ? timeText : bandwidthText,
      empty: t('report.nothing'),
      crossings: this.#crossings(lines, axis, at, isTime, format),
    };
  }

  #lines(axis, at, isTime) {
    const [x, fixed] = axis === 0 ? ['nbytes', 'ranks'] : ['ranks', 'nbytes'];
    const {statistic} = this.choice;
    const y = (p) => (isTime ? p.times[statistic] : p.busbw(statistic));
    const usable = this.choice.shown().filter((p) => p[fixed] === at && p[x] > 0 && y(p) > 0);
    return d3.groups(usable, (p) => p.line).map(([line, own]) => {
      const places = new Map(own.map((p) => [p[x], {x: p[x], y: y(p), point: p}])); // of two rows the later
      return {line, name: this.data.lines[line], points: [...places.values()].sort((a, b) => a.x - b.x)};
    });
  }

  // Where lines that are shown cross, and whether the best of them changes there.
  #crossings(lines, axis, at, isTime, format) {
    const {choice, data, shell} = this;
    const byLine = new Map(lines.map((line) => [line.line, line]));
    const best = (heights) => (isTime ? Math.min : Math.max)(...heights.filter((h) => !Number.isNaN(h)));
    const isHere = (c) => c.what === choice.what && c.statistic === choice.statistic && c.axis === axis && c.at === at;
    return this.crossings.filter((c) => isHere(c) && byLine.has(c.below) && byLine.has(c.above)).map((c) => {
      const [before, after, size] = [data.lines[c.below], data.lines[c.above], format(c.x)];
      const y = heightAt(byLine.get(c.below).points, c.x);
      const isBest = Math.abs(y / best(lines.map((line) => heightAt(line.points, c.x))) - 1) < 1e-6;
      const label = axis === 0 ? size : `≥ ${size}`;
      return {...c, y, isBest, before, after, label, title: shell.t('report.crossing', {size, before, after})};
    });
  }

  // Brings out a line in every chart, with its crossings; of a point also the place. null: none.
  highlight(line, index = -1) {
    for (const {g, spec, axis, places, box} of this.panels) {
      g.selectAll('.report-line').classed('faded', (_, i) => line !== null && spec.lines[i].line !== line);
      g.selectAll('.guide').remove();
      const own = spec.crossings.filter((c) => !c.isBest && [c.below, c.above].includes(line));
      drawSmallCrossings(g, own, axis, this.shell);
      const place = places.find((one) => one.point.index === index);
      if (!place) continue;
      g.insert('line', '.report-lines').attr('class', 'guide').attr('stroke', this.shell.colours['line-strong'])
        .attr('x1', place.x).attr('x2', place.x).attr('y1', box.top).attr('y2', box.bottom);
    }
  }

  #nearest([x, y]) {
    let found = {distance: ReportCharts.REACH};
    for (const {offset, places, spec} of this.panels) {
      for (const place of places) {
        const distance = Math.hypot(place.x + offset[0] - x, place.y + offset[1] - y);
        if (distance < found.distance) found = {distance, spec, point: place.point};
      }
    }
    return found.point ? found : null;
  }

  #hover(event) {
    const at = event && d3.pointer(event, this.svg.node());
    const found = at && this.#nearest(at);
    this.tip.hidden = !found;
    this.highlight(found ? found.point.line : null, found ? found.point.index : -1);
    if (found) this.#drawTip(found, at);
  }

  #drawTip({point, spec}, [x, y]) {
    const {tip, element, choice} = this;
    const name = spec.axis === 0 ? 'nbytes' : 'ranks';
    const same = spec.lines.flatMap((line) => line.points.map((p) => p.point)).filter((p) => p[name] === point[name]);
    same.sort((a, b) => a.times[choice.statistic] - b.times[choice.statistic]);
    tip.replaceChildren(...reportTip(point, same.slice(0, ReportCharts.MOST_IN_TIP), this.data.lines, choice.statistic, this.shell));
    const left = x + 20 + tip.offsetWidth > element.clientWidth ? x - 20 - tip.offsetWidth : x + 20;
    tip.style.left = `${Math.max(0, left)}px`;
    tip.style.top = `${Math.max(0, y - tip.offsetHeight / 2)}px`;
  }
}
