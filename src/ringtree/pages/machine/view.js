'use strict';

// A machine: the bar of choices, the picture with a channel over it, the matrix, and what is said of it all.
class MachineView {
  constructor(element, data, shell) {
    Object.assign(this, {element, data, shell, pattern: -1, channel: -1, byBandwidth: false});
    const {make} = machineUnits;
    this.facts = make('p.machine-facts');
    this.bar = make('div.machine-bar');
    this.frame = make('div.machine-picture.panel');
    this.map = make('div.machine-matrix.panel');
    this.aside = make('div.machine-side.panel');
    this.ways = make('div.machine-copies.panel');
    this.tip = make('div.machine-tip', {hidden: true, role: 'tooltip'});
    element.append(this.facts, this.bar, this.frame, make('div.machine-below', {}, this.map, this.aside), this.ways, this.tip);
    this.matrix = new MachineMatrix(data, shell);
    this.copies = new MachineCopies(this.ways, data, shell);
    this.side = new MachineSide(this.aside, data, this.matrix, shell);
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
    this.help = [['R', 'machine.key_pattern'], ['← →', 'machine.key_channel'], ['0', 'machine.key_all'], ['M', 'machine.key_matrix']];
    this.notes = ['machine.note_paths', 'machine.note_bandwidth', 'machine.note_channels'];
  }

