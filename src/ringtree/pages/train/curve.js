'use strict';

// The loss over the steps, drawn with plain attributes, so that a copy of it is a picture that stands alone.
const {make, draw, table, refill, standalone, roomIn} = elements;

/** @typedef {TrainStep & {loss: number}} FiniteStep */
/** @param {TrainStep['loss']} loss */
const lossWords = (loss) => (typeof loss === 'number' ? loss.toFixed(4) : loss);

class TrainCurve {
  static MARGIN = {top: 1.4, right: 1.2, bottom: 2.8, left: 4}; // in rem

  svg = draw('svg.train-curve', {role: 'img', tabindex: 0});
  note = make('p.train-note', {ariaLive: 'polite'});
  mark = draw('circle.guide', {});
  /** @type {FiniteStep | undefined} */
  shown;
  x = d3.scaleLinear();
  y = d3.scaleLinear();

  /** @param {FiniteStep[]} steps @param {Shell} shell */
  constructor(steps, shell) {
    this.steps = steps;
    this.shell = shell;
    this.svg.onpointermove = (event) => {
      const at = this.x.invert(d3.pointer(event)[0]);
      this.point(d3.least(steps, (step) => Math.abs(step.step - at)));
    };
    this.svg.onpointerleave = () => this.point();
    this.svg.onblur = () => this.point();
    this.svg.onkeydown = (event) => this.#move(event);
  }

  /** @param {number} width */
  draw(width) {
    const {svg, steps, x, y, shell: {rem, font, colours, t}} = this;
    const {top, right, bottom, left} = TrainCurve.MARGIN;
    const height = 17 * rem;
    const box = {left: left * rem, right: width - right * rem, top: top * rem, bottom: height - bottom * rem};
    const [first = 0, last = 1] = d3.extent(steps, (step) => step.step);
    const [low = 0, high = 1] = d3.extent(steps, (step) => step.loss);
    x.domain([first, last]).range([box.left, box.right]);
    y.domain([low, high]).range([box.bottom, box.top]).nice(5);
    const line = draw('path.line', {
      fill: 'none', stroke: colours.blue, 'stroke-width': 0.13 * rem, 'stroke-linejoin': 'round',
      d: d3.line()(steps.map((step) => [x(step.step), y(step.loss)])),
    });
    const dots = steps.length > 60 ? [] : steps.map((step) =>
      draw('circle.step', {fill: colours.blue, cx: x(step.step), cy: y(step.loss), r: 0.16 * rem}));
    this.mark = draw('circle.guide', {r: 0.35 * rem, fill: 'none', stroke: colours.ink, 'stroke-width': 0.1 * rem});
    svg.replaceChildren(...this.#axes(box), line, ...dots, this.mark);
    d3.select(svg).attr('width', width).attr('height', height).attr('font-family', font);
    svg.ariaLabel = t('train.curve');
    this.point(this.shown);
  }

  /** @param {{left: number, right: number, bottom: number}} box */
  #axes({left, right, bottom}) {
    const {x, y, shell: {rem, colours, number, t}} = this;
    /** @param {number} at @param {number} height @param {string} words @param {string} anchor */
    const label = (at, height, words, anchor) =>
      draw('text', {x: at, y: height, fill: colours.muted, 'font-size': 0.78 * rem, 'text-anchor': anchor}, words);
    return [
      ...y.ticks(5).flatMap((tick) => [
        draw('line', {stroke: colours.line, x1: left, x2: right, y1: y(tick), y2: y(tick)}),
        label(left - 0.5 * rem, y(tick) + 0.27 * rem, String(tick), 'end'),
      ]),
      ...x.ticks(8).filter(Number.isInteger).map((tick) => label(x(tick), bottom + 1.3 * rem, number(tick), 'middle')),
      label((left + right) / 2, bottom + 2.5 * rem, t('train.step'), 'middle'),
    ];
  }

  /** @param {KeyboardEvent} event */
  #move(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const {steps, shown} = this;
    const [at, last] = [shown ? steps.indexOf(shown) : -1, steps.length - 1];
    const to = {ArrowLeft: shown ? at - 1 : last, ArrowRight: at + 1, Home: 0, End: last}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    this.point(steps[Math.max(0, Math.min(last, to))]);
  }

  /** Shows a step's figures; without a step, how to choose one. @param {FiniteStep} [step] */
  point(step) {
    this.shown = step;
    const {mark, note, shell: {t}} = this;
    d3.select(mark).attr('visibility', step ? 'visible' : 'hidden');
    if (step) d3.select(mark).attr('cx', this.x(step.step)).attr('cy', this.y(step.loss)).attr('data-step', step.step);
    note.textContent = step ? t('train.at_step', {
      step: step.step, loss: lossWords(step.loss), time: figures.time(step.seconds),
      bytes: figures.bytes(step.received_nbytes),
    }) : t('train.point');
  }
}
