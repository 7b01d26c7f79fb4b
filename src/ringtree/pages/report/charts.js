'use strict';

// The charts, two for each axis: time and bus bandwidth, over sizes and over ranks; and the tip at the mouse.
class ReportCharts {
  static REACH = 48; // pixels from a point within which it is meant
  static MOST_IN_TIP = 14;

  svg = draw('svg', {});
  tip = make('div.tip.report-tip');
  element = make('div.report-charts', {}, this.svg, this.tip);
  /** @type {({spec: ChartSpec, g: SVGElement, offset: [x: number, y: number]} & ReturnType<typeof drawChart>)[]} */
  panels = [];

  /** @param {ReportData} data @param {ReportChoice} choice @param {Shell} shell */
  constructor(data, choice, shell) {
    this.data = data;
    this.choice = choice;
    this.shell = shell;
    this.crossings = reportCrossings(data, shell);
    this.svg.onpointermove = (event) => this.#hover(event);
    this.svg.onpointerleave = () => this.#hover(null);
  }

  /** @param {number} width */
  draw(width) {
    const {rem, font} = this.shell;
    const specs = this.choice.axes().flatMap((axis) => [this.#spec(axis, true), this.#spec(axis, false)]);
    const rows = specs.length / 2;
    const room = (innerHeight - this.element.offsetTop - rem) / rows - rem; // all in one window, if it is large enough
    const size = {width: (width - rem) / 2, height: Math.max(19 * rem, Math.min(room, 34 * rem))};
    this.tip.hidden = true;
    this.panels = specs.map((spec, i) => {
      /** @type {[x: number, y: number]} */
      const offset = [(i % 2) * (size.width + rem), Math.floor(i / 2) * (size.height + rem)];
      const name = `${spec.isTime ? 'time' : 'busbw'}-${spec.axis === 0 ? 'size' : 'ranks'}`;
      const g = draw('g.report-chart', {transform: `translate(${offset})`, 'data-chart': name});
      return {spec, g, offset, ...drawChart(g, spec, size, this.shell)};
    });
    this.svg.replaceChildren(...this.panels.map(({g}) => g));
    d3.select(this.svg).attr('width', width).attr('height', rows * (size.height + rem) - rem).attr('font-family', font);
  }

  /**
   * What one chart shows: over sizes at the chosen number of ranks, or over ranks at the chosen size.
   * @param {number} axis @param {boolean} isTime @returns {ChartSpec}
   */
  #spec(axis, isTime) {
    const {t, number} = this.shell;
    const {ranks, nbytes} = this.choice;
    const lines = this.#lines(axis, isTime);
    /** @param {number} n */
    const whole = (n) => number(Math.ceil(n)); // there are no 2.1 ranks
    const format = axis === 0 ? figures.bytes : whole;
    const where = axis === 0 ? t('report.n_ranks', {ranks}) : figures.bytes(nbytes);
    return {
      lines, axis, isTime,
      title: `${t(isTime ? 'report.time' : 'report.bandwidth')} · ${where}`,
      xName: t(axis === 0 ? 'report.bytes' : 'report.ranks'), xFormat: (x) => format(x),
      yFormat: (y) => (isTime ? figures.time(y / 1e6) : figures.rate(y * 1e9)),
      empty: t('report.nothing'),
      crossings: this.#crossings(lines, axis, isTime, format),
    };
  }

  /** @param {number} axis @param {boolean} isTime @returns {ChartLine[]} */
  #lines(axis, isTime) {
    const {choice} = this;
    /** @type {('nbytes' | 'ranks')[]} */
    const [x, fixed] = axis === 0 ? ['nbytes', 'ranks'] : ['ranks', 'nbytes'];
    const usable = choice.shown().flatMap((point) => {
      const y = isTime ? point.times[choice.statistic] : point.busbw(choice.statistic);
      return point[fixed] === choice[fixed] && point[x] > 0 && y > 0 ? [{x: point[x], y, point}] : [];
    });
    return d3.groups(usable, ({point}) => point.line).map(([line, own]) => {
      const kept = new Map(own.map((p) => [p.x, p])); // of two rows the later
      return {line, name: this.data.lines[line], points: d3.sort(kept.values(), (p) => p.x)};
    });
  }

