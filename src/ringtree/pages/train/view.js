'use strict';

// A run of training: its result, the loss, a step's time and bytes, and the groups of ranks.
class TrainView {
  facts = make('div.train-facts');
  drawn = make('img.train-picture');
  strategies = make('p.train-note');
  time = this.section('train.time');
  bytes = this.section('train.bytes');
  keys = {ArrowLeft: () => this.mesh.step(-1), ArrowRight: () => this.mesh.step(1)};
  help = [['← →', 'train.key_axis'], ['← → Home End', 'train.key_step']];
  notes = ['train.note_time', 'train.note_bytes'];

  /** @param {HTMLElement} element @param {TrainData} data @param {Shell} shell */
  constructor(element, data, shell) {
    this.element = element;
    this.data = data;
    this.shell = shell;
    this.mesh = new TrainMesh(data, shell);
    const finite = /** @type {FiniteStep[]} */ (data.steps.filter((step) => typeof step.loss === 'number'));
    const curve = finite.length > 1 ? new TrainCurve(finite, shell) : null;
    this.curve = curve;
    this.svg = curve ? () => standalone(curve.svg, shell) : undefined;
    this.drawn.src = `data:image/svg+xml,${encodeURIComponent(data.picture)}`;
    const loss = curve ? [this.section('train.loss', curve.svg, curve.note)] : [];
    const calls = data.picture ? [this.section('train.calls', this.drawn)] : [];
    const plan = this.section('train.plan', this.strategies, this.mesh.buttons, this.mesh.tables);
    element.append(this.facts, ...loss, this.time, this.bytes, ...calls, plan);
  }

  /** @param {string} title @param {Element[]} children */
  section(title, ...children) {
    return make('section.train-part', {data: {part: title.split('.')[1]}}, make('h2', {data: {t: title}}), ...children);
  }

  /** @param {string} name @param {string} value */
  fact(name, value, more = '') {
    return make('div.train-fact', {data: {fact: name.split('.')[1]}},
      make('b', {}, value), make('span', {}, this.shell.t(name)), make('small', {}, more));
  }

  redraw() {
    const {element, data, shell} = this;
    const {t, number} = shell;
    const {bytes, time} = figures;
    Object.assign(element.dataset, {steps: data.steps.length, ranks: data.ranks});
    const [first, last] = [data.steps[0], data.steps[data.steps.length - 1]];
    /** @param {TrainData['held'][number]} held */
    const sum = (held) => held.parameters + held.gradients + held.optimizer_state;
    const most = data.held[d3.maxIndex(data.held, sum)];
    const from = t('train.from_loss', {loss: lossWords(first.loss), steps: data.steps.length});
    const [parameters, gradients, state] = [most.parameters, most.gradients, most.optimizer_state].map((n) => bytes(n));
    const tokens = t('train.tokens', {tokens: number(data.tokens)});
    this.facts.replaceChildren(
      this.fact('train.last_loss', lossWords(last.loss), from),
      this.fact('train.tokens_per_s', number(Math.round(data.tokens_per_s)), tokens),
      this.fact('train.median', time(data.median_s)),
      this.fact('train.wire', bytes(data.counted_nbytes)),
      this.fact('train.parameters', number(data.parameters)),
      this.fact('train.holds', bytes(sum(most)), t('train.held', {parameters, gradients, state})),
    );
    this.drawn.alt = t('train.drawn');
    this.curve?.draw(roomIn(element));
    /** Below the heading. @param {HTMLElement} part @param {HTMLElement[]} children */
    const replace = (part, ...children) => part.replaceChildren(elements.find('h2', part), ...children);
    const spent = t('train.spent', {time: time(data.traced_s)});
    replace(this.time, make('p.train-note', {}, spent), trainTables.time(data, shell));
    replace(this.bytes, trainTables.bytes(data, shell));
    this.strategies.textContent = data.strategies.length
      ? t('train.divided', {strategies: data.strategies.join(', ')}) : t('train.undivided');
    this.mesh.redraw();
  }
}

ringtree.view('train', {mount: (element, data, shell) => new TrainView(element, data, shell)});
