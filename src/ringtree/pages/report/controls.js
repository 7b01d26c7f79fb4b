'use strict';

// The bar of choices, and the legend.
class ReportControls {
  // `changed()` is called after a choice, `pointed(line or null)` for a line in the legend.
  constructor(element, data, choice, shell, {changed, pointed}) {
    Object.assign(this, {data, choice, shell, changed, pointed});
    this.bar = reportPart(element, 'div', 'report-bar');
    this.legend = document.createElement('div');
    this.legend.className = 'report-legend';
  }

  draw() {
    this.#drawBar();
    this.legend.replaceChildren(...this.choice.lines().map((line) => this.#drawEntry(line)));
  }

  #choose(change) {
    this.choice.set(change);
    this.changed();
  }

  #drawBar() {
    const {bar, choice, data, shell} = this;
    const focused = bar.contains(document.activeElement) ? document.activeElement.id : '';
    bar.replaceChildren();
    const whats = data.whats.map((_, i) => i);
    this.#select('report.what', 'what', whats, (i) => data.whats[i].join(' '));
    this.#select('report.ranks', 'ranks', choice.distinct('ranks'), shell.number);
    if (choice.distinct('ranks').length > 1) this.#select('report.size', 'nbytes', choice.distinct('nbytes'), sizeText);
    this.#switch('inPlace', ['report.out_of_place', 'report.in_place'], (i) => choice.has(2 * i) || choice.has(2 * i + 1));
    this.#switch('min', ['report.median', 'report.min'], (i) => choice.has(2 * choice.inPlace + i));
    if (focused) document.getElementById(focused)?.focus();
  }

  #select(text, name, values, format) {
    const label = reportPart(this.bar, 'label', '');
    label.append(this.shell.t(text));
    const list = reportPart(label, 'select', '');
    list.id = text.replace('.', '-');
    values.forEach((value, i) => list.add(new Option(format(value), i, false, value === this.choice[name])));
    list.disabled = values.length < 2;
    list.onchange = () => this.#choose({[name]: values[list.value]});
  }

  #switch(name, texts, isThere) {
    const group = reportPart(this.bar, 'div', 'report-switch');
    group.setAttribute('role', 'group');
    texts.forEach((text, i) => {
      const button = reportPart(group, 'button', '');
      Object.assign(button, {type: 'button', id: text.replace('.', '-'), textContent: this.shell.t(text)});
      button.setAttribute('aria-pressed', this.choice[name] === i);
      button.disabled = !isThere(i);
      button.onclick = () => this.#choose({[name]: i});
    });
  }

  #drawEntry(line) {
    const button = document.createElement('button');
    Object.assign(button, {type: 'button', title: this.shell.t('report.legend_hint')});
    button.dataset.line = this.data.lines[line];
    button.setAttribute('aria-pressed', !this.choice.hidden.has(line));
    button.append(reportSwatch(line, this.shell), this.data.lines[line]);
    button.onclick = (event) => {
      this.choice.toggle(line, event.shiftKey);
      this.changed();
    };
    button.onpointerenter = () => this.pointed(line);
    button.onpointerleave = () => this.pointed(null);
    return button;
  }
}
