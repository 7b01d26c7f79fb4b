'use strict';

// The ways to bring data from one GPU to another, side by side: the memories and cards that it goes through.
class MachineCopies {
  /** @param {HTMLElement} element @param {MachineData} data @param {Shell} shell */
  constructor(element, data, shell) {
    this.element = element;
    this.data = data;
    this.shell = shell;
  }

  draw() {
    const {rate, time} = figures;
    const {t} = this.shell;
    this.element.hidden = !this.data.ways.length;
    const head = ['', 'machine.way', 'machine.stops', 'machine.bandwidth', 'machine.of_1MiB', 'machine.copies'];
    const top = make('tr', {}, ...head.map((text) => make('th', {}, text && t(text))));
    const rows = this.data.ways.map((way) => make(
      `tr${way.applies ? '.taken' : ''}`, {title: way.why, data: {way: way.way, stops: way.stops, applies: way.applies}},
      make('td', {}, way.applies ? '✓' : ''),
      make('th', {}, way.way),
      make('td.number', {}, String(way.stops)),
      make('td.number', {}, rate(way.bandwidth_Bps)),
      make('td.number', {}, time(way.MiB_s)),
      make('td', {}, this.#chain(way)),
    ));
    this.element.replaceChildren(make('h2', {}, t('machine.ways', {from: this.data.between[0], to: this.data.between[1]})),
      make('table.machine-ways', {}, make('thead', {}, top), make('tbody', {}, ...rows)));
  }

  /** A chip a place, an arrow a copy; where the data lands in a memory, the chip is filled. @param {DeviceWay} way */
  #chain(way) {
    const {rate, time} = figures;
    const {t} = this.shell;
    const chain = make('div.machine-chain');
    way.copies.forEach((copy, i) => {
      if (i === 0) chain.append(make('span.chip.memory', {}, copy.source));
      const slow = copy.bandwidth_Bps <= way.bandwidth_Bps * 1.0001;
      const title = t('machine.copy', {what: copy.what, by: copy.by, rate: rate(copy.bandwidth_Bps), latency: time(copy.latency_s)});
      chain.append(make(`span.arrow${slow ? '.slow' : ''}`, {title, data: {copy: copy.what, by: copy.by, bandwidthBps: copy.bandwidth_Bps}}, make('small', {}, copy.what), ' → '));
      chain.append(make(`span.chip${copy.lands ? '.memory' : ''}`, {}, copy.target));
    });
    return chain;
  }
}
