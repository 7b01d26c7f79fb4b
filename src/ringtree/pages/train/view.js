'use strict';

// A run of training: what came out, the loss, where a step's time went, its bytes, and who talks to whom.
class TrainView {
  constructor(element, data, shell) {
    Object.assign(this, {element, data, shell});
    const section = (title) => {
      const part = ringtree.make('section.train-part', {data: {part: title.split('.')[1]}}, ringtree.make('h2', {data: {t: title}}));
      element.append(part);
      return part;
    };
    this.facts = ringtree.make('div.train-facts');
    element.append(this.facts);
    const loss = section('train.loss');
    this.curve = data.steps.filter((step) => typeof step.loss === 'number').length > 1 ? new TrainCurve(loss, data, shell) : null;
    loss.hidden = !this.curve;
    [this.time, this.bytes] = ['train.time', 'train.bytes'].map(section);
    this.calls = data.picture ? section('train.calls') : null;
    if (this.calls) {
      this.drawn = ringtree.make('img.train-picture', {src: `data:image/svg+xml,${encodeURIComponent(data.picture)}`});
      this.calls.append(this.drawn);
    }
    const plan = section('train.plan');
    this.strategies = ringtree.make('p.train-said');
    plan.append(this.strategies);
    this.mesh = new TrainMesh(plan, data, shell);
    this.keys = {ArrowLeft: () => this.mesh.step(-1), ArrowRight: () => this.mesh.step(1)};
    this.help = [['← →', 'train.key_axis']];
    this.notes = ['train.note_time', 'train.note_bytes'];
    if (this.curve) this.svg = () => this.curve.picture();
  }

  redraw() {
    const {element, data, shell} = this;
    const {t, number} = shell;
    Object.assign(element.dataset, {steps: data.steps.length, ranks: data.ranks});
    const [first, last] = [data.steps[0], data.steps.at(-1)];
    const {size} = trainUnits;
    const sum = (held) => held.parameters + held.gradients + held.optimizer_state;
    const most = data.held[d3.maxIndex(data.held, sum)];
    const fact = (name, value, more = '') => ringtree.make('div.train-fact', {data: {fact: name.split('.')[1]}},
      ringtree.make('b', {}, value), ringtree.make('span', {}, t(name)), ringtree.make('small', {}, more));
    this.facts.replaceChildren(
      fact('train.last_loss', trainUnits.loss(last.loss), t('train.from_loss', {loss: trainUnits.loss(first.loss), steps: data.steps.length})),
      fact('train.tokens_per_s', number(Math.round(data.tokens_per_s)), t('train.tokens', {tokens: number(data.tokens)})),
      fact('train.median', trainUnits.time(data.median_s)),
      fact('train.wire', trainUnits.size(data.counted_nbytes)),
      fact('train.parameters', number(data.parameters)),
      fact('train.holds', size(sum(most)), t('train.held', {parameters: size(most.parameters), gradients: size(most.gradients), state: size(most.optimizer_state)})),
    );
    if (this.drawn) this.drawn.alt = t('train.drawn');
    if (this.curve) this.curve.draw(element.clientWidth - 2 * parseFloat(getComputedStyle(element).paddingLeft));
    const replace = (part, ...children) => part.replaceChildren(part.firstChild, ...children);
    const spent = t('train.spent', {time: trainUnits.time(data.traced_s)});
    replace(this.time, ringtree.make('p.train-said', {}, spent), trainTables.time(data, shell));
    replace(this.bytes, trainTables.bytes(data, shell));
    this.strategies.textContent = data.strategies.length
      ? t('train.divided', {strategies: data.strategies.join(', ')}) : t('train.undivided');
    this.mesh.redraw();
  }
}

ringtree.view('train', {mount: (element, data, shell) => new TrainView(element, data, shell)});
