'use strict';

// The loss over the steps, drawn with plain attributes, so that a copy of it is a picture that stands alone.
class TrainCurve {
  static MARGIN = {top: 1.4, right: 1.2, bottom: 2.8, left: 4}; // in rem

  constructor(element, data, shell) {
    Object.assign(this, {shell});
    this.steps = data.steps.filter((step) => typeof step.loss === 'number'); // infinity is a text
    this.svg = d3.select(element).append('svg').attr('class', 'train-curve').attr('role', 'img');
    this.said = ringtree.make('p.train-said', {ariaLive: 'polite'});
    element.append(this.said);
    this.svg.on('pointermove', (event) => this.#point(event)).on('pointerleave', () => this.point(null));
  }

  draw(width) {
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    const {svg, steps, shell} = this;
    const {top, right, bottom, left} = TrainCurve.MARGIN;
    const height = 17 * rem;
    const box = {left: left * rem, right: width - right * rem, top: top * rem, bottom: height - bottom * rem};
    svg.attr('width', width).attr('height', height).attr('aria-label', shell.t('train.curve'))
      .attr('font-family', getComputedStyle(document.body).fontFamily).selectAll('*').remove();
    this.x = d3.scaleLinear(d3.extent(steps, (step) => step.step), [box.left, box.right]);
    this.y = d3.scaleLinear(d3.extent(steps, (step) => step.loss), [box.bottom, box.top]).nice(5);
    this.#axes(box, rem);
    svg.append('path').attr('class', 'line').attr('fill', 'none').attr('stroke', shell.colours.blue)
      .attr('stroke-width', 0.13 * rem).attr('stroke-linejoin', 'round')
      .attr('d', d3.line((step) => this.x(step.step), (step) => this.y(step.loss))(steps));
    if (steps.length <= 60) {
      svg.selectAll('circle.step').data(steps).join('circle').attr('class', 'step').attr('fill', shell.colours.blue)
        .attr('cx', (step) => this.x(step.step)).attr('cy', (step) => this.y(step.loss)).attr('r', 0.16 * rem);
    }
    this.mark = svg.append('circle').attr('class', 'guide').attr('r', 0.35 * rem).attr('fill', 'none')
      .attr('stroke', shell.colours.ink).attr('stroke-width', 0.1 * rem);
    this.point(null);
  }

  #axes(box, rem) {
    const {line, muted} = this.shell.colours;
    const label = (x, y, words, anchor) => this.svg.append('text').attr('x', x).attr('y', y).text(words)
      .attr('fill', muted).attr('font-size', 0.78 * rem).attr('text-anchor', anchor);
    for (const tick of this.y.ticks(5)) {
      this.svg.append('line').attr('stroke', line).attr('x1', box.left).attr('x2', box.right)
        .attr('y1', this.y(tick)).attr('y2', this.y(tick));
      label(box.left - 0.5 * rem, this.y(tick) + 0.27 * rem, String(tick), 'end');
    }
    for (const tick of this.x.ticks(8).filter(Number.isInteger)) {
      label(this.x(tick), box.bottom + 1.3 * rem, this.shell.number(tick), 'middle');
    }
    label((box.left + box.right) / 2, box.bottom + 2.5 * rem, this.shell.t('train.step'), 'middle');
  }

  #point(event) {
    const at = this.x.invert(d3.pointer(event)[0]);
    this.point(d3.least(this.steps, (step) => Math.abs(step.step - at)) || null);
  }

  // Says what a step came to; null: none.
  point(step) {
    this.mark.attr('visibility', step ? 'visible' : 'hidden');
    if (step) this.mark.attr('cx', this.x(step.step)).attr('cy', this.y(step.loss)).attr('data-step', step.step);
    const {t} = this.shell;
    this.said.textContent = step ? t('train.at_step', {
      step: step.step, loss: trainUnits.loss(step.loss), time: trainUnits.time(step.seconds),
      bytes: trainUnits.size(step.received_nbytes),
    }) : t('train.point');
  }

  // A copy that stands alone.
  picture() {
    const copy = d3.select(this.svg.node().cloneNode(true));
    copy.selectAll('.guide').remove();
    copy.insert('rect', ':first-child').attr('width', '100%').attr('height', '100%').attr('fill', this.shell.colours.page);
    return copy.node();
  }
}
