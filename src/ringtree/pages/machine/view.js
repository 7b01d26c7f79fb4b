'use strict';

// A machine: the bar of choices, the picture with a channel over it, the matrix, and the notes.
/** @typedef {Partial<Pick<MachineView, 'pattern' | 'channel' | 'byBandwidth'>>} MachineChoice */
class MachineView {
  pattern = -1;
  channel = -1;
  byBandwidth = false;
  facts = make('p.machine-facts');
  bar = make('div.machine-bar');
  frame = make('div.machine-picture.panel');
  map = make('div.machine-matrix.panel');
  aside = make('div.machine-side.panel');
  ways = make('div.machine-copies.panel');
  links = draw('g', {});
  help = [
    ['R', 'machine.key_pattern'], ['← →', 'machine.key_channel'], ['0', 'machine.key_all'], ['M', 'machine.key_matrix'],
  ];
  notes = ['machine.note_paths', 'machine.note_bandwidth', 'machine.note_channels'];

  /** @param {HTMLElement} element @param {MachineData} data @param {Shell} shell */
  constructor(element, data, shell) {
    this.element = element;
    this.data = data;
    this.shell = shell;
    element.append(this.facts, this.bar, this.frame, make('div.machine-below', {}, this.map, this.aside), this.ways);
    this.tip = elements.tooltip(element, 'machine-tip');
    this.matrix = new MachineMatrix(data, shell);
    for (const part of [this.frame, this.map]) {
      part.addEventListener('pointermove', (event) => this.#point(event));
      part.addEventListener('pointerleave', () => this.#leave());
    }
    this.keys = {
      ArrowRight: () => this.#step(1), ArrowLeft: () => this.#step(-1),
      r: () => this.#choose({pattern: this.pattern + 1 < data.channels.length ? this.pattern + 1 : -1, channel: 0}),
      m: () => this.#choose({byBandwidth: !this.byBandwidth}),
      0: () => this.#choose({channel: -1}),
    };
  }

  /** @param {MachineChoice} change */
  #choose(change) {
    Object.assign(this, change);
    this.redraw();
  }

  /** @param {number} by */
  #step(by) {
    if (this.pattern < 0) return;
    const count = this.data.channels[this.pattern].orders.length;
    this.#choose({channel: (this.channel + 1 + by + count + 1) % (count + 1) - 1});
  }

  redraw() {
    const {data, element} = this;
    const pattern = data.channels[this.pattern]?.pattern ?? '';
    Object.assign(element.dataset, {pattern, channel: this.channel, matrix: this.byBandwidth ? 'bandwidth' : 'path'});
    this.#drawFacts();
    this.#drawBar();
    this.#drawPicture();
    this.#drawMatrix();
    this.aside.replaceChildren(...machineSide(data, this.matrix, this.byBandwidth, this.shell));
    this.ways.replaceChildren(...machineRoutes(data, this.shell));
    this.ways.hidden = !data.ways.length;
  }

