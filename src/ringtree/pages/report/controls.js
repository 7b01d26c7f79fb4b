'use strict';

// The bar of choices, and the legend.
class ReportControls {
  bar = make('div.report-bar');
  legend = make('div.report-legend');

  /**
   * `changed` is called after a choice, `pointed` for a line in the legend.
   * @param {ReportData} data @param {ReportChoice} choice @param {Shell} shell
   * @param {{changed(): void, pointed(line: number | null): void}} handlers
   */
  constructor(data, choice, shell, {changed, pointed}) {
    this.data = data;
    this.choice = choice;
    this.shell = shell;
    this.changed = changed;
    this.pointed = pointed;
  }

  draw() {
    const {choice, data, shell} = this;
    const {t} = shell;
    const [ranks, sizes] = [choice.distinct('ranks'), choice.distinct('nbytes')];
    /** @param {string} text @param {boolean} isOn @param {() => void} choose @param {boolean} isThere */
    const entry = (text, isOn, choose, isThere) =>
      ({id: text.replace('.', '-'), words: t(text), isOn, choose, disabled: !isThere});
    refill(
      this.bar,
      this.#select('report.what', 'what', [...data.whats.keys()], (i) => reportWhat(data, i)),
      this.#select('report.ranks', 'ranks', ranks, (n) => shell.number(n)),
      ...(ranks.length > 1 ? [this.#select('report.size', 'nbytes', sizes, (n) => figures.bytes(n))] : []),
      ...(data.predicted ? [] : [
        choices(null, ...['report.out_of_place', 'report.in_place'].map((text, i) =>
          entry(text, choice.inPlace === i, () => this.#choose({inPlace: i}), choice.hasSide(i)))),
        choices(null, ...['report.median', 'report.min'].map((text, i) =>
          entry(text, choice.min === i, () => this.#choose({min: i}), choice.has(2 * choice.inPlace + i)))),
      ]),
    );
    refill(this.legend, ...choice.lines().map((line) => this.#entry(line)));
  }

  /** @param {Partial<Chosen>} change */
  #choose(change) {
    this.choice.set(change);
    this.changed();
  }

  /**
   * @param {string} text @param {keyof Chosen} name @param {number[]} values @param {(value: number) => string} format
   */
  #select(text, name, values, format) {
    const options = values.map((value, i) => new Option(format(value), `${i}`, false, value === this.choice[name]));
    const list = make('select', {id: text.replace('.', '-'), disabled: values.length < 2}, ...options);
    list.onchange = () => this.#choose({[name]: values[list.selectedIndex]});
    return make('label', {}, this.shell.t(text), list);
  }

  /** @param {number} line */
  #entry(line) {
    const name = this.data.lines[line];
    const button = make('button', {
      type: 'button', id: `report-line-${line}`, title: this.shell.t('report.legend_hint'), data: {line: name},
      ariaPressed: `${!this.choice.hidden.has(line)}`,
    }, reportSwatch(line, this.shell), name);
    button.onclick = (event) => {
      this.choice.toggle(line, event.shiftKey);
      this.changed();
    };
    button.onpointerenter = () => this.pointed(line);
    button.onpointerleave = () => this.pointed(null);
    return button;
  }
}