  /**
   * Where lines that are shown cross, and whether the best of them changes there.
   * @param {ChartLine[]} lines @param {number} axis @param {boolean} isTime @param {(x: number) => string} format
   * @returns {ChartCrossing[]}
   */
  #crossings(lines, axis, isTime, format) {
    const {choice, data, shell} = this;
    const at = choice[axis === 0 ? 'ranks' : 'nbytes'];
    return this.crossings.flatMap((c) => {
      const isHere = c.what === choice.what && c.statistic === choice.statistic && c.axis === axis && c.at === at;
      const below = lines.find(({line}) => line === c.below);
      if (!isHere || !below || !lines.some(({line}) => line === c.above)) return [];
      const heights = lines.map((line) => heightAt(line.points, c.x)).filter((height) => !Number.isNaN(height));
      const y = heightAt(below.points, c.x);
      const isBest = Math.abs(y / (isTime ? Math.min : Math.max)(...heights) - 1) < 1e-6;
      const [before, after, size] = [data.lines[c.below], data.lines[c.above], format(c.x)];
      const title = shell.t('report.crossing', {size, before, after});
      return [{...c, y, isBest, before, after, label: axis === 0 ? size : `≥ ${size}`, title}];
    });
  }

  /**
   * Brings out a line in every chart, with its crossings; of a point also the position. null: none.
   * @param {number | null} line
   */
  highlight(line, index = -1) {
    for (const {g, spec, axes, marks, box} of this.panels) {
      const drawn = d3.select(g);
      drawn.selectAll('.report-line').classed('faded', (_, i) => line !== null && spec.lines[i].line !== line);
      drawn.selectAll('.guide').remove();
      if (!axes || line === null) continue;
      const own = spec.crossings.filter((c) => !c.isBest && [c.below, c.above].includes(line));
      g.append(...drawSmallCrossings(own, axes, this.shell));
      const mark = marks.find(({point}) => point.index === index);
      if (!mark) continue;
      const stroke = this.shell.colours['line-strong'];
      const guide = draw('line.guide', {stroke, x1: mark.x, x2: mark.x, y1: box.top, y2: box.bottom});
      elements.find('.report-lines', g).before(guide);
    }
  }

  /** @param {PointerEvent | null} event */
  #hover(event) {
    const [x, y] = event ? d3.pointer(event, this.svg) : [NaN, NaN];
    const near = this.panels.flatMap(({offset: [left, top], marks, spec}) =>
      marks.map((mark) => ({point: mark.point, spec, away: Math.hypot(mark.x + left - x, mark.y + top - y)})),
    );
    const found = d3.least(near, ({away}) => away);
    const isNear = found !== undefined && found.away < ReportCharts.REACH;
    this.tip.hidden = !isNear;
    this.highlight(isNear ? found.point.line : null, isNear ? found.point.index : -1);
    if (isNear) this.#drawTip(found.point, found.spec, x, y);
  }

  /** @param {ReportPoint} point @param {ChartSpec} spec @param {number} x @param {number} y */
  #drawTip(point, spec, x, y) {
    const {tip, element, choice: {statistic}} = this;
    const name = spec.axis === 0 ? 'nbytes' : 'ranks';
    const all = spec.lines.flatMap((line) => line.points.map((p) => p.point));
    const same = d3.sort(all.filter((p) => p[name] === point[name]), (p) => p.times[statistic]);
    const shown = same.slice(0, ReportCharts.MOST_IN_TIP);
    tip.replaceChildren(...reportTip(point, shown, this.data.lines, statistic, this.shell));
    const left = x + 20 + tip.offsetWidth > element.clientWidth ? x - 20 - tip.offsetWidth : x + 20;
    tip.style.left = `${Math.max(0, left)}px`;
    tip.style.top = `${Math.max(0, y - tip.offsetHeight / 2)}px`;
  }
}