  #drawFacts() {
    const {t, number} = this.shell;
    const {devices, gpu, joined, network} = this.data;
    const counts = d3.rollup(devices, (same) => same.length, (d) => d.kind);
    const gpus = counts.get('gpu') ?? 0;
    const parts = [gpus ? `${gpus} × ${gpu || t('machine.gpu')}` : t('machine.no_gpus')];
    for (const kind of /** @type {const} */ (['cpu', 'pci', 'nvswitch', 'nic', 'storage', 'switch'])) {
      const count = counts.get(kind);
      if (count) parts.push(`${number(count)} × ${t(machineWords.KINDS[kind])}`);
    }
    if (joined) parts.push(t('machine.joined', {links: joined.links, rate: figures.rate(joined.bandwidth_Bps)}));
    if (network) parts.push(t('machine.cluster', {...network, ranks: number(network.ranks)}));
    this.facts.textContent = parts.join(' · ');
  }

  /** @param {string} name @param {string} words @param {boolean} isOn @param {MachineChoice} change */
  #entry(name, words, isOn, change) {
    return {id: `machine-${name}`, words, isOn, choose: () => this.#choose(change)};
  }

  #drawBar() {
    const {pattern, channel, data, shell: {t}} = this;
    this.bar.hidden = !data.channels.length;
    const over = choices(t('machine.over'), this.#entry('pattern-none', t('machine.links'), pattern < 0, {pattern: -1}),
      ...data.channels.map((own, n) =>
        this.#entry(`pattern-${n}`, t(machineWords.PATTERNS[own.pattern]), pattern === n, {pattern: n, channel: 0})));
    const channels = data.channels[pattern];
    if (!channels) {
      refill(this.bar, over);
      return;
    }
    const {orders, nics, intra, inter, intra_Bps, inter_Bps} = channels;
    const which = choices(t('machine.channel'),
      this.#entry('channel-all', t('machine.all'), channel < 0, {channel: -1}),
      ...orders.map((_, n) => this.#entry(`channel-${n}`, String(n), channel === n, {channel: n})));
    const speed = t('machine.inside', {count: orders.length, rate: figures.rate(intra_Bps), kind: intra});
    const outside = nics.length ? [t('machine.outside', {rate: figures.rate(inter_Bps), kind: inter})] : [];
    const order = channel >= 0 ? machineOverlay.words(channels, channel, t) : '';
    const words = order || [speed, ...outside].join(' · ');
    refill(this.bar, over, which, make('span.machine-order', {data: {order}}, words));
  }

  #drawPicture() {
    const room = this.frame.clientWidth - 24;
    const out = machineLayout.layout(this.data, Math.max(room, 1200));
    const [width, height] = [out.width + 24, out.height + 4];
    const scale = Math.min(room / width, 1.5);
    const {boxes, links, devices, overlay} = machinePicture.layers(this.data, out, this.shell);
    const channels = this.data.channels[this.pattern];
    if (channels) {
      const chosen = this.channel < 0 ? machineOverlay.distinct(channels) : [this.channel];
      links.setAttribute('opacity', '0.28');
      overlay.append(...machineOverlay.layers(this.data, out, channels, chosen, this.shell));
    }
    this.links = links;
    this.frame.replaceChildren(draw('svg', {
      viewBox: `-12,-4,${width},${height}`, width: width * scale, height: height * scale,
      'font-family': this.shell.font, role: 'img', 'aria-label': this.data.name,
    }, boxes, links, devices, overlay));
  }

  #drawMatrix() {
    const {byBandwidth, shell: {t}} = this;
    this.map.hidden = this.matrix.devices.length < 2;
    if (this.map.hidden) return;
    const by = choices(null,
      this.#entry('path', t('machine.by_path'), !byBandwidth, {byBandwidth: false}),
      this.#entry('bandwidth', t('machine.by_bandwidth'), byBandwidth, {byBandwidth: true}));
    const head = make('div.machine-head', {}, make('h2', {}, t('machine.matrix')), by);
    refill(this.map, head, this.matrix.draw(this.map.clientWidth - 30, byBandwidth));
  }

  /** @param {PointerEvent} event */
  #point(event) {
    const {data, matrix, shell: {t}} = this;
    const target = /** @type {Element} */ (event.target);
    const node = target.closest('[data-device],[data-number],[data-hop],.cell,.cells');
    const bound = node && /** @type {Bound} */ (d3.select(node).datum());
    if (!bound) return this.#leave();
    const {row, column, hop, link, device = -1, isImage} = bound;
    const cell = isImage ? matrix.at(node, event) : row !== undefined && column !== undefined ? {row, column} : null;
    let tip = null;
    if (cell) tip = machineWords.cell(matrix, cell, t);
    else if (hop) tip = machineWords.hop(data, hop, t);
    else if (link !== undefined) tip = machineWords.link(data, link, t);
    else if (device >= 0) tip = machineWords.device(data, device, t);
    if (!tip) return this.#leave();
    this.#light(cell ? matrix.route(cell) : link !== undefined ? [link] : []);
    return this.tip.show(tip, event);
  }

  /** @param {number[]} links */
  #light(links) {
    const lit = new Set(links);
    for (const line of this.links.querySelectorAll('[data-number]')) {
      const isLit = lit.has(Number(line.getAttribute('data-number')));
      line.setAttribute('opacity', `${!lit.size ? 0.75 : isLit ? 1 : 0.15}`);
      line.toggleAttribute('data-lit', isLit);
    }
  }

  #leave() {
    this.tip.hide();
    this.#light([]);
  }

  // The picture, and the matrix below it.
  svg() {
    const shown = [...this.element.querySelectorAll('.machine-picture svg, .machine-matrix svg')];
    const parts = shown.map((svg) => /** @type {SVGElement} */ (svg.cloneNode(true)));
    const sizes = parts.map((svg) => ['width', 'height'].map((name) => Number(svg.getAttribute(name))));
    const width = Math.max(...sizes.map(([w]) => w)) + 32;
    const height = d3.sum(sizes, ([, h]) => h) + 16 * (parts.length + 1);
    let y = 16;
    parts.forEach((svg, i) => {
      d3.select(svg).attr('x', 16).attr('y', y);
      y += sizes[i][1] + 16;
    });
    return draw('svg', {width, height, viewBox: `0,0,${width},${height}`},
      draw('rect', {width, height, fill: this.shell.colours.page}), ...parts);
  }
}

ringtree.view('machine', {mount: (element, data, shell) => new MachineView(element, data, shell)});