  #choose(change) {
    Object.assign(this, change);
    this.redraw();
  }

  #step(by) {
    if (this.pattern < 0) return;
    const count = this.data.channels[this.pattern].orders.length;
    this.#choose({channel: (this.channel + 1 + by + count + 1) % (count + 1) - 1});
  }

  redraw() {
    const {data, element} = this;
    const channels = data.channels[this.pattern];
    Object.assign(element.dataset, {pattern: channels ? channels.pattern : '', channel: this.channel, matrix: this.byBandwidth ? 'bandwidth' : 'path'});
    this.#drawFacts();
    this.#drawBar();
    this.#drawPicture();
    this.#drawMatrix();
    this.side.draw(this.byBandwidth);
    this.copies.draw();
  }

  #drawFacts() {
    const {t, number} = this.shell;
    const {data} = this;
    const counts = d3.rollup(data.devices, (same) => same.length, (d) => d.kind);
    const parts = ['cpu', 'pci', 'nvswitch', 'nic', 'storage', 'switch'].filter((kind) => counts.has(kind))
      .map((kind) => `${number(counts.get(kind))} × ${t(machineWords.KINDS[kind])}`);
    const gpus = counts.get('gpu') || 0;
    parts.unshift(gpus ? `${gpus} × ${data.gpu || t('machine.gpu')}` : t('machine.no_gpus'));
    if (data.joined) parts.push(t('machine.joined', {links: data.joined.links, rate: machineUnits.rate(data.joined.bandwidth_Bps)}));
    const {network} = data;
    if (network) parts.push(t('machine.cluster', {nodes: network.nodes, ranks: number(network.ranks), fabric: network.fabric, network: network.network}));
    this.facts.textContent = parts.join(' · ');
  }

  #drawBar() {
    const {make, rate} = machineUnits;
    const {data, shell: {t}} = this;
    const group = (label, ...buttons) => make('div.machine-switch', {role: 'group', ariaLabel: label}, ...buttons);
    const button = (id, text, pressed, change) => {
      const own = make('button', {type: 'button', id: `machine-${id}`, onclick: () => this.#choose(change)}, text);
      own.setAttribute('aria-pressed', pressed);
      return own;
    };
    const focused = this.bar.contains(document.activeElement) ? document.activeElement.id : '';
    this.bar.replaceChildren();
    this.bar.hidden = !data.channels.length;
    if (data.channels.length) {
      const names = data.channels.map(({pattern}, n) => button(`pattern-${n}`, t(machineWords.PATTERNS[pattern]), this.pattern === n, {pattern: n, channel: 0}));
      this.bar.append(group(t('machine.over'), button('pattern-none', t('machine.links'), this.pattern < 0, {pattern: -1}), ...names));
    }
    const channels = data.channels[this.pattern];
    if (channels) {
      const which = channels.orders.map((_, n) => button(`channel-${n}`, String(n), this.channel === n, {channel: n}));
      this.bar.append(group(t('machine.channel'), button('channel-all', t('machine.all'), this.channel < 0, {channel: -1}), ...which));
      const outside = channels.nics.length ? t('machine.outside', {rate: rate(channels.inter_Bps), kind: channels.inter}) : '';
      const speed = t('machine.inside', {count: channels.orders.length, rate: rate(channels.intra_Bps), kind: channels.intra});
      const order = this.channel >= 0 ? machineOverlay.words(channels, this.channel, t) : '';
      this.bar.append(make('span.machine-order', {data: {order}}, order || [speed, outside].filter(Boolean).join(' · ')));
    }
    if (focused) document.getElementById(focused)?.focus();
  }

  #drawPicture() {
    const room = this.frame.clientWidth - 24;
    const out = (this.out = machineLayout.layout(this.data, Math.max(room, 1200)));
    const scale = Math.min(room / (out.width + 24), 1.5);
    const svg = d3.create('svg').attr('viewBox', [-12, -4, out.width + 24, out.height + 4]).attr('width', (out.width + 24) * scale)
      .attr('height', (out.height + 4) * scale).attr('font-family', getComputedStyle(document.body).fontFamily);
    svg.attr('role', 'img').attr('aria-label', this.data.name);
    this.layers = machinePicture.draw(svg, this.data, out, this.shell);
    const channels = this.data.channels[this.pattern];
    if (channels) {
      const chosen = this.channel < 0 ? machineOverlay.distinct(channels) : [this.channel];
      this.layers.links.attr('opacity', 0.28);
      machineOverlay.draw(this.layers.overlay, this.data, out, channels, chosen, this.shell);
    }
    this.frame.replaceChildren(svg.node());
  }

  #drawMatrix() {
    const {make} = machineUnits;
    const {t} = this.shell;
    const shown = this.matrix.devices.length > 1;
    this.map.hidden = !shown;
    if (!shown) return;
    const switches = [['path', false, 'machine.by_path'], ['bandwidth', true, 'machine.by_bandwidth']].map(([name, byBandwidth, text]) => {
      const own = make('button', {type: 'button', id: `machine-${name}`, onclick: () => this.#choose({byBandwidth})}, t(text));
      own.setAttribute('aria-pressed', this.byBandwidth === byBandwidth);
      return own;
    });
    const svg = d3.create('svg').attr('font-family', getComputedStyle(document.body).fontFamily);
    const [width, height] = this.matrix.draw(svg.append('g').attr('transform', 'translate(0,16)'), this.map.clientWidth - 30, this.byBandwidth);
    svg.attr('width', width + 24).attr('height', height + 20).attr('viewBox', [0, 0, width + 24, height + 20]);
    const head = make('div.machine-head', {}, make('h2', {}, t('machine.matrix')), make('div.machine-switch', {role: 'group'}, ...switches));
    this.map.replaceChildren(head, svg.node());
  }

  #point(event) {
    const {data, matrix, shell: {t}} = this;
    const node = event.target.closest('[data-device],[data-number],[data-hop],.cell,.cells');
    const bound = node && d3.select(node).datum();
    const cell = bound && (bound.image ? matrix.at(node, event) : bound.row === undefined ? null : bound);
    if (!bound || (bound.image && !cell)) return this.#leave();
    let said = null;
    if (cell) said = machineWords.cell(data, matrix, cell, t);
    else if (bound.hop) said = machineWords.hop(data, bound.hop, t);
    else if (bound.link !== undefined) said = machineWords.link(data, bound.link, t);
    else if (bound.device >= 0) said = machineWords.device(data, bound.device, t);
    if (!said) return this.#leave();
    this.#light(cell ? matrix.route(cell.row, cell.column) : bound.link !== undefined ? [bound.link] : []);
    this.#show(said, event);
  }

  #light(links) {
    const lit = new Set(links);
    this.layers.links.selectAll('[data-number]').attr('opacity', (d) => (!lit.size ? 0.75 : lit.has(d.link) ? 1 : 0.15));
    this.layers.links.selectAll('[data-number]').attr('data-lit', (d) => (lit.has(d.link) ? '' : null));
  }

  #show({title, lines}, event) {
    const {make} = machineUnits;
    const rows = lines.map(([name, value]) => make('tr', {}, make('th', {}, name), make('td', {}, value)));
    this.tip.replaceChildren(make('strong', {}, title), make('table', {}, ...rows));
    this.tip.hidden = false;
    const {offsetWidth: w, offsetHeight: h} = this.tip;
    const left = event.clientX + 16 + w > innerWidth ? event.clientX - 12 - w : event.clientX + 16;
    Object.assign(this.tip.style, {left: `${Math.max(4, left)}px`, top: `${Math.max(4, Math.min(event.clientY + 14, innerHeight - h - 8))}px`});
  }

  #leave() {
    this.tip.hidden = true;
    this.#light([]);
  }

  // The picture, and the matrix below it.
  svg() {
    const parts = [...this.element.querySelectorAll('.machine-picture svg, .machine-matrix svg')].map((svg) => svg.cloneNode(true));
    const sizes = parts.map((svg) => [Number(svg.getAttribute('width')), Number(svg.getAttribute('height'))]);
    const [width, height] = [d3.max(sizes, ([w]) => w) + 32, d3.sum(sizes, ([, h]) => h) + 16 * (parts.length + 1)];
    const whole = d3.create('svg').attr('width', width).attr('height', height).attr('viewBox', [0, 0, width, height]);
    whole.append('rect').attr('width', width).attr('height', height).attr('fill', this.shell.colours.page);
    let y = 16;
    parts.forEach((svg, i) => {
      d3.select(svg).attr('x', 16).attr('y', y);
      whole.node().append(svg);
      y += sizes[i][1] + 16;
    });
    return whole.node();
  }
}

ringtree.view('machine', {mount: (element, data, shell) => new MachineView(element, data, shell)});
